#!/usr/bin/env python3
"""Handlers that hold up their thread: they are named with the place where they
are, stopped if their file says so, harm nobody else on a pool, and may start
helpers."""
import json
import os
import subprocess
import unittest

import harness

OK, FAILED_HANDLER = 0, 11
EXECUTORS = ("loop", "worker", "threadpool", "leader")
# ThreadSanitizer holds a signal back until its thread makes a call that it
# intercepts: a handler that spins makes none.
HEARS_SIGNALS = unittest.skipIf(
    os.environ.get("SANITIZE") == "thread", "TSan holds signals back")

SPIN = """
local function around(n)
    while n > 0 do n = n - 0 end
    return n
end
return {
    spin = function() local n = around(1) return n end,
    hidden = function()
        pcall(coroutine.wrap(function() while true do pcall(around, 1) end end))
        return "saved"
    end,
    ping = function() return "pong" end,
}
"""


def plugin(name):
    return os.path.join(os.environ.get("EVENTD_BUILD", "build/debug"),
                        f"tests/unit/kind/plugins/{name}.so")


class Stall(harness.TestCase):
    def watched(self, *words):
        self.daemon.start(*words, environment={"WATCHDOG_USEC": "200000"})
        return self.daemon.client()

    def line(self, event):
        self.daemon.logged(event)
        return next(line for line in self.daemon.text().splitlines()
                    if event in line)

    @HEARS_SIGNALS
    def test_a_script_is_named_with_its_traceback(self):  # B62
        self.daemon.session("a", "Loop=1", "HandlerTimeout=0", script=SPIN)
        client = self.watched("--loops", "2")
        number = client.post_soon("a", "spin")
        client.request("ping")
        line = self.line("loop.stuck")
        self.assertIn('loop=1 session="a" event="spin"', line)
        self.assertRegex(line, r"traceback=\"[^\"]*a\.lua:3: in [^;]*around'; "
                               r"[^\"]*a\.lua:7: in function <")
        self.assertNotIn("event_id=0 ", line)
        self.assertFalse(client.settled(number))
        self.daemon.process.kill()
        self.daemon.wait()

    @HEARS_SIGNALS
    def test_a_script_is_stopped_if_its_file_says_so(self):  # B62 B94
        self.daemon.session("a", "Loop=1", "HandlerTimeout=0",
                            "OnStall=stop", "Restart=on-failure",
                            "RestartSec=10ms", script=SPIN)
        client = self.watched("--loops", "2")
        for event in ("spin", "hidden"):
            status, _ = client.call("a", event)
            self.assertNotEqual(status, OK)
            self.assertEqual(client.call("a", "ping"), (OK, b"pong"))
            self.daemon.logged(f"event {event} (id ")
        self.assertIn("it is stopped (OnStall=)", self.line("loop.stuck"))
        self.assertIn("handler held up its loop (OnStall=stop)",
                      self.daemon.text())
        self.assertEqual(self.daemon.stop(), 0)

    @HEARS_SIGNALS
    def test_a_plugin_is_named_with_its_frames(self):
        self.daemon.session("b", "Loop=1", "Kind=native",
                            f"Plugin={plugin('blocks')}")
        client = self.watched("--loops", "2")
        self.assertEqual(client.call("b", "nap", b"1"), (OK, b"1"))
        client.post_soon("b", "block")
        line = self.line("loop.stuck")
        self.assertIn('loop=1 session="b" event="block"', line)
        self.assertRegex(line, r"traceback=\"[^\"]*blocks\.so\(\+0x[^\"]*\" reason")
        self.daemon.process.kill()
        self.daemon.wait()

    def test_one_that_blocks_for_ever_on_a_pool_harms_nobody(self):
        self.daemon.configure("StopTimeout=300ms",
                              *(line for name in EXECUTORS[1:] for line in
                                (f"[Pool {name}-2]", f"Type={name}",
                                 "Threads=2")))
        for name in EXECUTORS[1:]:
            self.daemon.session(f"stuck-{name}", f"Executor={name}-2",
                                "Kind=native", f"Plugin={plugin('blocks')}")
            self.daemon.session(f"other-{name}", f"Executor={name}-2",
                                script=SPIN)
        self.daemon.session("plain", script=SPIN)
        self.daemon.start()
        client = self.daemon.client()
        for name in EXECUTORS[1:]:
            client.post_soon(f"stuck-{name}", "block")
        client.request("ping")
        for _ in range(20):
            for name in EXECUTORS[1:]:
                self.assertEqual(client.call(f"other-{name}", "ping"),
                                 (OK, b"pong"))
            self.assertEqual(client.call("plain", "ping"), (OK, b"pong"))
        self.daemon.process.terminate()
        self.daemon.wait()
        for name in EXECUTORS[1:]:
            self.daemon.logged(f'session.stuck session="stuck-{name}"')

    def stuck_on(self, executor, *lines, script=None):
        self.daemon.configure("StopTimeout=300ms", f"[Pool {executor}-2]",
                              f"Type={executor}", "Threads=2",
                              "StuckAfter=100ms")
        self.daemon.session("a", f"Executor={executor}-2", *lines,
                            script=script)
        return self.watched()

    def test_one_that_blocks_on_a_pool_is_named_while_it_does(self):  # B62
        self.daemon.configure(*(line for name in EXECUTORS[1:] for line in
                                (f"[Pool {name}-2]", f"Type={name}",
                                 "Threads=2", "StuckAfter=100ms")))
        for name in EXECUTORS[1:]:
            self.daemon.session(name, f"Executor={name}-2", "Kind=native",
                                f"Plugin={plugin('blocks')}")
        client = self.watched("--loops", "2")
        for name in EXECUTORS[1:]:
            fifo = self.fifo(name)
            call = client.call_soon(name, "shell", f"cat {fifo}\0".encode())
            line = self.line(f'session.stuck session="{name}"')
            self.assertRegex(
                line, rf'event="shell" event_id=[1-9]\d* '
                      rf'executor="{name}-2" thread=\d+ ms=\d+ '
                      r'traceback="[^"]*" reason="[^"]*; it is left"')
            if os.access(f"/proc/{os.getpid()}/syscall", os.R_OK):
                self.assertRegex(line, r'traceback="libc\.so\.6\([^"]*\) in '
                                       r'system call \d+"')
            with open(fifo, "w", encoding="ascii") as pipe:
                pipe.write("done")
            client.until(lambda: call in client.replies)
            self.assertEqual(client.replies[call], (OK, b"done"))
            self.daemon.logged(f'session.returned session="{name}"')
            out = self.daemon.eventctl("--json", "status", name).stdout
            self.assertEqual(json.loads(out)["stuck_ever"], 1)
        self.assertEqual(self.daemon.stop(), 0)

    def fifo(self, name):
        path = os.path.join(self.daemon.root, f"{name}.fifo")
        os.mkfifo(path)
        return path

    def threads(self, name):
        """How many threads of the daemon have that name."""
        task = f"/proc/{self.daemon.process.pid}/task"
        found = 0
        for thread in os.listdir(task):
            try:
                with open(f"{task}/{thread}/comm", encoding="ascii") as f:
                    found += f.read() == name + "\n"
            except OSError:
                pass  # it has ended meanwhile
        return found

    def test_a_pool_shrinks_while_its_handlers_block(self):
        self.daemon.configure("[Pool mine]", "Threads=3")
        for name in "abcd":
            self.daemon.session(name, "Executor=mine", "Kind=native",
                                f"Plugin={plugin('blocks')}")
        self.daemon.start()
        client = self.daemon.client()
        fifos = {name: self.fifo(name) for name in "abc"}
        calls = [client.call_soon(name, "shell", f"cat {path}\0".encode())
                 for name, path in fifos.items()]
        harness.wait_for(lambda: self.threads("pool-mine") == 3, "3 threads")
        self.daemon.configure("[Pool mine]", "Threads=1")
        self.assertEqual(self.daemon.eventctl("reload").returncode, OK)
        # One more has to wait until a thread is free, then it is run.
        calls.append(client.call_soon("d", "shell", b"echo -n done\0"))
        for path in fifos.values():
            with open(path, "w", encoding="ascii") as pipe:
                pipe.write("done")
        client.until(lambda: all(n in client.replies for n in calls))
        self.assertEqual({client.replies[n] for n in calls}, {(OK, b"done")})
        harness.wait_for(lambda: self.threads("pool-mine") == 1, "1 thread")
        self.assertEqual(client.call("a", "shell", b"echo -n done\0"),
                         (OK, b"done"))
        self.assertEqual(self.daemon.stop(), 0)

    def test_the_end_waits_for_no_stream_that_a_handler_reads(self):
        self.daemon.configure("StopTimeout=100ms")
        self.daemon.session("a", "Executor=worker", "Kind=native",
                            f"Plugin={plugin('blocks')}")
        self.daemon.start()
        client = self.daemon.client()
        path = self.fifo("a")
        client.post_soon("a", "shell", f"cat {path}\0".encode())
        harness.wait_for(lambda: b"runs shell" in self.daemon.eventctl(
            "status", "a").stdout, "the handler")
        self.daemon.stop()
        self.daemon.logged('session.stuck session="a"')
        with open(path, "w", encoding="ascii"):
            pass  # the helper ends as well

    def test_a_session_is_stopped_while_a_pool_runs_it(self):
        for name in EXECUTORS[1:]:
            self.daemon.session(name, f"Executor={name}", "Kind=native",
                                f"Plugin={plugin('blocks')}")
        self.daemon.session("plain", script=SPIN)
        self.daemon.start()
        client = self.daemon.client()
        for name in EXECUTORS[1:]:
            path = self.fifo(name)
            call = client.call_soon(name, "shell", f"cat {path}\0".encode())
            harness.wait_for(lambda n=name: b"runs shell" in
                             self.daemon.eventctl("status", n).stdout,
                             "the handler")
            self.assertEqual(
                self.daemon.eventctl("stop", name).returncode, OK)
            self.assertEqual(client.call("plain", "ping"), (OK, b"pong"))
            with open(path, "w", encoding="ascii") as pipe:
                pipe.write("done")
            # What it had begun ends well, and then it is gone.
            client.until(lambda n=call: n in client.replies)
            self.assertEqual(client.replies[call], (OK, b"done"))
            harness.wait_for(lambda n=name: self.daemon.eventctl(
                "status", n).returncode == 68, "its end")
        self.assertEqual(self.daemon.stop(), 0)

    def test_status_shows_what_is_stuck_on_a_pool(self):
        client = self.stuck_on("worker", "Kind=native",
                               f"Plugin={plugin('blocks')}")
        client.post_soon("a", "block")
        self.line("session.stuck")
        out = self.daemon.eventctl("--json", "status", "a").stdout
        running = json.loads(out)["running"]
        self.assertEqual((running["event"], running["stuck"]),
                         ("block", True))
        self.assertGreater(running["ns"], 100_000_000)
        out = self.daemon.eventctl(
            "status", "a", text=True).stdout
        self.assertRegex(out, r"worker-2, thread \d+ runs block for .*: it is "
                              "stuck\n *Stuck: 1 times")
        out = self.daemon.eventctl("status", text=True).stdout
        self.assertRegex(out, r"worker-2: .* 1 stuck\n")
        self.daemon.process.kill()
        self.daemon.wait()

    def monitor(self, *aliases):
        p = subprocess.Popen(
            [harness.EVENTCTL, "--socket", self.daemon.socket, "monitor", "*"],
            stdout=subprocess.PIPE)
        self.addCleanup(p.stdout.close)
        self.addCleanup(p.wait)
        self.addCleanup(p.kill)
        for _ in aliases:
            self.assertEqual(p.stdout.readline().split()[0], b"up")
        return p.stdout

    def test_monitors_are_told_of_what_is_stuck_on_a_pool(self):
        client = self.stuck_on("worker", "Kind=native",
                               f"Plugin={plugin('blocks')}")
        out, fifo = self.monitor("a"), self.fifo("a")
        call = client.call_soon("a", "shell", f"cat {fifo}\0".encode())
        self.assertRegex(
            out.readline(), rb"^event a _stuck event=shell id=[1-9]\d* "
                            rb"executor=worker-2 ms=\d+\n")
        with open(fifo, "w", encoding="ascii") as pipe:
            pipe.write("done")
        client.until(lambda: call in client.replies)
        self.assertRegex(
            out.readline(), rb"^event a _returned event=shell id=[1-9]\d* "
                            rb"executor=worker-2 ms=\d+\n")
        self.assertRegex(out.readline(), rb"^event a shell ")
        client.post_soon("a", "_stuck", b"not so")  # nobody else says so
        client.post_soon("a", "plain")
        self.assertRegex(out.readline(), rb"^event a plain")
        self.assertEqual(self.daemon.stop(), 0)

    @HEARS_SIGNALS
    def test_monitors_are_told_of_what_held_up_a_loop(self):
        self.daemon.session("a", "Loop=1", "Kind=native",
                            f"Plugin={plugin('blocks')}")
        client = self.watched("--loops", "2")
        out, fifo = self.monitor("a"), self.fifo("a")
        client.call_soon("a", "shell", f"cat {fifo}\0".encode())
        self.line('loop.stuck loop=1 session="a"')
        with open(fifo, "w", encoding="ascii") as pipe:
            pipe.write("done")
        lines = [out.readline() for _ in range(2)]
        self.assertTrue(any(
            line.startswith(b"event a shell ") for line in lines), lines)
        self.assertTrue(any(
            line.startswith(b"event a _returned event=shell id=")
            for line in lines), lines)
        self.daemon.logged('session.returned session="a" executor="loop"')
        self.assertEqual(self.daemon.stop(), 0)

    @HEARS_SIGNALS
    def test_a_script_on_a_pool_is_named_and_stopped(self):  # B62 B94
        client = self.stuck_on("worker", "HandlerTimeout=0", "OnStall=stop",
                               "Restart=on-failure", "RestartSec=10ms",
                               script=SPIN)
        for event in ("spin", "hidden"):
            status, _ = client.call("a", event)
            self.assertNotEqual(status, OK)
            self.assertEqual(client.call("a", "ping"), (OK, b"pong"))
        line = self.line("session.stuck")
        self.assertRegex(line, r"traceback=\"[^\"]*a\.lua:3: in ")
        self.assertIn("it is stopped (OnStall=)", line)
        self.assertIn("handler did not return (OnStall=stop)",
                      self.daemon.text())
        self.assertEqual(self.daemon.stop(), 0)

    @HEARS_SIGNALS
    def test_one_that_blocks_for_ever_on_its_loop_is_left(self):
        self.daemon.configure("StopTimeout=300ms")
        self.daemon.session("stuck", "Loop=1", "Kind=native",
                            f"Plugin={plugin('blocks')}")
        self.daemon.session("plain", "Loop=0", script=SPIN)
        client = self.watched("--loops", "2")
        client.post_soon("stuck", "block")
        self.daemon.logged('loop.stuck loop=1 session="stuck"')
        for _ in range(20):
            self.assertEqual(client.call("plain", "ping"), (OK, b"pong"))
        self.daemon.process.terminate()
        self.assertEqual(self.daemon.wait(), 70)
        self.daemon.logged("daemon.stuck")

    def test_helpers_get_no_descriptor_of_ours(self):
        for name in EXECUTORS:
            self.daemon.session(name, f"Executor={name}", "Kind=native",
                                f"Plugin={plugin('blocks')}")
        self.daemon.start()
        client = self.daemon.client()
        for name in EXECUTORS:
            status, text = client.call(name, "shell",
                                       b"echo /proc/self/fd/*\0")
            self.assertEqual(status, OK)
            numbers = {int(path.rsplit("/", 1)[1])
                       for path in text.decode().split()}
            # its own: the pipe, and the directory while it is read
            self.assertLessEqual(numbers, {0, 1, 2, 3}, (name, numbers))
            status, text = client.call(
                name, "shell", b"grep SigBlk /proc/self/status\0")
            self.assertEqual((status, text.split()),
                             (OK, [b"SigBlk:", b"0" * 16]))

    def test_forks_on_every_executor_do_not_hang(self):
        for name in EXECUTORS:
            for i in range(3):
                self.daemon.session(f"{name}{i}", f"Executor={name}",
                                    "Kind=native",
                                    f"Plugin={plugin('blocks')}")
        self.daemon.session("plain", script=SPIN)
        self.daemon.start("--loops", "2")
        client = self.daemon.client()
        numbers = [client.call_soon(f"{name}{i}", "fork") for _ in range(10)
                   for name in EXECUTORS for i in range(3)]
        for _ in range(50):
            self.assertEqual(client.call("plain", "ping"), (OK, b"pong"))
        client.until(lambda: all(n in client.replies for n in numbers))
        self.assertEqual({client.replies[n] for n in numbers}, {(OK, b"7")})
        self.assertEqual(self.daemon.stop(), 0)


if __name__ == "__main__":
    unittest.main()
