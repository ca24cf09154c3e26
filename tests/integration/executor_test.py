#!/usr/bin/env python3
"""Executors: pools in eventd.conf, sessions on them, changing them live."""
import os
import unittest

import ctl
from harness import wait_for

HEARS_SIGNALS = unittest.skipIf(
    os.environ.get("SANITIZE") == "thread", "TSan holds signals back")

COUNT = """
local n = 0
return {
    ping = function() end,
    add = function() n = n + 1 end,
    count = function() return n end,
    spin = function(loops) for i = 1, loops do n = n + 0 end end,
}
"""


class Executors(ctl.TestCase):
    def out(self, *words):
        return self.ctl(*words).decode()

    def fails(self, *words, code, text):
        self.ctl(*words, code=code)
        self.assertIn(text, self.err)

    def state(self, alias):
        return self.object("status", alias)

    def test_pools_and_what_they_run(self):
        self.daemon.configure("BusyPoll=20", "[Pool mine]",
                              "Type=threadpool", "Threads=2")
        for name in ("worker", "threadpool", "leader", "mine"):
            self.daemon.session(name, f"Executor={name}", script=COUNT)
        self.daemon.session("plain", script=COUNT)
        self.daemon.start()
        for name in ("worker", "threadpool", "leader", "mine", "plain"):
            for _ in range(20):
                self.out("post", name, "add")
            self.assertEqual(self.out("call", name, "count"), "20")
            executor = self.state(name)["executor"]
            self.assertEqual(executor, "loop" if name == "plain" else name)
        pools = self.object("status")["pools"]
        self.assertEqual({p["name"] for p in pools},
                         {"worker", "threadpool", "leader", "mine"})
        self.assertTrue(all(p["runs"] >= 21 for p in pools), pools)

    def test_an_executor_changes_while_the_session_works(self):
        self.daemon.session("a", script=COUNT)
        self.daemon.start()
        client = self.daemon.client()
        for name in ("worker", "leader", "threadpool", "loop") * 3:
            for _ in range(100):
                client.post_soon("a", "add")
            report = self.object("session", "executor", "a", name,
                                 "--probe", "ping", "-n", "20")
            self.assertEqual(report["executor"], name)
            self.assertGreater(report["latency"]["p50_ns"], 0)
        wait_for(lambda: self.out("call", "a", "count") == "1200", "all")
        events = self.state("a")["events"]
        self.assertEqual(events["accepted"], events["handled"])

    def test_what_is_wrong_is_said(self):
        self.daemon.session("a", script=COUNT)
        self.daemon.session("g", "Kind=client")
        self.daemon.start()
        self.fails("session", "executor", "a", "nope", code=64,
                   text="there are loop, worker, threadpool, leader")
        self.fails("session", "executor", "g", "worker", code=76,
                   text="run by its loop alone")
        self.fails("session", "executor", "nobody", "worker", code=68,
                   text="no session holds")

    @HEARS_SIGNALS
    def test_what_holds_up_its_loop_is_named_and_moved(self):  # B62 B94
        self.daemon.session("a", "Loop=1", "HandlerTimeout=0",
                            "OnStall=move", script=COUNT)
        self.daemon.start("--loops", "2",
                          environment={"WATCHDOG_USEC": "200000"})
        client = self.daemon.client()
        client.post_soon("a", "spin", b"300000000")
        self.daemon.logged('loop.stuck loop=1 session="a" event="spin"')
        self.daemon.logged('session.moved session="a" executor="worker"')
        self.assertEqual(self.state("a")["executor"], "worker")


if __name__ == "__main__":
    unittest.main()
