#!/usr/bin/env python3
"""A machine whose clock was wrong, by years, when the daemon ran before: what
counts by elapsed time goes on by that, and nothing waits for those years. And
one whose clock is set while the daemon runs, or is down for a moment."""
import os
import struct
import time
import unittest

import ctl
import harness
from harness import wait_for

YEARS = 10 * 365 * 86400
TIMES = """
local seen = {}
return {
    _default = function(_, ev)
        local late = ev.late and ev.late > 3600
        seen[#seen + 1] = ev.event .. (late and "/late" or "")
    end,
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


DAY = 86400


@unittest.skipUnless("SHIFT_CLOCK_SO" in os.environ, "a sanitizer's")
class ClockIsSet(ctl.TestCase):
    """By a day, to and fro."""

    def setUp(self):
        super().setUp()
        root = self.daemon.root
        self.path = os.path.join(root, "clock")
        self.set_clock(0)
        self.daemon.configure("[Store]", f"Path={os.path.join(root, 'store')}")
        self.daemon.session("times", "Alias=times", script=TIMES,
                            mailbox=("Durable=yes",))
        self.run_it()

    def set_clock(self, shift):
        mode = "r+b" if os.path.exists(self.path) else "wb"
        with open(self.path, mode) as f:
            f.write(struct.pack("=q", shift))

    def run_it(self):
        self.daemon.notices.clear()
        self.daemon.start(environment={
            "LD_PRELOAD": os.environ["SHIFT_CLOCK_SO"],
            "SHIFT_CLOCK_FILE": self.path})

    def down(self, shift):
        """Killed, and started by another clock."""
        self.daemon.process.kill()
        self.daemon.wait()
        self.set_clock(shift)
        self.run_it()

    def seen(self):
        return self.ctl("call", "times", "seen").decode().split()

    def await_seen(self, *events):
        wait_for(lambda: sorted(self.seen()) == sorted(events), events)

    def due_in(self, shift):
        """The pending timers' events, and in how many seconds of that clock."""
        now = time.time() + shift
        return {t["event"]: t["due_ns"] / 1e9 - now
                for t in self.objects("timers", "times")}

    def set_both(self, event, *words):
        self.ctl("delay", "times", event, *words, "--volatile")
        self.ctl("delay", "times", event + "2", *words, "--durable")

    # B28
    def test_an_alarm_fires_once_and_says_how_late(self):
        self.set_both("alarm", "--at", f"@{int(time.time()) + 3600}")
        self.set_both("next", "--at", f"@{int(time.time()) + 3 * DAY}")
        self.set_clock(DAY)
        self.await_seen("alarm/late", "alarm2/late")
        self.set_clock(-DAY)
        self.set_clock(DAY)
        self.ctl("delay", "times", "mark", "--in", "1ms")
        self.await_seen("alarm/late", "alarm2/late", "mark")
        self.assertEqual(sorted(self.due_in(DAY)), ["next", "next2"])

    # B28
    def test_an_alarm_that_passed_while_it_was_down(self):
        at = f"@{int(time.time()) + 3600}"
        self.ctl("delay", "times", "alarm", "--at", at, "--durable")
        self.down(-DAY)
        self.assertAlmostEqual(self.due_in(-DAY)["alarm"], DAY + 3600,
                               delta=60)
        self.down(DAY)
        self.await_seen("alarm/late")
        self.down(0)
        self.assertEqual(self.due_in(0), {})  # its event may be seen twice

    # B29
    def test_elapsed_time_does_not_heed_it(self):
        self.set_both("delay", "--in", "1h")
        self.set_both("boot", "--in", "1h", "--clock", "boottime")
        self.set_both("tick", "--in", "1h", "--every", "1h")
        for shift in (DAY, -DAY, 0):
            self.set_clock(shift)
            for event, left in self.due_in(shift).items():
                self.assertAlmostEqual(left, 3600, delta=60, msg=event)
        for shift in (DAY, -DAY):
            self.down(shift)
            due = self.due_in(shift)
            self.assertEqual(sorted(due), ["boot2", "delay2", "tick2"])
            for event, left in due.items():
                self.assertAlmostEqual(left, 3600, delta=60, msg=event)
        self.assertEqual(self.seen(), [])

    # B29
    def test_what_is_due_soon_comes_when_the_clock_is_set_back(self):
        self.set_both("delay", "--in", "500ms")
        self.set_clock(-DAY)
        self.await_seen("delay", "delay2")

    # B28: its misfire rule says; set back by more than hours, it begins anew
    def test_a_calendar_goes_by_the_clock(self):
        on = time.strftime("%H:%M", time.gmtime(time.time() + 7200))
        for rule in ("once", "skip"):
            self.ctl("delay", "times", rule, "--on", on, "--zone", "UTC",
                     "--misfire", rule)
        self.set_clock(3 * DAY)
        self.await_seen("once/late")
        for shift in (3 * DAY, -DAY):
            self.set_clock(shift)
            wait_for(lambda: [0 < left <= DAY for left in
                              self.due_in(shift).values()] == [True] * 2,
                     "their next times")
        self.assertEqual(self.seen(), ["once/late"])


if __name__ == "__main__":
    harness.main()
