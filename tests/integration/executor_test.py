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

    def reload(self):
        return self.object("reload")

    def test_a_changed_executor_moves_the_session(self):
        self.daemon.session("a", "Executor=worker", script=COUNT)
        self.daemon.session("b", script=COUNT)
        self.daemon.start()
        client = self.daemon.client()
        for i, name in enumerate(("leader", "loop", "threadpool", None), 1):
            for _ in range(100):
                client.post_soon("a", "add")
            self.daemon.session("a", *[f"Executor={name}"] if name else [],
                                script=COUNT)
            self.assertEqual(self.reload()["changed"], ["a"])
            wait_for(lambda: self.state("a")["executor"] == (name or "loop"),
                     "the executor")
            # Its count goes on, so it has not been started again.
            wait_for(lambda: self.out("call", "a", "count") == str(100 * i),
                     "all")
        self.assertEqual(self.reload()["changed"], [])
        self.out("restart", "a")
        self.assertEqual(self.state("a")["executor"], "loop")

    def test_a_restart_has_the_executor_of_the_file(self):
        self.daemon.session("a", script=COUNT)
        self.daemon.start()
        self.daemon.session("a", "Executor=worker", script=COUNT)
        self.reload()
        self.out("restart", "a")
        self.assertEqual(self.state("a")["executor"], "worker")

    def test_pools_change_at_a_reload(self):
        self.daemon.configure("[Pool mine]", "Threads=1")
        self.daemon.session("a", "Executor=mine", script=COUNT)
        self.daemon.session("b", script=COUNT)
        self.daemon.start()
        self.out("session", "executor", "b", "mine")
        for name in "ab":
            self.out("post", name, "add")
        # Other threads, another pool beside it.
        self.daemon.configure("[Pool mine]", "Threads=3", "CPUAffinity=0",
                              "BusyPoll=10", "[Pool more]", "Type=leader")
        self.daemon.session("b", "Executor=more", script=COUNT)
        self.assertEqual(self.reload()["changed"], ["b"])
        wait_for(lambda: self.state("b")["executor"] == "more", "b moved")
        # It becomes another type: who has it goes along.
        self.daemon.configure("[Pool mine]", "Type=threadpool", "[Pool more]",
                              "Type=leader")
        self.reload()
        self.assertEqual(self.state("a")["executor"], "mine")
        self.assertEqual(self.out("call", "a", "count"), "1")
        self.daemon.logged('pool.removed pool="mine" type=worker')
        # A pool that some file still names does not go.
        self.daemon.configure("[Pool more]", "Type=leader")
        self.fails("reload", code=78, text="there is no pool 'mine'")
        self.assertEqual(self.state("a")["executor"], "mine")
        # What has it otherwise is run by its loop.
        self.daemon.session("a", script=COUNT)
        self.out("session", "executor", "b", "mine")
        self.reload()
        wait_for(lambda: self.state("b")["executor"] == "more", "b moved back")
        self.daemon.logged("the pool mine is gone")
        self.fails("session", "executor", "a", "mine", code=64,
                   text="there is no executor 'mine'")
        for name in "ab":
            self.assertEqual(self.out("call", name, "count"), "1")
        # It may come again.
        self.daemon.configure("[Pool mine]", "Threads=2")
        self.daemon.session("b", "Executor=mine", script=COUNT)
        self.reload()
        wait_for(lambda: self.state("b")["executor"] == "mine", "b moved")
        self.assertEqual(self.out("call", "b", "count"), "1")

    @HEARS_SIGNALS
    def test_what_holds_up_its_loop_is_named_and_moved(self):  # B62 B94
        self.daemon.session("a", "Loop=1", "HandlerTimeout=0",
                            "OnStall=move", script=COUNT)
        self.daemon.start("--loops", "2",
                          environment={"WATCHDOG_USEC": "200000"})
        client = self.daemon.client()
        client.post_soon("a", "spin", b"100000000")
        self.daemon.logged('loop.stuck loop=1 session="a" event="spin"')
        self.daemon.logged('session.moved session="a" executor="worker"')
        self.assertEqual(self.state("a")["executor"], "worker")


if __name__ == "__main__":
    unittest.main()
