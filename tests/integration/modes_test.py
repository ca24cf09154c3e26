"""Several clients of one alias, on several loops: shared and fanout."""
import os
import signal
import subprocess
import sys
import threading
import unittest

import ctl
import harness
from harness import first, wait_for

LOOPS = 4
SHARED, FANOUT = 1, 2

# Binds in a mode, says so, settles one by one and dies after so many.
WORKER = """
import os, signal, sys
import harness
path, alias, mode, n = sys.argv[1:]
c = harness.Client(path)
c.request("bind", (1, alias), (2, 1), (3, 8), (11, int(mode)))
print("bound", flush=True)
for i in range(1, int(n) + 1):
    c.until(lambda: c.deliveries)
    print(harness.first(c.deliveries.pop(0), 4).decode(), flush=True)
    c.send((3, harness.message((1, 1), (2, i))))
os.kill(os.getpid(), signal.SIGKILL)
"""


class Modes(ctl.TestCase):
    def setUp(self):
        super().setUp()
        self.daemon.configure(f"Loops={LOOPS}")

    def bind(self, alias, mode, window=0, box=None, status=0):
        c = self.daemon.client()
        more = ((9, harness.message(*box)),) if box else ()
        response = c.request(
            "bind", (1, alias), (2, 1), (3, window), *more, (11, mode))
        self.assertEqual(first(response, 2), status, response)
        return c if not status else first(response, 3).decode()

    def settle(self, client, upto):
        client.send((3, harness.message((1, 1), (2, upto))))

    def worker(self, alias, mode, n):
        process = subprocess.Popen(
            [sys.executable, "-c", WORKER, self.daemon.socket, alias,
             str(mode), str(n)],
            stdout=subprocess.PIPE, text=True,
            cwd=os.path.dirname(os.path.abspath(__file__)))
        self.addCleanup(process.stdout.close)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        self.assertEqual(process.stdout.readline(), "bound\n")
        return process

    def accounts(self):
        """The daemon's counters; those of several loops are not of one
        instant, so they balance at last."""
        def balance():
            c = self.object("status")["events"]
            self.counters = c
            return c["accepted"] == sum(c[k] for k in (
                "handled", "queued", "leased", "delayed", "expired",
                "cancelled", "dropped", "dead_lettered"))
        wait_for(balance, "the accounts balance")
        return self.counters

    def payloads(self, client, n):
        client.until(lambda: len(client.deliveries) >= n)
        return [first(d, 4, b"").decode() for d in client.deliveries]

    def post(self, alias, n):
        poster = self.daemon.client()
        last = 0
        for i in range(n):
            last = poster.post_soon(alias, "e", str(i).encode())
        poster.until(lambda: poster.settled(last))
        return poster

    def share_among_the_dying(self):
        """Each that dies has one settled that it may not have told of: what
        the last gets and they did is all."""
        workers = [self.worker("jobs", SHARED, 20 + i) for i in range(6)]
        self.post("jobs", 500)
        done = set()
        for w in workers:
            w.wait()
            done.update(w.stdout.read().split())
        last = self.bind("jobs", SHARED)
        wait_for(lambda: self.object("status", "jobs")["consumers"] == 1)
        taken = 0
        while self.object("status", "jobs")["events"]["handled"] < 500:
            last.request("ping")
            if len(last.deliveries) > taken:
                taken = len(last.deliveries)
                self.settle(last, taken)
        done.update(self.payloads(last, 0))
        self.assertEqual(done, {str(i) for i in range(500)})
        self.assertEqual(self.accounts()["dead_lettered"], 0)

    def test_shared_work_outlasts_its_workers(self):
        self.daemon.session("jobs", "Kind=client", "Mode=shared", "Loop=2")
        self.start()
        self.share_among_the_dying()

    def test_durable_work_is_shared_too(self):
        self.daemon.session("jobs", "Kind=client", "Mode=shared",
                            mailbox=["Durable=yes"])
        self.start()
        self.share_among_the_dying()

    def read_all(self, *clients):
        """What each has, settled, until nothing is left."""
        taken = [0] * len(clients)

        def done():
            for i, c in enumerate(clients):
                c.request("ping")
                if len(c.deliveries) > taken[i]:
                    taken[i] = len(c.deliveries)
                    self.settle(c, taken[i])
            now = self.accounts()
            return not now["queued"] and not now["leased"]
        wait_for(done, "all is settled")
        return [self.payloads(c, 0) for c in clients]

    def test_all_hear_all_in_order_whatever_loop_they_are_on(self):
        """B2, B14: fast ones get everything, slow ones what they asked for."""
        self.start()
        n = 3000
        fast = [self.bind("news", FANOUT, 8, ((1, "block"),))
                for _ in range(6)]
        slow = self.bind("news", FANOUT, 2, ((1, "drop-oldest"), (2, 10)))
        late = self.bind("news", FANOUT, 2, ((1, "drop-newest"), (2, 10)))
        cut = self.bind("news", FANOUT, 2, ((1, "disconnect"), (2, 10)))

        def read(c):
            settled = 0
            while settled < n:
                c.until(lambda: len(c.deliveries) > settled)
                settled = len(c.deliveries)
                self.settle(c, settled)
        threads = [threading.Thread(target=read, args=(c,)) for c in fast]
        for t in threads:
            t.start()
        self.post("news", n)
        for t in threads:
            t.join()
        want = [str(i) for i in range(n)]
        for c in fast:
            self.assertEqual(self.payloads(c, n), want)
        wait_for(lambda: self.object("status", "news")["consumers"] == 8,
                 "it is unbound")
        cut.request("ping")
        oldest_lost, newest_lost = self.read_all(slow, late)
        self.assertEqual(oldest_lost[-10:], want[-10:])
        for got in (oldest_lost, newest_lost):
            self.assertEqual(got, sorted(got, key=int))
            self.assertLess(len(got), n)
        c = self.accounts()
        self.assertEqual(c["dead_lettered"], 0)
        self.assertGreater(c["dropped"], 0)

    def test_those_who_come_and_go_leave_the_accounts_right(self):
        self.start()
        stay = self.bind("news", FANOUT, 0, ((1, "block"),))
        workers = [self.worker("news", FANOUT, 10 * i + 1) for i in range(6)]
        self.post("news", 400)
        for w in workers:
            w.wait()
        self.assertEqual(self.payloads(stay, 400),
                         [str(i) for i in range(400)])
        self.settle(stay, 400)
        wait_for(lambda: self.accounts()["leased"] == 0, "all is settled")
        self.assertEqual(self.accounts()["queued"], 0)
        self.assertEqual(
            self.object("status", "news")["events"]["handled"], 400)

    def test_eventctl_binds_so(self):
        self.start()
        both = [self.spawn("bind", "news", "--fanout", "--count", "2", "--raw")
                for _ in range(2)]
        self.held("news")
        wait_for(lambda: self.object("status", "news")["consumers"] == 2)
        for word in ("one", "two"):
            self.ctl("post", "news", "e", word)
        for p in both:
            out, _ = p.communicate(timeout=harness.DEADLINE)
            self.assertEqual(out, b"one\ntwo\n")
            self.assertEqual(p.returncode, 0)
        alone = self.bind("solo", 0)
        self.ctl("bind", "solo", "--shared", code=73)
        self.assertIn("'solo' is held by session", self.err)
        alone.close()
        self.ctl("bind", "a", "--shared", "--fanout", code=64)

    def test_monitor_prints_what_sessions_handle(self):
        self.start()
        p = self.spawn("monitor", "e*", "--count", "4")
        line = p.stdout.readline().split()
        self.assertEqual(line[:2], [b"up", b"echo"])
        self.ctl("post", "echo", "silent", "x")
        self.assertEqual(self.ctl("call", "echo", "hello", "you"), b"you")
        self.assertEqual(p.stdout.readline(), b"event echo silent x\n")
        self.assertEqual(p.stdout.readline(), b"event echo hello you\n")
        late = self.bind("extra", 0)
        self.assertEqual(p.stdout.readline().split()[:2], [b"up", b"extra"])
        p.wait()
        self.assertEqual(p.returncode, 0)
        late.close()

    def test_monitor_tells_how_sessions_end(self):
        self.daemon.session("once", "Restart=no", script=ctl.ECHO)
        self.start()
        p = self.spawn("monitor", "*")

        def told(n):
            return sorted(p.stdout.readline() for _ in range(n))

        self.assertEqual([line.split()[:2] for line in told(2)],
                         [[b"up", b"echo"], [b"up", b"once"]])
        for alias in ("echo", "echo", "once"):  # each of its lives
            self.ctl("post", alias, "boom")
            end, event = told(2)
            self.assertEqual(event, f"event {alias} boom\n".encode())
            self.assertRegex(end, rf"^end   {alias} failed: .*kaputt".encode())
            if alias == "once":
                self.ctl("restart", "once")
            self.ctl("call", alias, "hello")  # nothing comes in between
            self.assertEqual(told(1), [f"event {alias} hello\n".encode()])
        self.ctl("call", "once", "hello")  # the first has shown that it is up
        self.assertEqual(told(1), [b"event once hello\n"])
        self.ctl("stop", "once")
        self.assertEqual(told(2), [b"down  once\n", b"end   once killed\n"])

    def test_a_monitor_that_does_not_read_slows_nobody(self):
        self.start()
        c = self.bind("echo", 3, 2, ((1, "drop-oldest"), (2, 10)))
        self.post("echo", 2000)
        self.assertLess(len(self.payloads(c, 2)), 2000)
        c.close()
        self.assertEqual(self.ctl("call", "echo", "hello", "you"), b"you")

    def test_a_reload_changes_the_mode(self):
        self.daemon.session("jobs", "Kind=client", "Mode=shared")
        self.start()
        c = self.bind("jobs", SHARED)
        text = self.bind("jobs", FANOUT, status=8)
        self.assertIn("in mode shared", text)
        self.daemon.session("jobs", "Kind=client", "Mode=fanout")
        self.ctl("reload")
        self.bind("jobs", FANOUT)
        del c
        self.assertEqual(self.object("status", "jobs")["mode"], "fanout")


if __name__ == "__main__":
    harness.main()
