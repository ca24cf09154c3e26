"""Durable mailboxes through the daemon: what is accepted is there after any
end of it, in order, and once unless it had been handed out."""
import os
import signal
import subprocess
import unittest

import ctl
import harness
from harness import wait_for

KEEP = """
local seen = {}
return {
    add = function(data, ev) seen[#seen + 1] = data .. "/" .. ev.attempt end,
    seen = function() return table.concat(seen, " ") end,
}
"""

POSTER = """
return {post = function(words)
    local to, level, timeout = words:match("(%S+) (%S+) ?(%S*)")
    local ok, word = eventd.post(to, "add", "x",
        {wait = level, timeout = tonumber(timeout)})
    return tostring(ok) .. (ok and "" or " " .. word)
end, kept = function(to)
    local ok, word = eventd.post(to, "add", "x", {durable = true})
    if not ok then return word end
    ok, word = eventd.post(to, "add", "y", {durable = true, trace = true,
        wait = "handled", timeout = 0.05})
    return tostring(ok) .. " " .. tostring(word)
end}
"""


class Durable(ctl.TestCase):
    def setUp(self):
        super().setUp()
        self.store = os.path.join(self.daemon.root, "store")
        self.place(self.store)

    def place(self, path, *more):
        self.daemon.configure("[Store]", f"Path={path}", *more)

    def slot(self, name="jobs", *mailbox):
        self.daemon.session(name, f"Alias={name}", "Kind=client",
                            mailbox=("Durable=yes", *mailbox))

    def keep(self, *mailbox):
        self.daemon.session("keep", "Alias=keep", script=KEEP,
                            mailbox=mailbox)

    def waiting(self, alias):
        return [e["event"] for e in self.objects("queue", "peek", alias,
                                                 "-n", "1000")]

    def accounts(self):
        c = self.object("status")["events"]
        self.assertEqual(c["accepted"], sum(c[k] for k in (
            "handled", "queued", "leased", "delayed", "expired", "cancelled",
            "dropped", "dead_lettered")))
        return c

    def start_again(self, *arguments):
        self.daemon.notices.clear()
        self.daemon.start(*arguments)

    def kill(self):
        self.daemon.process.kill()
        self.daemon.wait()
        self.daemon.hear()

    def crash(self):
        self.kill()
        self.start_again()

    def restart(self):
        self.assertEqual(self.daemon.stop(), 0)
        self.daemon.hear()
        self.start_again()

    def bind(self, client, alias, binding=1):
        response = client.request("bind", (1, alias), (2, binding))
        self.assertEqual(harness.first(response, 2), 0)

    def settle(self, client, upto, binding=1):
        client.send((3, harness.message((1, binding), (2, upto))))

    def test_a_start_that_is_killed_leaves_no_lock(self):
        """The process that looks the store through has none of its own, and
        goes with the daemon."""
        self.slot()
        self.start()
        self.ctl("post", "--lines", "jobs", "e", "-", input=b"x\n" * 20000)
        self.kill()
        for _ in range(50):
            self.daemon.start(wait=False)
            holds = wait_for(self.stop_child, "the child or its end")
            self.kill()
            self.daemon.notices.clear()
            if holds == "nothing":
                break
            for child in self.stopped:  # it had just begun
                os.kill(child, signal.SIGKILL)
                wait_for(lambda pid=child: not self.has_lock(pid), "its end")
        self.assertNotEqual(holds, "a lock")
        self.start_again()
        self.assertEqual(self.accounts()["queued"], 20000)

    def stop_child(self):
        """It does not go on; what it holds, or "ready" if it has ended."""
        pid = self.daemon.process.pid
        path = f"/proc/{pid}/task/{pid}/children"
        self.stopped = []
        if not os.path.exists(path) or "READY=1" in self.daemon.hear():
            return "ready"
        if self.daemon.process.poll() is not None:
            raise AssertionError("the daemon has ended")
        with open(path, encoding="ascii") as file:
            self.stopped = [int(child) for child in file.read().split()]
        for child in self.stopped:
            try:
                os.kill(child, signal.SIGSTOP)
            except ProcessLookupError:
                return None
            self.addCleanup(subprocess.run, ["kill", "-KILL", str(child)],
                            stderr=subprocess.DEVNULL)
            return "a lock" if self.has_lock(child) else "nothing"
        return None

    def has_lock(self, pid):
        try:
            files = [os.readlink(f"/proc/{pid}/fd/{fd}")
                     for fd in os.listdir(f"/proc/{pid}/fd")]
        except OSError:  # it has ended
            return False
        return any(name.endswith((".lock", "/owner")) for name in files)

    # B22: status 0 means that it is there, whatever happens next
    def test_what_is_acked_survives_kill_9(self):
        self.slot()
        self.start()
        for i in range(20):
            self.ctl("post", "jobs", f"e{i}", "x" * i)
        self.ctl("post", "jobs", "last", "--wait", "durable")
        self.crash()
        self.assertEqual(self.waiting("jobs"),
                         [f"e{i}" for i in range(20)] + ["last"])
        self.assertEqual(self.accounts()["queued"], 21)

    # B46
    def test_a_restart_changes_nothing(self):
        self.slot()
        self.start()
        for i in range(5):
            self.ctl("post", "jobs", f"e{i}", f"data {i}")
        self.ctl("post", "jobs", "now", "--priority", "urgent")
        before = self.objects("queue", "peek", "jobs", "-n", "100")
        self.restart()
        after = self.objects("queue", "peek", "jobs", "-n", "100")
        for e in before + after:  # who posted it is somebody of another run
            e.pop("from", None)
        self.assertEqual(before, after)
        self.assertEqual(after[0]["event"], "now")

    def test_a_script_gets_what_waited(self):
        self.keep("Durable=yes")
        self.start()
        self.ctl("queue", "pause", "keep")
        for i in range(3):
            self.ctl("post", "keep", "add", str(i))
        self.crash()
        self.ctl("queue", "resume", "keep")
        wait_for(lambda: self.ctl("call", "keep", "seen") == b"0/1 1/1 2/1",
                 "all three in order")
        self.crash()
        self.assertEqual(self.ctl("call", "keep", "seen"), b"")
        self.accounts()

    # B52, B55
    def test_what_was_handed_out_comes_again_and_says_so(self):
        self.slot()
        self.start()
        with self.daemon.client() as c:
            self.bind(c, "jobs")
            for i in range(5):
                self.ctl("post", "jobs", f"e{i}")
            c.until(lambda: len(c.deliveries) == 5)
            self.settle(c, 2)
            wait_for(lambda: self.accounts()["handled"] == 2, "two handled")
            # a durable post behind it: what came before is safe by then
            self.ctl("post", "jobs", "behind", "--wait", "durable")
            c.until(lambda: len(c.deliveries) == 6)
            self.kill()
        self.start_again()
        with self.daemon.client() as c:
            self.bind(c, "jobs")
            c.until(lambda: len(c.deliveries) >= 4)
            names = [harness.first(d, 3, b"").decode() for d in c.deliveries]
            self.assertEqual(names, ["e2", "e3", "e4", "behind"])
            attempts = [harness.first(d, 14) for d in c.deliveries]
            self.assertEqual(attempts[:3], [1, 1, 1])

    def test_handled_is_told_when_it_cannot_come_again(self):
        self.keep("Durable=yes")
        self.start()
        self.ctl("post", "keep", "add", "x", "--wait", "handled")
        self.crash()
        self.assertEqual(self.ctl("call", "keep", "seen"), b"")

    # B44: what an ack means is the same everywhere, and asked for by post
    def test_one_post_is_durable_in_a_volatile_mailbox(self):
        self.keep()
        self.start()
        self.ctl("queue", "pause", "keep")
        self.ctl("post", "keep", "add", "gone")
        self.ctl("post", "keep", "add", "kept", "--wait", "durable")
        self.ctl("post", "keep", "add", "gone")
        self.crash()
        wait_for(lambda: self.ctl("call", "keep", "seen") == b"kept/1",
                 "the durable one alone")
        self.crash()
        self.assertEqual(self.ctl("call", "keep", "seen"), b"")
        self.accounts()

    def test_a_client_finds_what_was_durable_of_its_alias(self):
        self.start()
        with self.daemon.client() as c:
            self.bind(c, "mine")
            self.ctl("post", "mine", "gone")
            self.ctl("post", "mine", "kept", "--wait", "durable")
            c.until(lambda: len(c.deliveries) == 2)
            # when that is safe, so is that the others were handed out
            self.ctl("post", "mine", "last", "--wait", "durable")
            self.kill()
        self.start_again()
        self.ctl("post", "mine", "e", code=68)  # nobody is there
        with self.daemon.client() as c:
            self.bind(c, "mine")
            c.until(lambda: c.deliveries)
            self.assertEqual(harness.first(c.deliveries[0], 3), b"kept")
            self.settle(c, 1)
            wait_for(lambda: self.accounts()["handled"] == 1, "its end")

    def test_a_client_that_dies_loses_nothing_durable(self):
        self.start()
        with self.daemon.client() as c:
            self.bind(c, "mine")
            self.ctl("post", "mine", "kept", "--wait", "durable")
            c.until(lambda: c.deliveries)
        wait_for(lambda: not self.objects("list", "mine"), "it has gone")
        self.assertEqual(self.objects("dead", "list"), [])
        with self.daemon.client() as c:
            self.bind(c, "mine")
            c.until(lambda: c.deliveries)
            self.assertEqual(harness.first(c.deliveries[0], 14), 1)

    def test_peek_and_purge_reach_what_is_in_the_store_alone(self):
        self.slot()
        self.start()
        lines = b"".join(b"%d\n" % i for i in range(6000))
        self.ctl("post", "--lines", "jobs", "a", "-", input=lines)
        self.ctl("post", "--lines", "jobs", "b", "-", input=b"x\n" * 10)
        self.ctl("post", "jobs", "c")
        seen = self.objects("queue", "peek", "jobs", "--skip", "5990",
                            "-n", "100", "--bytes", "10")
        self.assertEqual([e["position"] for e in seen],
                         list(range(5990, 6011)))
        self.assertEqual([e["event"] for e in seen],
                         ["a"] * 10 + ["b"] * 10 + ["c"])
        self.assertEqual(seen[9]["data"], "5999")
        one = self.object("queue", "peek", "jobs", "--id", str(seen[-1]["id"]))
        self.assertEqual(one["event"], "c")
        self.ctl("queue", "purge", "jobs", "--event", "a", code=64)
        self.ctl("queue", "purge", "jobs", "--event", "a", "--yes")
        self.crash()
        self.assertEqual(self.waiting("jobs"), ["b"] * 10 + ["c"])
        self.assertEqual(self.accounts()["queued"], 11)

    def test_a_purge_is_whole_across_kill_9(self):
        self.slot()
        self.start()
        self.ctl("post", "--lines", "jobs", "a", "-", input=b"x\n" * 9000)
        self.ctl("post", "jobs", "b")
        for _ in range(3):
            purge = self.spawn("queue", "purge", "jobs", "--event", "a",
                               "--yes")
            wait_for(lambda: purge.poll() is not None or
                     self.object("status", "jobs")["events"]["cancelled"],
                     "it has begun")
            self.crash()
            purge.wait()
            wait_for(lambda: self.object("status", "jobs")["events"]["queued"]
                     in (1, 9001), "all of it, or none", 30)
            left = self.object("status", "jobs")["events"]["queued"]
            self.accounts()
            if left == 1:
                break
            self.assertEqual(left, 9001)
        self.ctl("queue", "purge", "jobs", "--event", "a", "--yes")
        self.assertEqual(self.waiting("jobs"), ["b"])

    def give_back(self, client, delivery, delay_ms):
        client.VERBS = {**client.VERBS, "give_back": 55}
        self.assertEqual(harness.first(client.request(
            "give_back", (1, 1), (2, delivery), (3, 1), (4, delay_ms)), 2), 0)

    # B34: a rest is not cut short by a restart, and counts one attempt
    def test_what_rests_does_so_across_kill_9(self):
        self.slot()
        self.start()
        with self.daemon.client() as c:
            self.bind(c, "jobs")
            self.ctl("post", "jobs", "long")
            self.ctl("post", "jobs", "short")
            c.until(lambda: len(c.deliveries) == 2)
            self.give_back(c, 1, 3_600_000)
            self.give_back(c, 2, 1500)
            self.ctl("post", "jobs", "behind", "--wait", "durable")
            c.until(lambda: len(c.deliveries) == 3)
            self.settle(c, 3)
            wait_for(lambda: self.accounts()["handled"] == 1, "its end")
            self.ctl("post", "jobs", "last", "--wait", "durable")
        self.crash()
        wait_for(lambda: self.accounts()["leased"] >= 1, "the long one rests")
        with self.daemon.client() as c:
            self.bind(c, "jobs")
            c.until(lambda: len(c.deliveries) == 2)
            got = {harness.first(d, 3): harness.first(d, 14)
                   for d in c.deliveries}
            self.assertEqual(got[b"short"], 1)
            self.assertIn(b"last", got)
            self.assertEqual(self.accounts()["leased"], 3)

    def numbers_in(self, aliases, n):
        """The numbers that wait in the mailboxes of both, sorted."""
        return sorted(int(e["data"]) for alias in aliases
                      for e in self.objects("queue", "peek", alias, "-n",
                                            str(n), "--bytes", "10"))

    def test_a_move_is_whole_across_kill_9(self):
        self.daemon.session("a", "Alias=a", "Kind=client", "Loop=0",
                            mailbox=("Durable=yes",))
        self.daemon.session("b", "Alias=b", "Kind=client", "Loop=1",
                            mailbox=("Durable=yes",))
        self.start("--loops", "2")
        n = 5000
        self.ctl("post", "--lines", "a", "e", "-",
                 input=b"".join(b"%d\n" % i for i in range(n)))
        source, target = "a", "b"
        for _ in range(4):
            move = self.spawn("queue", "move", source, target)
            wait_for(lambda t=target: move.poll() is not None or
                     self.object("status", t)["events"]["queued"],
                     "it has begun")
            self.kill()
            move.wait()
            self.start_again("--loops", "2")
            # from the first moment on, though both are still being read
            self.assertEqual(self.numbers_in("ab", n), list(range(n)))
            self.assertEqual(self.accounts()["queued"], n)
            source, target = target, source

    def files(self):
        found = {}
        for name in os.listdir(self.store):
            path = os.path.join(self.store, name)
            if os.path.isfile(path):
                with open(path, "rb") as file:
                    found[name] = file.read()
        return found

    # B49: a backup of some of the files, put among newer ones
    def test_files_of_different_times_start_and_deliver(self):
        self.slot()
        self.start()
        for i in range(20):
            self.ctl("post", "jobs", f"old{i}")
        self.assertEqual(self.daemon.stop(), 0)
        old = self.files()
        self.daemon.hear()
        self.start_again()
        with self.daemon.client() as c:
            self.bind(c, "jobs")
            c.until(lambda: len(c.deliveries) == 20)
            self.settle(c, 15)
            wait_for(lambda: self.accounts()["handled"] == 15, "15 handled")
        for i in range(5):
            self.ctl("post", "jobs", f"new{i}", "--wait", "durable")
        self.kill()
        new = self.files()
        for name in sorted(set(old) | set(new)):
            for path, data in new.items():
                with open(os.path.join(self.store, path), "wb") as file:
                    file.write(data)
            if name in old:
                with open(os.path.join(self.store, name), "wb") as file:
                    file.write(old[name])
            else:
                os.unlink(os.path.join(self.store, name))
            with self.subTest(old=name):
                self.start_again()
                self.ctl("post", "jobs", "now", "--wait", "durable")
                with self.daemon.client() as c:
                    self.bind(c, "jobs")
                    c.until(lambda c=c: any(harness.first(d, 3) == b"now"
                                            for d in c.deliveries))
                self.accounts()
                self.kill()
        self.start_again()

    @unittest.skipIf(os.geteuid() != 0, "mounts a file system")
    def test_a_directory_that_is_read_only_fails_durable_sessions_alone(self):
        os.mkdir(self.store)
        if subprocess.call(["mount", "-t", "tmpfs", "-o", "ro", "tmpfs",
                            self.store], stderr=subprocess.DEVNULL):
            self.skipTest("no tmpfs can be mounted here")
        self.addCleanup(subprocess.call, ["umount", "-l", self.store])
        self.slot()
        self.keep()
        self.start()
        self.ctl("post", "keep", "add")
        self.ctl("post", "keep", "add", "--wait", "durable", code=76)
        self.assertIn("cannot be used", self.err)
        self.ctl("post", "jobs", "e", code=69)
        self.assertIn("Read-only", self.err)
        report = self.object("store", "stats")
        self.assertEqual(report["state"], "broken")
        self.assertIn("Read-only", report["text"])

    def test_durable_without_a_store_says_so(self):
        self.daemon.configure()
        self.keep()
        self.start()
        self.ctl("post", "keep", "add", "--wait", "durable", code=76)
        self.assertIn("there is no store", self.err)

    def test_a_pause_outlives_the_daemon(self):
        self.keep("Durable=yes")
        self.start()
        self.ctl("queue", "pause", "keep")
        self.crash()
        self.ctl("post", "keep", "add", "x")
        self.assertTrue(self.object("queue", "peek", "keep")["event"], "add")
        self.assertEqual(self.ctl("call", "keep", "seen", "--timeout", "100ms",
                                  code=124), b"")
        self.ctl("queue", "resume", "keep")
        self.restart()
        wait_for(lambda: self.ctl("call", "keep", "seen") == b"", "it runs")

    def post(self, *words):
        """What a script's post with the option `wait` said."""
        return self.ctl("call", "poster", "post", " ".join(words)).decode()

    def test_durable_and_handled_on_a_volatile_mailbox(self):
        self.keep()
        self.daemon.session("poster", "Alias=poster", "Loop=1", script=POSTER)
        self.start("--loops", "2")
        self.ctl("post", "keep", "add", "a", "--durable", "--wait", "handled")
        self.assertEqual(self.ctl("call", "poster", "kept", "keep").split()[0],
                         b"true")
        self.ctl("queue", "pause", "keep")
        self.assertEqual(self.ctl("call", "poster", "kept", "keep"),
                         b"nil timeout")
        self.ctl("post", "keep", "add", "b", "--durable", "--wait", "handled",
                 "--timeout", "50ms", code=124)
        self.ctl("post", "keep", "add", "lost")
        self.kill()
        self.start_again("--loops", "2")
        wait_for(lambda: self.ctl("call", "keep", "seen") == b"x/1 y/1 b/1",
                 "those that were durable")
        self.assertEqual(self.daemon.stop(), 0)
        self.daemon.hear()
        self.daemon.configure()
        self.start_again("--loops", "2")
        self.ctl("post", "keep", "add", "--durable", "--wait", "handled",
                 code=76)

    # B22, from a script and from another loop
    def test_a_script_waits_for_what_it_posts(self):
        self.slot()
        self.keep("Durable=yes")
        self.daemon.session("plain", "Alias=plain", script=KEEP)
        self.daemon.session("poster", "Alias=poster", "Loop=1", script=POSTER)
        self.start("--loops", "2")
        for level in ("accepted", "durable"):
            self.assertEqual(self.post("jobs", level), "true")
        self.assertEqual(self.post("jobs", "handled", "0.05"), "nil timeout")
        self.assertEqual(self.post("plain", "durable"), "true")
        self.assertEqual(self.post("nobody", "durable"), "nil no-alias")
        for level in ("accepted", "durable", "delivered", "handled"):
            self.assertEqual(self.post("plain", level), "true")
            self.assertEqual(self.post("keep", level), "true")
        self.kill()
        self.start_again("--loops", "2")
        self.assertEqual(self.waiting("jobs"), ["add"] * 3)
        # the last was handled, and so were those before it
        self.assertEqual(self.ctl("call", "keep", "seen"), b"")
        self.assertEqual(self.accounts()["queued"], 3)

    def test_the_store_tells_how_it_stands(self):
        self.slot()
        self.start()
        for i in range(10):
            self.ctl("post", "jobs", f"e{i}")
        report = self.object("store", "stats")
        self.assertEqual((report["state"], report["mailboxes"],
                          report["events"]), ("ok", 1, 10))
        self.assertGreater(report["commits"], 0)
        report = self.object("store", "check")
        self.assertEqual((report["checked"], report["damaged"]), (10, 0))
        self.assertIn(b"10 in 1 mailboxes", self.ctl("store", "stats"))
        self.ctl("store", "nosuch", code=64)
        self.ctl("store", "backup", "relative", code=64)

    def test_a_copy_is_as_good(self):
        self.slot()
        self.start()
        self.ctl("post", "jobs", "old")
        copy = os.path.join(self.daemon.root, "copy")
        self.ctl("store", "backup", copy)
        self.ctl("store", "backup", copy, code=74)  # it is there
        self.ctl("post", "jobs", "new")
        self.daemon.stop()
        os.rename(copy, os.path.join(self.store, "data.mdb"))
        self.start_again()
        self.assertEqual(self.waiting("jobs"), ["old"])

    def test_without_a_store_it_is_off(self):
        self.daemon.configure()
        self.start()
        self.assertEqual(self.object("store", "stats")["state"], "off")
        self.ctl("store", "check", code=76)

    # B50
    @unittest.skipIf(os.geteuid() != 0, "mounts a file system")
    def test_a_full_disk_refuses_and_recovers(self):
        os.mkdir(self.store)
        if subprocess.call(["mount", "-t", "tmpfs", "-o", "size=16m", "tmpfs",
                            self.store], stderr=subprocess.DEVNULL):
            self.skipTest("no tmpfs can be mounted here")
        self.addCleanup(subprocess.call, ["umount", "-l", self.store])
        self.slot("jobs", "MaxBytes=1G")
        self.daemon.session("keep", "Alias=keep", script=KEEP)
        self.start()
        with self.daemon.client() as c:
            data, n = b"x" * 200000, 0
            while c.post("jobs", "e", data) == 0:
                n += 1
            status, text = c.failures[c.seq]
            self.assertEqual(status, 9)
            self.assertIn("'jobs': No space left on device", text)
            self.assertGreater(n, 20)
            self.assertEqual(c.post("keep", "add", b"v"), 0)  # as ever
            self.assertGreater(self.object("store", "stats")["failed"], 0)
            response = c.request("bind", (1, "jobs"), (2, 1), (4, 32 << 20))
            self.assertEqual(harness.first(response, 2), 0)
            c.until(lambda: len(c.deliveries) >= n // 2)
            self.settle(c, n // 2)
            wait_for(lambda: c.post("jobs", "new", data) == 0,
                     "room again")
            left = n - n // 2 + 1
        self.crash()
        wait_for(lambda: self.object("status", "jobs")["events"]["queued"] ==
                 left, "nothing acked is lost")

    # B47
    def test_a_run_without_the_store_is_told(self):
        self.slot()
        self.start()
        self.ctl("post", "jobs", "old")
        self.daemon.stop()
        self.start_again("--no-store")
        self.ctl("post", "jobs", "volatile")
        self.assertEqual(self.waiting("jobs"), ["volatile"])
        self.daemon.stop()
        self.start_again()
        self.assertEqual(self.waiting("jobs"), ["old"])
        self.assertIn("store.ran-without", self.daemon.text())

    # B53
    def test_a_damaged_store_is_set_aside(self):
        self.slot()
        self.start()
        self.ctl("post", "jobs", "lost")
        self.daemon.stop()
        with open(os.path.join(self.store, "data.mdb"), "r+b") as f:
            f.write(os.urandom(16384))
        self.start_again()
        self.assertEqual(self.waiting("jobs"), [])
        self.assertIn("store.corrupt", self.daemon.text())
        self.assertTrue([n for n in os.listdir(self.store)
                         if ".corrupt-" in n])
        self.ctl("post", "jobs", "new")
        self.crash()
        self.assertEqual(self.waiting("jobs"), ["new"])

    def test_a_second_daemon_is_refused(self):
        self.slot()
        self.start()
        with harness.Daemon() as other:
            other.configure("[Store]", f"Path={self.store}")
            done = other.run()
            self.assertNotEqual(done.returncode, 0)
            self.assertIn(f"{self.store}: another process uses it",
                          done.stderr)

    def test_a_store_that_cannot_be_opened_fails_durable_sessions_alone(self):
        self.place("/proc/nothing/here")
        self.slot()
        self.keep()
        self.start()
        self.ctl("post", "keep", "add")
        self.ctl("post", "jobs", "e", code=69)  # failed
        self.assertIn("/proc/nothing/here", self.err)


if __name__ == "__main__":
    unittest.main()
