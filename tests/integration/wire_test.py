#!/usr/bin/env python3
"""What comes over the wire is checked where it comes in: names, fields, what a
later version would send; and the daemon never makes itself a daemon."""
import os
import random
import subprocess

import harness
from harness import first, message, varint

SINK = "return {keep = function() end}"
INVALID, PROTOCOL, UNSUPPORTED = 2, 12, 13


class Wire(harness.TestCase):
    def setUp(self):
        super().setUp()
        self.daemon.session("sink", script=SINK)
        self.daemon.start()
        self.other = self.daemon.client()

    def tearDown(self):
        self.assertEqual(self.other.post("sink", "keep"), 0)

    # B118: names are eventd's own alphabet, at the edge; payloads are bytes
    def test_names_of_any_other_bytes_are_refused(self):
        bad = (b"\xff\xfe", b"a\0b", b"a\nb", b"\x1b[31mred", "\u202eab".encode(),
               b"a b", b"x" * 256, b"y" * 65536, b"\xc3\xa9")
        for name in bad:
            with self.subTest(name=name[:20]):
                client = self.daemon.client()
                client.send((1, message((2, name), (3, b"keep"), (5, 1))))
                client.drain()
                self.assertEqual([e[0] for e in client.errors], [PROTOCOL])
                self.assertNotIn(b"\x1b", client.errors[0][1].encode())
                if b"\0" in name:
                    continue
                # in a request it is answered, and the connection lives
                client = self.daemon.client()
                answer = client.request("resolve", (1, name))
                self.assertEqual(first(answer, 2), INVALID, answer)
                self.assertEqual(client.post("sink", "keep", name), 0)
        self.assertNotIn("\x1b", self.daemon.text())

    # B118, B73: "a\0b" is not "a"
    def test_a_name_does_not_end_at_a_nul(self):
        for verb in ("resolve", "bind", "watch"):
            client = self.daemon.client()
            client.send((7, message((1, 1), (client.VERBS[verb], message(
                (1, b"sink\0x"), (2, 1))))))
            client.drain()
            self.assertEqual([e[0] for e in client.errors], [PROTOCOL], verb)

    # B119: each field missing, empty, twice, or of another wire type
    def test_fields_missing_doubled_or_of_a_wrong_type(self):
        base = [(2, b"sink"), (3, b"keep"), (4, b"x"), (5, 1), (12, 0),
                (13, 0), (17, 0), (18, 1000), (19, b"key")]

        def outcome(*parts):
            client = self.daemon.client()
            try:
                client.send((1, message(*parts)))
                client.send((7, message((1, 5), (11, message((1, b"p"))))))
            except OSError:
                pass  # it has been closed: why is read below
            try:
                client.until(lambda: 5 in client.responses or client.errors)
            except (harness.Closed, ConnectionError):
                self.assertTrue(client.errors)
            client.close()
            return client

        for i, (number, value) in enumerate(base):
            rest = base[:i] + base[i + 1:]
            with self.subTest(field=number):
                outcome(*rest)
                outcome(*rest, (number, b"" if isinstance(value, bytes)
                                else 0))
                twice = outcome(*base, (number, value))
                self.assertEqual(twice.errors, [])
                wrong = outcome(*rest, (number, 7 if isinstance(value, bytes)
                                        else b"seven"))
                self.assertEqual([e[0] for e in wrong.errors], [PROTOCOL])
        # and in requests
        for verb in range(1, 80):
            for body in (b"", b"\x08\x01", b"\x0a\x00", b"\x0a\x01a"):
                client = self.daemon.client()
                client.send((7, message((1, 9), (verb, body))))
                client.close()

    # B122: what a later version sends is ignored, or answered
    def test_what_a_later_version_sends(self):
        client = self.daemon.client(hello=False)
        client.send((5, message((1, 1), (2, "newer"), (3, "x-unknown"),
                                (3, "memfd"), (90, 7), (91, b"more"))))
        client.until(lambda: client.welcome is not None)
        # fields and parts nobody knows, on every level
        client.send((500, b"part"), (1, message(
            (2, b"sink"), (3, b"keep"), (5, 1), (900, 1), (901, b"y"))))
        client.seq = 1
        client.until(lambda: client.settled(1))
        self.assertEqual(client.failures, {})
        # enum values: this version says that it does not know them
        client.seq = 3
        client.send((1, message((2, b"sink"), (3, b"keep"), (5, 2),
                                (12, 200))))
        client.send((1, message((2, b"sink"), (3, b"keep"), (5, 3),
                                (17, 99))))
        client.until(lambda: client.settled(3))
        self.assertEqual({k: v[0] for k, v in client.failures.items()},
                         {2: UNSUPPORTED, 3: UNSUPPORTED})
        answer = client.request_number(1500, (1, b"z"))
        self.assertEqual(first(answer, 2), UNSUPPORTED)
        self.assertEqual(client.post("sink", "keep"), 0)

    # B122: one that knows less is served as before
    def test_an_older_client_sees_what_it_knows(self):
        client = self.daemon.client()
        self.assertNotIn(120, client.welcome)
        self.assertNotIn(3, client.welcome)
        self.assertEqual(client.post("sink", "keep"), 0)

    def test_random_bytes_end_one_connection_alone(self):
        dice = random.Random(3)
        for _ in range(300):
            client = self.daemon.client()
            body = dice.randbytes(dice.randrange(1, 60))
            try:
                client.socket.sendall(varint(len(body)) + body)
            except OSError:
                pass
            client.close()

    # B71: no daemonising: what was started is what serves
    def test_it_never_forks_itself(self):
        pid = self.daemon.process.pid
        with open(f"/proc/{pid}/task/{pid}/children",
                  encoding="ascii") as file:
            self.assertEqual(file.read(), "")
        self.assertEqual(self.parents_of_listener(), {pid})

    def parents_of_listener(self):
        """Processes that have this daemon's socket open."""
        out = subprocess.run(["cat", "/proc/net/unix"], check=True,
                             capture_output=True, text=True).stdout
        inodes = {line.split()[6] for line in out.splitlines()
                  if line.endswith(self.daemon.socket)}
        found = set()
        for pid in filter(str.isdigit, os.listdir("/proc")):
            try:
                for fd in os.listdir(f"/proc/{pid}/fd"):
                    link = os.readlink(f"/proc/{pid}/fd/{fd}")
                    if link[8:-1] in inodes:
                        found.add(int(pid))
            except OSError:
                continue
        return found


if __name__ == "__main__":
    harness.main()
