#!/usr/bin/env python3
"""10,000 clients at once: all are served, among them some that stop reading,
are stopped, are killed at any byte or come and go; others keep their latency,
nothing leaks, and every charge returns to zero."""
import os
import random
import resource
import signal
import socket
import time
import unittest

import ctl
import harness
from harness import Closed, message, varint, wait_for

CROWD = 10000
SINK = """
return {
    keep = function() end,
    hello = function(data) eventd.reply(data) end,
}
"""
HELLO = message((5, message((1, 1), (2, "crowd"))))
BIND = message((7, message((1, 1), (3, message(
    (1, "news"), (2, 1), (3, 4), (11, 2))))))
POST = message((1, message((2, "sink"), (3, "keep"), (4, b"x"), (5, 1))))
CALL = message((1, message((2, "sink"), (3, "hello"), (4, b"x"), (6, 1))))


def frame(body):
    return varint(len(body)) + body


def raise_files():
    """As many descriptors as are wanted here and in the daemon; False: no."""
    want = CROWD + 1000
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft >= want:
        return True
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (want, max(hard, want)))
    except (ValueError, PermissionError, OSError):
        return False
    return True


@unittest.skipUnless(raise_files(), f"needs {CROWD + 1000} descriptors "
                     f"(ulimit -Hn)")
class Crowd(ctl.TestCase):
    def setUp(self):
        super().setUp()
        self.links = []
        self.daemon.session("sink", script=SINK)
        self.daemon.session("news", "Kind=client", "Mode=fanout")
        path = self.daemon.configure("MaxConnections=20000", "Loops=2")
        with open(path, "a", encoding="utf-8") as file:
            file.write("[Limits]\nConnectionRate=none\nGreeting=20000\n"
                       "Connections=20000\n")
        self.daemon.start()
        self.judge = self.daemon.client()
        self.before = self.descriptors()

    def tearDown(self):
        for link in self.links:
            link.close()
        super().tearDown()

    def descriptors(self):
        return len(os.listdir(f"/proc/{self.daemon.process.pid}/fd"))

    def link(self, *bodies):
        """Connects and says hello and that, without waiting for answers."""
        link = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        link.connect(self.daemon.socket)
        link.settimeout(60)
        link.sendall(frame(HELLO) + b"".join(map(frame, bodies)))
        return link

    def used(self):
        return {key: limit["used"] for key, limit in self.object(
            "limits", str(os.geteuid()))["limits"].items() if limit["used"]}

    def all_gone(self):
        """All but the judge; and eventctl, which asks."""
        wait_for(lambda: self.descriptors() <= self.before,
                 "the descriptors to be closed", 60)
        wait_for(lambda: self.used() == {"Connections": 2},
                 f"nothing to be charged: {self.used()}")

    def latency(self, n=200):
        """Of a call by somebody else: the median."""
        times = []
        for _ in range(n):
            start = time.monotonic()
            self.assertEqual(self.judge.call("sink", "hello", b"x"), (0, b"x"))
            times.append(time.monotonic() - start)
        return sorted(times)[n // 2]

    def answers(self, link, n):
        """Reads @n frames and how long the last is."""
        data = b""
        while True:
            at = frames = 0
            while frames < n and at < len(data) and data[at] < 128 and \
                    at + 1 + data[at] <= len(data):
                at += 1 + data[at]
                frames += 1
            if frames == n:
                return
            more = link.recv(65536)
            self.assertTrue(more, "it closed a connection of the crowd")
            data += more

    def test_all_are_served_at_once(self):
        self.links = [self.link(POST, CALL) for _ in range(CROWD)]
        for link in self.links:  # a welcome, an ack and a reply
            self.answers(link, 3)
        self.assertEqual(self.used()["Connections"], CROWD + 2)
        self.assertLess(self.latency(), 0.5)
        for link in self.links:  # all once more, now that they are there
            link.sendall(frame(message((1, message(
                (2, "sink"), (3, "hello"), (6, 2))))))
        for link in self.links:
            self.answers(link, 1)
        for link in self.links:
            link.close()
        self.all_gone()

    def child(self, n):
        """A process with @n clients that read nothing; stopped."""
        ready, tell = os.pipe()
        pid = os.fork()
        if pid == 0:
            try:
                links = [self.link(BIND) for _ in range(n)]
                for link in links:
                    self.answers(link, 2)
                os.write(tell, b"x")
                signal.pause()
            finally:
                os._exit(1)
        os.close(tell)
        self.assertEqual(os.read(ready, 1), b"x")
        os.close(ready)
        os.kill(pid, signal.SIGSTOP)
        return pid

    def publish(self, n, size):
        for _ in range(n):
            self.judge.post_soon("news", "item", bytes(size))
        self.judge.until(lambda: self.judge.settled(self.judge.seq))

    def storm(self, n, dice):
        """Clients that come and go, cut off at any byte of what they say."""
        whole = frame(HELLO) + frame(BIND) + frame(POST) + frame(CALL)
        for i in range(n):
            link = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            link.connect(self.daemon.socket)
            try:
                link.sendall(whole[:i % (len(whole) + 1)])
            except BrokenPipeError:
                pass
            if dice.random() < 0.2:
                link.shutdown(dice.choice(
                    (socket.SHUT_WR, socket.SHUT_RD, socket.SHUT_RDWR)))
            link.close()

    def test_the_rude_among_them_cost_the_others_nothing(self):
        dice = random.Random(5)
        self.links = [self.link() for _ in range(CROWD - 2000)]
        stopped = [self.child(500), self.child(500)]
        readers = []
        try:
            for _ in range(4):
                self.publish(100, 2000)
                self.storm(500, dice)
                for link in dice.sample(self.links, 500):
                    self.links.remove(link)
                    link.close()
                    readers.append(self.link(POST, CALL))
                self.assertLess(self.latency(50), 0.5)
            for link in readers:
                self.answers(link, 3)
        finally:
            for pid in stopped:
                os.kill(pid, signal.SIGKILL)
                os.waitpid(pid, 0)
            for link in readers:
                link.close()
        for link in self.links:
            self.answers(link, 1)
            link.close()
        self.all_gone()

    def test_the_daemon_ends_with_all_of_them_there(self):
        self.links = [self.link(BIND) for _ in range(CROWD)]
        for link in self.links:
            self.answers(link, 2)
        self.assertEqual(self.daemon.stop(), 0)
        with self.assertRaises((Closed, ConnectionResetError,
                                BrokenPipeError)):
            self.judge.until(lambda: False)


if __name__ == "__main__":
    harness.main()
