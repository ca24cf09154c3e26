#!/usr/bin/env python3
"""What administrators do with the store: make it smaller, copy it, put a copy
back, and read what is left of one that is damaged."""

import os
import re
import shutil
import struct
import subprocess
import time
import unittest

import ctl
import harness
from harness import wait_for


class Store(ctl.TestCase):
    def setUp(self):
        super().setUp()
        self.store = os.path.join(self.daemon.root, "store")
        self.data = os.path.join(self.store, "data.mdb")
        self.other = os.path.join(self.daemon.root, "other.mdb")
        self.daemon.configure("[Store]", f"Path={self.store}")
        for name in ("jobs", "more"):
            self.daemon.session(name, f"Alias={name}", "Kind=client",
                                mailbox=("Durable=yes",))

    def go(self):
        self.daemon.notices.clear()
        self.daemon.start()

    def end(self):
        self.assertEqual(self.daemon.stop(), 0)
        self.daemon.hear()

    def post(self, alias, n, size=1000):
        line = b"x" * size + b"\n"
        self.ctl("post", "--lines", alias, "e", "-", input=line * n)

    def events(self, alias):
        return [(e["id"], e["event"]) for e in self.objects(
            "queue", "peek", alias, "-n", "100000")]

    def assert_works(self):
        self.ctl("post", "jobs", "last", "--wait", "durable")
        self.assertEqual(self.events("jobs")[-1][1], "last")
        self.assertEqual(self.object("store", "check")["damaged"], 0)

    def test_compaction_gives_space_back_in_use(self):
        self.go()
        self.post("jobs", 20000)
        self.post("more", 500)
        kept = self.events("more")
        self.ctl("store", "compact")
        self.ctl("queue", "purge", "jobs", "--yes")
        self.ctl("post", "jobs", "one", "--wait", "durable")
        done = self.object("store", "compact")
        self.assertGreater(done["freed"], 10 << 20)
        self.assertLess(os.path.getsize(self.data), 8 << 20)
        self.assertIn("less than before",
                      self.ctl("store", "compact").decode())
        self.assertEqual(self.events("more"), kept)
        self.assert_works()
        self.daemon.process.kill()
        self.daemon.wait()
        self.daemon.hear()
        self.go()
        self.assertEqual(self.events("more"), kept)
        self.assertEqual([e for _, e in self.events("jobs")], ["one", "last"])
        self.assert_works()

    def test_clients_go_on_while_it_is_compacted(self):
        self.go()
        self.post("more", 2000)
        post = self.spawn("post", "--lines", "jobs", "e", "-",
                          stdin=subprocess.PIPE)
        for i in range(20):
            post.stdin.write(b"%d\n" % i * 100)
            post.stdin.flush()
            self.ctl("store", "compact")
        post.stdin.close()
        self.assertEqual(post.wait(60), 0)
        self.assertEqual(len(self.events("jobs")), 2000)
        self.assertEqual(len(self.events("more")), 2000)
        self.end()
        self.go()
        self.assertEqual(len(self.events("jobs")), 2000)

    # as eventctl(1) tells it
    def test_a_copy_is_put_back(self):
        self.go()
        self.post("jobs", 100)
        kept = self.events("jobs")
        self.ctl("store", "backup", self.other)
        self.ctl("store", "backup", self.other, code=74)
        self.post("jobs", 100)
        self.end()
        for name in os.listdir(self.store):
            os.unlink(os.path.join(self.store, name))
        os.rename(self.other, self.data)
        self.go()
        self.assertEqual(self.events("jobs"), kept)
        self.assertEqual(self.object("store", "stats")["state"], "ok")
        self.assert_works()

    @unittest.skipIf(os.geteuid() != 0, "mounts a file system")
    def test_a_copy_that_finds_no_room_leaves_nothing(self):
        small = os.path.join(self.daemon.root, "small")
        os.mkdir(small)
        if subprocess.call(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs",
                            small], stderr=subprocess.DEVNULL):
            self.skipTest("no tmpfs can be mounted here")
        self.addCleanup(subprocess.call, ["umount", "-l", small])
        self.go()
        self.post("jobs", 5000)
        copy = os.path.join(small, "copy.mdb")
        self.ctl("store", "backup", copy, code=74)
        self.assertIn(copy, self.err)
        self.assertIn("No space left", self.err)
        self.assertEqual(os.listdir(small), [])
        self.assert_works()

    def test_killed_while_it_is_compacted(self):
        self.go()
        self.post("jobs", 20000)
        kept = self.events("jobs")
        for wait_s in (0, 0.001, 0.003, 0.01, 0.03):
            compact = self.spawn("store", "compact")
            time.sleep(wait_s)  # any instant will do
            self.daemon.process.kill()
            self.daemon.wait()
            self.daemon.hear()
            compact.wait(60)
            self.go()
            self.assertEqual(self.events("jobs"), kept)
        self.assertFalse([n for n in os.listdir(self.store)
                          if n not in ("data.mdb", "lock.mdb", "owner",
                                       "log-0", "log-1")])
        self.assert_works()

    def test_what_a_later_eventd_wrote_is_left_as_it_is(self):
        self.go()
        self.post("jobs", 10)
        self.end()
        with open(self.data, "rb") as file:
            was = file.read()
        later = was.replace(b"format" + struct.pack("<Q", 2),
                            b"format" + struct.pack("<Q", 99))
        self.assertNotEqual(later, was)
        with open(self.data, "wb") as file:
            file.write(later)
        done = self.daemon.run()
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("format 99", done.stderr)
        with open(self.data, "rb") as file:
            self.assertEqual(file.read(), later)
        with open(self.data, "wb") as file:
            file.write(was)
        self.go()
        self.assertEqual(len(self.events("jobs")), 10)

    def damage(self, at):
        with open(self.data, "r+b") as file:
            file.seek(at)
            file.write(b"\xff" * 4096)

    def corrupt(self):
        [name] = [n for n in os.listdir(self.store) if "corrupt" in n]
        return os.path.join(self.store, name)

    # B43: a file that is cut short, or cannot be read, while it is used
    @unittest.skipIf(os.environ.get("SANITIZE"), "which has its own last word")
    def test_the_last_word_tells_what_cannot_be_read(self):
        self.go()
        self.post("jobs", 2000)
        self.ctl("store", "compact")
        os.truncate(self.data, 8192)
        self.daemon.eventctl("store", "check")
        self.assertNotEqual(self.daemon.wait(), 0)
        self.assertIn("the disk of the store fails", self.daemon.text())
        self.go()
        self.assertEqual(self.object("store", "stats")["state"], "degraded")
        self.assert_works()

    # B43: LMDB knows that there was a log, and tells if nothing is left of it
    def test_a_log_that_is_not_there_is_missed(self):
        logs = [os.path.join(self.store, name) for name in ("log-0", "log-1")]
        for harm in (os.unlink, lambda path: os.truncate(path, 0),
                     lambda path: os.path.exists(path) and self.zero(path)):
            self.go()
            self.post("jobs", 3)
            self.ctl("store", "compact")  # those are with LMDB
            kept = self.events("jobs")
            self.post("jobs", 2)
            self.daemon.process.kill()
            self.daemon.wait()
            for path in logs:
                harm(path)
            self.go()
            self.assertEqual(self.events("jobs"), kept)
            stats = self.object("store", "stats")
            self.assertEqual(stats["state"], "degraded")
            self.assertIn("last seconds", stats["text"])
            self.assert_works()
            self.end()
            self.go()  # told once
            self.assertEqual(self.object("store", "stats")["state"], "ok")
            self.end()
        self.assertTrue([n for n in os.listdir(self.store) if "corrupt" in n])

    def zero(self, path):
        size = os.path.getsize(path)
        with open(path, "wb") as file:
            file.write(b"\0" * size)

    # B44: what is synced to a deleted file is gone with the daemon
    def test_deleted_files_take_nothing_more_and_can_be_saved(self):
        self.go()
        self.post("jobs", 100)
        kept = self.events("jobs")
        shutil.rmtree(self.store)
        said = self.daemon.eventctl("post", "jobs", "late")
        self.assertEqual(said.returncode, 74)
        self.assertIn(b"cannot take an event for 'jobs'", said.stderr)
        self.daemon.logged("store.removed")
        self.assertEqual(self.object("store", "stats")["state"], "degraded")
        self.assertEqual(self.events("jobs"), kept)
        self.ctl("store", "backup", self.other)
        self.end()
        os.makedirs(self.store, exist_ok=True)
        shutil.copy(self.other, self.data)
        self.go()
        self.assertEqual(self.events("jobs"), kept)
        self.assert_works()

    def test_damaged_while_it_is_used(self):
        self.go()
        self.post("jobs", 5000)
        self.ctl("store", "backup", self.other)
        with open(self.data, "rb") as file:
            pages = file.read()
        for at in range(8192, len(pages), 4096):
            if pages[at + 10] in (1, 2):
                self.damage(at)
        self.ctl("store", "check", code=74)
        self.assertIn(self.store, self.err)
        self.assertIn("store salvage", self.err)
        self.ctl("queue", "peek", "jobs", "-n", "100000", code=74)
        self.ctl("status")
        self.daemon.process.kill()
        self.daemon.wait()
        self.daemon.hear()
        self.go()
        self.assertIn("set aside", self.object("store", "stats")["text"])
        self.assert_works()

    def test_what_is_left_of_a_damaged_store(self):
        self.go()
        for _ in range(20):
            self.post("jobs", 100)
            self.post("more", 10)
        self.end()
        # a page in the middle, by its header one of rows
        with open(self.data, "rb") as file:
            pages = file.read()
        leaves = [at for at in range(8192, len(pages), 4096)
                  if pages[at + 10] == 2]
        some = None
        for at in leaves:
            self.damage(at)
            run = subprocess.run(
                [harness.EVENTD, "--salvage", self.data, self.other],
                capture_output=True, text=True, check=False)
            self.assertIn(run.returncode, (0, 65, 71), run.stderr)
            lost = re.search(r"; (\d+) lost$", run.stdout)
            if lost and int(lost[1]):
                some = at
            with open(self.data, "r+b") as file:
                file.seek(at)
                file.write(pages[at:at + 4096])
            if os.path.exists(self.other):
                os.unlink(self.other)
        # of one the daemon sets aside, while it runs
        self.damage(some)
        self.go()
        self.post("jobs", 1)
        report = self.objects("store", "salvage", self.corrupt(), self.other,
                              code=65)[0]
        self.assertGreater(report["lost"], 0)
        self.assertEqual(report["lost"] + report["events"], 2200)
        self.assertFalse(report["lost_unknown"])
        self.ctl("store", "salvage", self.corrupt(), self.other, code=74)
        self.assertIn("is there", self.err)
        self.ctl("store", "salvage", "relative", self.other, code=64)
        self.end()
        for name in os.listdir(self.store):
            if name.startswith(("data.mdb", "log-")):
                os.unlink(os.path.join(self.store, name))
        os.rename(self.other, self.data)
        self.go()
        self.assertEqual(len(self.events("jobs")) + len(self.events("more")),
                         report["events"])
        self.assert_works()

    def test_salvage_of_a_sound_one_loses_nothing(self):
        self.go()
        for _ in range(5):
            self.post("jobs", 300)
            self.post("more", 3, size=30000)
        with self.daemon.client() as c:
            response = c.request("bind", (1, "more"), (2, 1))
            self.assertEqual(harness.first(response, 2), 0)
            c.until(lambda: len(c.deliveries) == 15)
            c.send((3, harness.message((1, 1), (2, 7))))
            wait_for(lambda: self.object("status")["events"]["handled"] == 7,
                     "seven handled")
        jobs, more = self.events("jobs"), self.events("more")
        self.assertEqual(len(more), 8)
        self.end()
        out = subprocess.run(
            [harness.EVENTD, "--salvage", self.data, self.other],
            capture_output=True, text=True, check=True).stdout
        self.assertIn("1508 events in 2 mailboxes, 0 of them damaged; 0 lost",
                      out)
        for name in os.listdir(self.store):
            os.unlink(os.path.join(self.store, name))
        os.rename(self.other, self.data)
        self.go()
        self.assertEqual(self.events("jobs"), jobs)
        self.assertEqual(self.events("more"), more)
        self.assertNotIn("store.missing", self.daemon.text())
        self.assert_works()


if __name__ == "__main__":
    unittest.main()
