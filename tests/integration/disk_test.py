#!/usr/bin/env python3
"""A disk that is slow, or fails now and then: what is durable waits or is
refused with the reason, nothing else is held up, nothing accepted is lost."""

import os
import unittest

import ctl
from harness import wait_for

ECHO = "return {hello = function(data) eventd.reply(data) end}"
DURABLE = 1


@unittest.skipUnless(os.environ.get("FAULTS") == "1", "no fault points")
class Disk(ctl.TestCase):
    def setUp(self):
        super().setUp()
        self.daemon.configure(
            "[Store]", f"Path={os.path.join(self.daemon.root, 'store')}")
        self.daemon.session("jobs", "Alias=jobs", "Kind=client",
                            mailbox=("Durable=yes",))
        self.daemon.session("echo", "Alias=echo", script=ECHO)

    def go(self, **faults):
        text = ",".join(f"{k}:{v}" for k, v in faults.items())
        self.daemon.notices.clear()
        self.daemon.start(environment={"EVENTD_FAULTS": text} if text else {})

    def kill(self):
        self.daemon.process.kill()
        self.daemon.wait()
        self.daemon.hear()

    def waiting(self):
        return sorted(int(e["data"]) for e in self.objects(
            "queue", "peek", "jobs", "-n", "10000", "--bytes", "10"))

    def test_a_slow_disk_holds_up_what_is_durable_alone(self):
        self.go(store_slow=1)
        with self.daemon.client() as c:
            slow = c.post_soon("jobs", "e", b"1")
            calls = 0
            while not c.settled(slow):
                self.assertEqual(c.call("echo", "hello", b"x"), (0, b"x"))
                calls += 1
            self.assertNotIn(slow, c.failures)
            self.assertGreater(calls, 10)
        self.kill()
        self.go()
        self.assertEqual(self.waiting(), [1])

    def try_faults(self, n, **faults):
        self.go(**faults)
        accepted, refused = [], 0
        with self.daemon.client() as c:
            for i in range(n):
                status = c.post("jobs", "e", b"%d" % i, level=DURABLE)
                if status:
                    refused += 1
                    self.assertIn("the store cannot take", c.failures[c.seq][1])
                else:
                    accepted.append(i)
                self.assertEqual(c.call("echo", "hello", b"x"), (0, b"x"))
        self.assertEqual(self.waiting(), accepted)
        self.kill()
        self.go()
        self.assertEqual(self.waiting(), accepted)
        self.ctl("queue", "purge", "jobs", "--yes")
        wait_for(lambda: self.object("store", "stats")["events"] == 0, "none")
        self.assertEqual(self.daemon.stop(), 0)
        self.daemon.hear()
        return refused

    def test_writes_that_fail_now_and_then(self):
        for point in ("store_write_eio", "store_write_enospc",
                      "store_commit_eio", "store_commit_enospc"):
            with self.subTest(point=point):
                self.assertGreater(self.try_faults(60, **{point: 3}), 5)
        self.assertGreater(self.try_faults(
            200, store_write_eio=5, store_commit_eio=7, store_write_enospc=11,
            checkpoint_eio=2, checkpoint_enospc=3, lmdb_grow=2), 20)


if __name__ == "__main__":
    unittest.main()
