#!/usr/bin/env python3
"""A store that cannot be opened when the daemon starts: what is durable is
refused with the reason, the rest works, and once it can be opened all goes on
without a restart."""

import os
import subprocess
import time
import unittest

import ctl
from harness import wait_for

KEEP = """
local seen = {}
return {
    add = function(data, ev) seen[#seen + 1] = data .. "/" .. ev.attempt end,
    seen = function() return table.concat(seen, " ") end,
}
"""


class Reopen(ctl.TestCase):
    def setUp(self):
        super().setUp()
        self.store = os.path.join(self.daemon.root, "store")
        self.daemon.configure("[Store]", f"Path={self.store}")
        self.daemon.session("jobs", "Alias=jobs", "Kind=client",
                            mailbox=("Durable=yes",))
        self.daemon.session("far", "Alias=far", "Loop=1", "Kind=client",
                            mailbox=("Durable=yes",))
        self.daemon.session("keep", "Alias=keep", "Loop=1", script=KEEP)

    def go(self):
        self.daemon.notices.clear()
        self.daemon.start("--loops", "2")

    def mount(self, options):
        os.mkdir(self.store)
        if subprocess.call(["mount", "-t", "tmpfs", "-o", options, "tmpfs",
                            self.store], stderr=subprocess.DEVNULL):
            self.skipTest("no tmpfs can be mounted here")
        self.addCleanup(subprocess.call, ["umount", "-l", self.store])

    def remount(self, how):
        subprocess.check_call(["mount", "-o", "remount," + how, self.store])

    def waiting(self, alias):
        return [e["event"] for e in self.objects("queue", "peek", alias)]

    def fill_in(self):
        """Events of a run in which the store is there."""
        self.go()
        for alias in ("jobs", "far"):
            for event in ("a", "b"):
                self.ctl("post", alias, event)
        self.ctl("queue", "pause", "keep")
        self.ctl("post", "keep", "add", "k", "--wait", "durable")
        self.assertEqual(self.daemon.stop(), 0)
        self.daemon.hear()

    def assert_broken(self, why):
        report = self.object("store", "stats")
        self.assertEqual(report["state"], "broken")
        self.assertIn(why, report["text"])
        self.assertIn("tried again", report["text"])
        self.ctl("post", "jobs", "refused", code=69)
        self.assertIn(why, self.err)
        self.ctl("post", "keep", "add", "refused", "--wait", "durable", code=76)
        self.assertIn("cannot be used", self.err)
        self.ctl("post", "keep", "add", "p", "--wait", "handled")

    def assert_recovers(self, *before):
        wait_for(lambda: self.object("store", "stats")["state"] != "broken",
                 "it is open", 60)
        for alias in ("jobs", "far"):
            wait_for(lambda a=alias: self.waiting(a) == list(before),
                     "what was stored")
            self.ctl("post", alias, "new", "--wait", "durable")
            self.assertEqual(self.waiting(alias), [*before, "new"])
        self.ctl("post", "keep", "add", "late", "--wait", "durable")
        self.assertEqual(self.daemon.text().count("store.recovered"), 1)
        # an id is not given twice, and all of it is there in the next run
        ids = [e["id"] for a in ("jobs", "far")
               for e in self.objects("queue", "peek", a)]
        self.assertEqual(len(set(ids)), len(ids))
        self.daemon.process.kill()
        self.daemon.wait()
        self.daemon.hear()
        self.go()
        for alias in ("jobs", "far"):
            self.assertEqual(self.waiting(alias), [*before, "new"])

    @unittest.skipIf(os.geteuid() != 0, "mounts a file system")
    def test_read_only_for_a_while(self):
        self.mount("rw")
        self.fill_in()
        self.remount("ro")
        self.go()
        self.assert_broken("Read-only")
        self.remount("rw")
        wait_for(lambda: "k/1" in self.ctl("call", "keep", "seen").decode(),
                 "what a volatile mailbox had in the store", 60)
        self.assert_recovers("a", "b")

    @unittest.skipIf(os.geteuid() != 0, "mounts a file system")
    def test_a_full_disk_for_a_while(self):
        self.mount("size=4m")
        full = os.path.join(self.store, "full")
        with open(full, "wb", buffering=0) as file:
            try:
                while file.write(bytes(4096)):
                    pass
            except OSError:
                pass
        self.go()
        self.assert_broken("No space")
        os.unlink(full)
        self.assert_recovers()

    @unittest.skipIf(os.geteuid() != 0, "mounts a file system")
    def test_damage_that_cannot_be_set_aside_yet(self):
        self.mount("rw")
        self.fill_in()
        data = os.path.join(self.store, "data.mdb")
        with open(data, "r+b") as file:
            file.write(b"\xff" * 16384)
        self.remount("ro")
        self.go()
        self.assert_broken("Read-only")
        self.remount("rw")
        wait_for(lambda: self.object("store", "stats")["state"] == "degraded",
                 "it is open", 60)
        self.assertIn("set aside", self.object("store", "stats")["text"])
        self.ctl("post", "jobs", "new", "--wait", "durable")
        self.assertEqual(self.waiting("jobs"), ["new"])

    def test_a_file_in_its_place(self):
        with open(self.store, "wb"):
            pass
        self.go()
        self.assert_broken("Not a directory")
        begun = time.monotonic()
        wait_for(lambda: "; tried again 1 times" in
                 self.object("store", "stats")["text"], "another try", 60)
        self.assertGreater(time.monotonic() - begun, 0.1)
        self.assertEqual(self.daemon.text().count("store.broken"), 1)
        self.ctl("restart", "jobs")  # it is no volatile mailbox then
        self.ctl("post", "jobs", "refused", code=69)
        os.unlink(self.store)
        self.assert_recovers()

    def test_it_ends_while_it_waits_for_the_store(self):
        with open(self.store, "wb"):
            pass
        self.go()
        self.assertEqual(self.daemon.stop(), 0)


if __name__ == "__main__":
    unittest.main()
