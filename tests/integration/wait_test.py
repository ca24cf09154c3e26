#!/usr/bin/env python3
"""Handlers that wait in the middle, in the real daemon: plugins on stacks of
their own and scripts."""
import os
import unittest

import ctl
import harness

OK = 0


def plugin(name):
    return os.path.join(os.environ.get("EVENTD_BUILD", "build/debug"),
                        f"tests/unit/kind/plugins/{name}.so")


SCRIPT = """
local M = {}
function M.sleep(d) eventd.sleep(tonumber(d)); return d end
function M.pair(name)
	local data, e = eventd.await_event(name, 20)
	return data or e
end
return M
"""


EXECUTORS = ("loop", "worker", "threadpool", "leader")


class Wait(ctl.TestCase):
    def natives(self, *lines):
        for name in EXECUTORS:
            self.daemon.session(f"wait-{name}", "Kind=native",
                                f"Plugin={plugin('wait')}",
                                f"Executor={name}", *lines)

    def native(self, *lines):
        self.daemon.session("wait", "Alias=wait", "Kind=native",
                            "Restart=no", f"Plugin={plugin('wait')}", *lines)

    def test_handlers_of_a_plugin_wait(self):
        self.native()
        self.daemon.session("echo", script="return {hold = function(d) "
                            "return 'held ' .. d end}")
        self.daemon.start()
        client = self.daemon.client()
        self.assertEqual(client.call("wait", "sleep", b"20"), (OK, b"20"))
        self.assertEqual(client.call("wait", "log"), (OK, b"sleep=0 "))

    def test_scripts_wait_beside_each_other(self):
        self.daemon.session("pair", "Concurrency=4", script=SCRIPT)
        self.daemon.start()
        first, second = self.daemon.client(), self.daemon.client()
        number = first.call_soon("pair", "pair", b"found")
        self.assertEqual(second.call("pair", "sleep", b"0.01"),
                         (OK, b"0.01"))
        second.post("pair", "found", b"it")
        first.until(lambda: number in first.replies)
        self.assertEqual(first.replies.pop(number), (OK, b"it"))

    @unittest.skipIf(os.environ.get("SANITIZE"),
                     "a sanitizer's own code overflows, which ends the process")
    def test_an_overflow_is_the_sessions_failure(self):
        self.natives("Restart=no")
        self.daemon.session("other", script=SCRIPT)
        self.daemon.start()
        client = self.daemon.client()
        for name in EXECUTORS:
            # at once, and on the thread that goes on after a wait
            for payload in (b"", b"waits"):
                status, _ = client.call(f"wait-{name}", "overflow", payload)
                self.assertNotEqual(status, OK)
                state, reason = client.states()[f"wait-{name}"]
                self.assertEqual(state, "failed")
                self.assertIn("event overflow (id ", reason)
                self.assertIn("overflowed its stack of 64 KiB", reason)
                self.assertEqual(client.call("other", "sleep", b"0"),
                                 (OK, b"0"))
                client.request("restart", (1, f"wait-{name}"))

    def test_handlers_of_a_plugin_wait_on_every_executor(self):
        self.natives("Concurrency=20")
        self.daemon.start("--loops", "2")
        client = self.daemon.client()
        numbers = [client.call_soon(f"wait-{name}", "sleep", b"%d" % ms)
                   for ms in range(20) for name in EXECUTORS]
        client.until(lambda: all(n in client.replies for n in numbers))
        self.assertEqual([client.replies[n] for n in numbers],
                         [(OK, b"%d" % ms)
                          for ms in range(20) for name in EXECUTORS])
        self.assertEqual(self.daemon.stop(), 0)

    def test_status_tells_what_they_wait_for(self):
        self.native("Concurrency=10")
        self.daemon.session("lua", "Concurrency=10", script=SCRIPT)
        self.daemon.start()
        client = self.daemon.client()
        for alias in ("wait", "lua"):
            client.post(alias, "sleep", b"3600000")
            client.post(alias, "pair" if alias == "lua" else "await_long",
                        b"x")
            harness.wait_for(lambda a=alias: self.object("status", a)
                             ["waiting"]["handlers"] == 2, "two that wait")
            status = self.object("status", alias)
            self.assertEqual(status["waiting"], {
                "handlers": 2, "time": 1, "answer": 0, "event": 1})
            self.assertEqual(status["concurrency"], 10)
            self.assertEqual("stack_high" in status, alias == "wait")
            text = self.ctl("status", alias).decode()
            self.assertIn("2 of 10: 1 for a time, 1 for an event", text)
            self.assertEqual("stack up to" in text, alias == "wait")

    @unittest.skipIf(os.environ.get("SANITIZE"), "slow, and much memory")
    def test_the_daemon_stops_though_a_hundred_thousand_wait(self):
        most = 100000
        self.daemon.configure("MaxCalls=200000", "StopTimeout=1s")
        self.native(f"Concurrency={most}")
        self.daemon.session("lua", f"Concurrency={most}", "MemoryMax=1G",
                            script=SCRIPT)
        self.daemon.start()
        client = self.daemon.client()
        for alias in ("wait", "lua"):
            for n in range(1, most + 1):  # and read the acks now and then
                post = client.post_soon if n % 1000 else client.post
                post(alias, "sleep", b"3600000")
            harness.wait_for(lambda a=alias: self.object("status", a)
                             ["waiting"]["handlers"] == most, "all wait")
        self.assertEqual(self.daemon.stop(), 0)

    def test_the_daemon_stops_though_handlers_wait(self):
        self.native("Concurrency=100")
        self.daemon.session("lua", "Concurrency=100", script=SCRIPT)
        self.daemon.start()
        client = self.daemon.client()
        for _ in range(20):
            client.post("wait", "sleep", b"3600000")
            client.post("lua", "sleep", b"3600")
        client.call("lua", "sleep", b"0")  # all before it have begun
        self.assertEqual(self.daemon.stop(), 0)


if __name__ == "__main__":
    harness.main()
