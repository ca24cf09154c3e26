#!/usr/bin/env python3
"""A machine whose clock was wrong, by years, when the daemon ran before: what
counts by elapsed time goes on by that, and nothing waits for those years."""
import os
import time
import unittest

import ctl
import harness
from harness import wait_for

YEARS = 10 * 365 * 86400
TIMES = """
local seen = {}
return {
    _default = function(_, ev) seen[#seen + 1] = ev.event end,
    seen = function() return table.concat(seen, " ") end,
}
"""


@unittest.skipUnless("SHIFT_CLOCK_SO" in os.environ, "a sanitizer's")
class WrongClock(ctl.TestCase):
    def setUp(self):
        super().setUp()
        self.daemon.configure(
            "[Store]", f"Path={os.path.join(self.daemon.root, 'store')}")
        self.daemon.session("jobs", "Alias=jobs", "Kind=client",
                            mailbox=("Durable=yes", "Lease=100ms",
                                     "RetryDelay=200ms"))

    def run_at(self, shift):
        """The daemon, anew, with that clock; the last one is killed."""
        if self.daemon.process:
            self.daemon.process.kill()
            self.daemon.wait()
        self.daemon.notices.clear()
        self.daemon.start(environment={
            "LD_PRELOAD": os.environ["SHIFT_CLOCK_SO"],
            "SHIFT_CLOCK": str(shift)})

    def events(self, which):
        return self.object("status", "jobs")["events"][which]

    def consumer(self):
        c = self.daemon.client()
        self.assertEqual(
            harness.first(c.request("bind", (1, "jobs"), (2, 1)), 2), 0)
        return c

    # B49: it is there, and nobody would have seen it for ten years
    def test_what_rests_comes_when_it_has_rested(self):
        for shift in (YEARS, -YEARS):
            self.run_at(shift)
            c = self.consumer()
            self.ctl("post", "jobs", "a")
            c.until(lambda: c.deliveries)
            wait_for(lambda: "rests" in self.text_of("jobs"), "its rest")
            self.run_at(0)
            c = self.consumer()
            c.until(lambda: c.deliveries)
            self.assertGreater(harness.first(c.deliveries[0], 14), 0)
            c.send((3, harness.message((1, 1), (2, 1))))
            wait_for(lambda: self.events("leased") == 0, "its end")

    def text_of(self, alias):
        event = self.objects("queue", "peek", alias)
        return "" if event else "rests"

    # B28
    def test_the_time_to_live_is_not_longer_than_it_was(self):
        self.run_at(YEARS)
        self.ctl("post", "jobs", "a", "--ttl", "200ms")
        self.ctl("post", "jobs", "b", "--ttl", "1h")
        self.run_at(0)
        end = time.monotonic() + 0.4
        wait_for(lambda: time.monotonic() > end, "its end")
        c = self.consumer()
        c.until(lambda: c.deliveries)
        self.assertEqual(harness.first(c.deliveries[0], 3), b"b")
        self.assertEqual(self.events("expired"), 1)

    # B28, B29
    def test_schedules_and_delays_are_not_years_away(self):
        self.daemon.session("times", "Alias=times", script=TIMES,
                            mailbox=("Durable=yes", "[Schedule]",
                                     "minute=minutely", "Persistent=yes"))
        self.run_at(YEARS)
        self.ctl("delay", "times", "soon", "--in", "1s", "--durable")
        self.ctl("delay", "times", "later", "--in", "1h", "--durable")
        self.run_at(0)
        timers = {t["event"]: t["due_ns"] / 1e9
                  for t in self.objects("timers", "times")}
        self.assertLess(timers["minute"], time.time() + 61)
        self.assertLess(timers["later"], time.time() + 3601)
        wait_for(lambda: b"soon" in self.ctl("call", "times", "seen"), "soon")


if __name__ == "__main__":
    harness.main()
