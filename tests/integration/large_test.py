#!/usr/bin/env python3
"""Large payloads through the real daemon: as bytes and as sealed memfds, to
Lua, to clients and into a durable mailbox; and descriptors that are not what
they are said to be."""
import array
import fcntl
import os
import socket

import harness

ECHO = """
return {
  size = function(data) return tostring(#data) .. " " .. data:byte(#data) end,
  keep = function(data) end,
}
"""
SEALS = (fcntl.F_SEAL_SEAL | fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW
         | fcntl.F_SEAL_WRITE)
MIB = 1 << 20


def fds_of(daemon):
    return len(os.listdir(f"/proc/{daemon.process.pid}/fd"))


def memfd(data, seals=SEALS):
    fd = os.memfd_create("test", os.MFD_ALLOW_SEALING | os.MFD_CLOEXEC)
    with open(fd, "wb", closefd=False) as file:
        file.write(data)
    fcntl.fcntl(fd, fcntl.F_ADD_SEALS, seals)
    return fd


class Passing(harness.Client):
    """A client that passes descriptors, and drops those that it gets."""

    def __init__(self, path):
        super().__init__(path, hello=False)
        self.send((5, harness.message((1, 1), (2, "test"), (3, "memfd"),
                                       (3, "memfd-replies"))))
        self.until(lambda: self.welcome is not None)

    def send_fds(self, body, fds):
        data = harness.varint(len(body)) + body
        self.socket.sendmsg([data], [(socket.SOL_SOCKET, socket.SCM_RIGHTS,
                                      array.array("i", fds))])

    def post_memfd(self, alias, event, fd, size):
        self.seq += 1
        seq = self.seq
        self.send_fds(harness.message((1, harness.message(
            (2, alias), (3, event), (5, seq), (120, size)))), [fd])
        self.until(lambda: self.settled(seq))
        return self.failures.get(seq, (0, ""))

    def call_memfd(self, alias, event, fd, size):
        self.number += 1
        number = self.number
        self.send_fds(harness.message((1, harness.message(
            (2, alias), (3, event), (6, number), (120, size)))), [fd])
        self.until(lambda: number in self.replies)
        return self.replies.pop(number)


class Large(harness.TestCase):
    def start(self, *lines):
        self.daemon.session("sink", "Alias=sink", "MemoryMax=256M", script=ECHO)
        self.daemon.configure(*lines)
        self.daemon.start()

    def passing(self):
        client = Passing(self.daemon.socket)
        self.addCleanup(client.close)
        return client

    def test_bytes_and_memfds_reach_lua(self):
        self.start("MaxPayload=8M")
        before = fds_of(self.daemon)
        client = self.passing()
        data = os.urandom(3 * MIB) + b"z"
        want = f"{len(data)} {ord('z')}".encode()
        self.assertEqual(client.call("sink", "size", data), (0, want))
        fd = memfd(data)
        self.assertEqual(client.call_memfd("sink", "size", fd, len(data)),
                         (0, want))
        os.close(fd)
        client.close()
        harness.wait_for(lambda: fds_of(self.daemon) <= before,
                         "its descriptors to be closed")

    def test_one_larger_than_a_frame_needs_a_memfd(self):
        self.start()
        client = self.passing()
        fd = memfd(bytes(4 * MIB))
        self.assertEqual(client.call_memfd("sink", "size", fd, 4 * MIB),
                         (0, b"4194304 0"))
        status, text = client.post_memfd("sink", "keep", fd, 40 * MIB)
        self.assertEqual(status, 19, text)
        os.close(fd)

    def test_eventctl_passes_large_payloads_by_itself(self):
        self.start()
        path = os.path.join(self.daemon.root, "large")
        with open(path, "wb") as file:
            file.write(b"y" * (5 * MIB))
        done = self.daemon.eventctl("call", "sink", "size", "--file", path)
        self.assertIn(b"5242880 121", done.stdout, done.stderr)

    def test_a_clients_large_reply_is_a_memfd(self):
        """To who takes some, else bytes; however often it is asked."""
        self.start()
        answerer, asker = self.passing(), self.passing()
        plain = self.daemon.client()
        answerer.request("bind", (1, "ask"), (2, 1))
        data = os.urandom(4 * MIB)

        def asked(caller):
            number = caller.call_soon("ask", "e")
            answerer.until(lambda: answerer.deliveries)
            handle = answerer.deliveries.pop()[6][0]
            fd = memfd(data)
            answerer.send_fds(harness.message((1, harness.message(
                (7, handle), (120, len(data))))), [fd])
            os.close(fd)
            return number

        number = asked(plain)
        plain.until(lambda: number in plain.replies)
        self.assertEqual(plain.replies.pop(number), (0, data))
        asked(asker)
        _, (fd,), _, _ = socket.recv_fds(asker.socket, 1000, 4)
        self.assertEqual(fcntl.fcntl(fd, fcntl.F_GET_SEALS), SEALS)
        self.assertEqual(os.pread(fd, len(data) + 1, 0), data)
        os.close(fd)
        before = fds_of(self.daemon)
        asked(asker)
        asker.close()  # which had not read it
        harness.wait_for(lambda: fds_of(self.daemon) < before,
                         "its descriptor to be closed")

    def test_a_durable_mailbox_keeps_the_bytes(self):
        self.daemon.session("box", "Alias=box", "Kind=client",
                            mailbox=("Durable=yes",))
        self.start("[Store]",
                   f"Path={os.path.join(self.daemon.root, 'store')}")
        client = self.passing()
        data = os.urandom(2 * MIB)
        fd = memfd(data)
        self.assertEqual(client.post_memfd("box", "e", fd, len(data))[0], 0)
        os.close(fd)
        self.assertEqual(self.daemon.stop(), 0)
        self.daemon.notices.clear()
        self.daemon.start()
        taker = self.daemon.client()
        taker.request("bind", (1, "box"), (2, 1), (4, 8 * MIB))
        taker.until(lambda: taker.deliveries)
        self.assertEqual(taker.deliveries[0][4][0], data)

    def test_hostile_descriptors_leave_nothing(self):
        """B79."""
        self.start()
        other = self.daemon.client()
        before = fds_of(self.daemon)
        ends = os.pipe()
        directory = os.open("/", os.O_RDONLY)
        unsealed, short = memfd(bytes(MIB), 0), memfd(bytes(MIB - 1))
        client = self.passing()
        for fd in (ends[0], directory, unsealed, short):
            status, text = client.post_memfd("sink", "keep", fd, MIB)
            self.assertEqual(status, 2, text)
        many = self.passing()
        many.send_fds(b"", [short] * 253)
        many.drain()
        self.assertEqual([e[0] for e in many.errors], [12])
        alone = self.passing()
        alone.send_fds(b"", [short])
        alone.drain()
        self.assertEqual([e[0] for e in alone.errors], [12])
        cut = self.passing() # in the middle of its frame
        cut.socket.sendmsg([b"\x40\x0a"], [(
            socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [short]))])
        for c in (client, many, alone, cut):
            c.close()
        for fd in ends + (directory, unsealed, short):
            os.close(fd)
        self.assertEqual(other.post("sink", "keep"), 0)
        harness.wait_for(lambda: fds_of(self.daemon) <= before,
                         "its descriptors to be closed")


if __name__ == "__main__":
    harness.main()
