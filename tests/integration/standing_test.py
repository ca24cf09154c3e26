"""Mailboxes that clients have bound as durable: they stay with nobody bound, and
are there again when the daemon is."""
import os
import unittest

import ctl
import harness
from harness import wait_for


class Standing(ctl.TestCase):
    def setUp(self):
        super().setUp()
        self.daemon.configure("[Store]",
                              f"Path={os.path.join(self.daemon.root, 's')}")

    def bind(self, client, alias, *more, status=0):
        response = client.request("bind", (1, alias), (2, 1), (110, 1), *more)
        self.assertEqual(harness.first(response, 2), status, response)
        return harness.first(response, 3, b"").decode()

    def crash(self):
        self.daemon.process.kill()
        self.daemon.wait()
        self.daemon.hear()
        self.daemon.notices.clear()
        self.daemon.start()

    def names(self, client):
        return [harness.first(d, 3, b"").decode() for d in client.deliveries]

    # B55: away for a while, nothing is lost
    def test_it_keeps_what_comes_while_nobody_is_bound(self):
        self.start()
        with self.daemon.client() as c:
            self.bind(c, "mine")
            self.ctl("post", "mine", "e0")
            c.until(lambda: len(c.deliveries) == 1)
        for i in range(1, 4):
            self.ctl("post", "mine", f"e{i}")
        self.crash()
        self.ctl("post", "mine", "e4")
        with self.daemon.client() as c:
            self.bind(c, "mine")
            c.until(lambda: len(c.deliveries) == 5)
            self.assertEqual(self.names(c), [f"e{i}" for i in range(5)])
            c.send((3, harness.message((1, 1), (2, 5))))
            wait_for(lambda: self.object("status", "mine")["events"]["queued"]
                     == 0, "all are handled")
        self.crash()
        self.assertEqual(self.objects("queue", "peek", "mine"), [])

    def test_it_is_as_it_was_bound(self):
        self.start()
        box = (9, harness.message((1, "refuse"), (2, 2)))
        with self.daemon.client() as c:
            self.bind(c, "many", (11, 1), box)
        self.crash()
        with self.daemon.client() as c:
            self.assertIn("in mode shared",
                          self.bind(c, "many", status=8))
            self.assertEqual(c.post("many", "a", b""), 0)
            self.assertEqual(c.post("many", "b", b""), 0)
            self.assertNotEqual(c.post("many", "c", b""), 0)

    def test_it_ends_when_it_is_stopped(self):
        self.start()
        with self.daemon.client() as c:
            self.bind(c, "mine")
        self.ctl("post", "mine", "left")
        self.ctl("stop", "mine")
        self.ctl("post", "mine", "e", code=68)
        self.crash()
        self.ctl("post", "mine", "e", code=68)
        with self.daemon.client() as c:  # what it held is not thrown away
            self.bind(c, "mine")
            c.until(lambda: c.deliveries)
            self.assertEqual(self.names(c), ["left"])

    def test_why_not_is_told(self):
        self.daemon.session("file", "Alias=file", "Kind=client")
        self.start()
        with self.daemon.client() as c:
            self.assertIn("not durable", self.bind(c, "file", status=13))
            rules = (9, harness.message((1, "block tick:drop-oldest")))
            self.assertIn("one overflow", self.bind(c, "x", rules, status=2))
            self.assertIn("no durable", self.bind(c, "file", (11, 3),
                                                  status=2))

    def test_without_a_store_it_is_refused(self):
        self.daemon.configure()
        self.start()
        with self.daemon.client() as c:
            self.assertIn("there is no store", self.bind(c, "x", status=13))

    def test_a_file_goes_before_it(self):
        self.start()
        with self.daemon.client() as c:
            self.bind(c, "mine")
        self.ctl("post", "mine", "e")
        self.daemon.session("mine", "Alias=mine", "Kind=client",
                            mailbox=("Durable=yes",))
        self.crash()
        wait_for(lambda: [e["event"] for e in
                          self.objects("queue", "peek", "mine")] == ["e"],
                 "what it held")
        self.assertIn("mine.conf", str(self.object("status", "mine")))

    def test_eventctl_binds_so(self):
        self.start()
        process = self.spawn("bind", "mine", "--durable", "-n", "1", "--json")
        self.held("mine")
        self.ctl("post", "mine", "a")
        process.wait()
        self.ctl("post", "mine", "b")
        self.assertEqual([e["event"] for e in
                          self.objects("queue", "peek", "mine")], ["b"])


if __name__ == "__main__":
    unittest.main()
