#!/usr/bin/env python3
"""What a local user can do to the daemon: others are served as before, and
what it holds for him stays bounded."""
import array
import os
import random
import resource
import select
import socket
import time

import harness
from harness import message, varint

ECHO = """
return {
    hello = function(data) eventd.reply(data) end,
    later = function(data) eventd.sleep(0.02) eventd.reply(data) end,
    die = function() error("x") end,
}
"""


class TestCase(harness.TestCase):
    def go(self, **start):
        self.daemon.session("echo", script=ECHO)
        self.daemon.configure("Loops=2")
        self.daemon.start(**start)
        # one on each loop, both of which have to go on
        self.others = [self.daemon.client() for _ in range(2)]

    def served(self):
        for other in self.others:
            self.assertEqual(other.call("echo", "hello", b"x"), (0, b"x"))

    def memory(self):
        """Bytes, resident."""
        path = f"/proc/{self.daemon.process.pid}/statm"
        with open(path, encoding="ascii") as file:
            return int(file.read().split()[1]) * resource.getpagesize()

    def bounded(self, before):
        """Not under a sanitizer, which keeps what was freed."""
        if "COUNT_ALLOCS" in os.environ:
            self.assertLess(self.memory() - before, 64 << 20)

    def descriptors(self):
        return len(os.listdir(f"/proc/{self.daemon.process.pid}/fd"))

    def connect(self):
        link = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        link.connect(self.daemon.socket)  # waits for room in the backlog
        link.settimeout(harness.DEADLINE)
        return link

    def push(self, link, frame, times):
        """As many as are taken: ends when nothing goes for a moment."""
        data = varint(len(frame)) + frame
        link.settimeout(0.3)
        try:
            for _ in range(times):
                link.sendall(data)
        except TimeoutError:
            return True
        return False


def flood(path, frames):
    """Writes @frames as fast as they are taken, again and again."""
    link, at = None, len(frames)
    while True:
        if at >= len(frames):
            link = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            link.connect(path)
            link.setblocking(False)
            at = 0
        ready = select.select([link], [link], [])
        try:
            if ready[0] and not link.recv(1 << 20):
                os._exit(1)
            if ready[1]:
                at += link.send(frames[at:at + 65536])
        except BlockingIOError:
            pass


HELLO = message((5, message((1, 1), (2, "hostile"))))


class Silent(TestCase):
    """Those that do not read."""

    def test_answers_nobody_reads_stop_the_reading(self):  # B7
        self.go()
        before = self.memory()
        frame = b"".join(message((7, message((1, n + 1), (7, message()))))
                         for n in range(200))
        stopped = 0
        for _ in range(4):
            client = self.daemon.client()
            stopped += self.push(client.socket, frame, 5000)  # a million
        self.assertEqual(stopped, 4)
        self.served()
        self.bounded(before)

    def test_replies_nobody_reads_stop_the_reading(self):
        self.go()
        before = self.memory()
        client = self.daemon.client()
        frames = [message((1, message((2, "echo"), (3, "hello"), (6, n + 1),
                                      (4, b"x" * 500000))))
                  for n in range(100)]
        client.socket.settimeout(0.3)
        with self.assertRaises(TimeoutError):
            for frame in frames:
                client.socket.sendall(varint(len(frame)) + frame)
        self.served()
        self.bounded(before)

    def test_posters_to_one_that_dies_are_told(self):  # B23
        self.go()
        deaf = self.daemon.client()
        deaf.request("bind", (1, "deaf"), (2, 1), (3, 1))  # a window of one
        posters = [self.daemon.client() for _ in range(4)]
        numbers = [[poster.post_soon("deaf", "e", b"x", level=3)
                    for _ in range(50)] for poster in posters]
        for poster in posters:
            poster.request("ping")  # so they have been read
        deaf.close()
        for poster, seqs in zip(posters, numbers):
            poster.until(lambda p=poster, s=seqs: all(map(p.settled, s)))
            for seq in seqs:
                self.assertIn(poster.failures[seq][0], (5, 20))
        self.served()


# Counts the ticks of its own timer.
TICKER = """
local n = 0
return {
    _start = function() eventd.delay(0.01, "tick", nil, {every = 0.01}) end,
    tick = function() n = n + 1 end,
    ticks = function() return n end,
}
"""


class Busy(TestCase):
    def test_a_flood_starves_neither_timers_nor_others(self):  # B8
        """Whoever floods is served in portions: on the same loop a timer goes
        on, and who asks now and then waits for a portion, not for the flood."""
        self.daemon.session("ticker", "Loop=0", script=TICKER)
        self.daemon.session("target", "Loop=0", script=ECHO)
        self.daemon.session("echo", "Loop=0", script=ECHO)
        self.daemon.configure("Loops=1")
        self.daemon.start()
        asker = self.daemon.client()
        envelope = message((2, "target"), (3, "hello"), (4, b"x" * 100))
        frames = b"".join(
            varint(len(body)) + body for body in (
                message(*[(1, envelope + message((5, at + i)))
                          for i in range(50)])
                for at in range(1, 50001, 50)))
        frames = varint(len(HELLO)) + HELLO + frames
        process = os.fork()
        if process == 0:  # sends without end, and reads what comes back
            flood(self.daemon.socket, frames)
        try:
            before = self.handled(asker)
            harness.wait_for(lambda: self.handled(asker) > before + 1000,
                             "the flood")
            took, start = [], self.ticks(asker)
            for _ in range(200):
                now = time.monotonic()
                self.assertEqual(asker.call("echo", "hello", b"x"), (0, b"x"))
                took.append(time.monotonic() - now)
            harness.wait_for(lambda: self.ticks(asker) >= start + 20,
                             "the timer to go on")
            before = self.handled(asker)
            harness.wait_for(lambda: self.handled(asker) > before,
                             "the flood to go on all the while")
        finally:
            os.kill(process, 9)
            os.waitpid(process, 0)
        self.assertLess(sorted(took)[100], 0.1, took)

    def handled(self, client):
        status = client.request("status", (1, "target"))
        info = harness.fields(harness.first(harness.fields(
            harness.first(status, 8)), 1))
        return harness.first(harness.fields(harness.first(info, 5)), 2)

    def ticks(self, client):
        return int(client.call("ticker", "ticks")[1])

    def test_failing_posts_are_not_told_one_by_one(self):  # B134
        self.go()
        before = os.path.getsize(self.daemon.log)
        client = self.daemon.client()
        for _ in range(20):
            parts = []
            for _ in range(5000):
                client.seq += 1
                parts.append((1, message((2, "no/such"), (3, "e"),
                                         (5, client.seq))))
            body = message(*parts)
            client.socket.sendall(varint(len(body)) + body)
            client.until(lambda: client.settled(client.seq))
        self.assertEqual(len(client.failures), 100000)
        self.served()
        self.assertLess(os.path.getsize(self.daemon.log) - before, 4096)

    def test_failing_handlers_are_told_with_a_count(self):  # B134
        self.daemon.session("weak", "Restart=always", "RestartSec=1ms",
                            "RestartMaxSec=1ms", "RestartBurst=1000000",
                            script=ECHO)
        self.go()
        client = self.daemon.client()
        for _ in range(500):
            client.call("weak", "die")
        before = len(self.daemon.text().splitlines())
        # at most 20 a second of one kind, however long that has taken
        self.assertLess(before, 400)
        self.served()

    def test_who_connects_and_leaves(self):
        self.go()
        before = self.descriptors()
        dice = random.Random(1)
        for number in range(3000):
            with self.connect() as link:
                if number % 3 == 0:
                    link.send(dice.randbytes(dice.randrange(1, 40)))
        self.served()
        harness.wait_for(lambda: self.descriptors() <= before,
                         "all connections closed")

    def test_who_speaks_byte_by_byte(self):
        self.go()
        call = message((1, message((2, "echo"), (3, "hello"), (4, b"abc"),
                                   (6, 1))))
        client = self.daemon.client(hello=False)
        for byte in varint(len(HELLO)) + HELLO + varint(len(call)) + call:
            client.socket.sendall(bytes([byte]))
            self.served()
        client.until(lambda: client.replies)
        self.assertEqual(client.replies[1], (0, b"abc"))

    def test_who_says_no_more_gets_its_answers(self):
        self.go()
        before = self.descriptors()
        for _ in range(20):
            client = self.daemon.client()
            number = client.call_soon("echo", "later", b"abc")
            seq = client.post_soon("echo", "hello", b"x", level=2)
            client.socket.shutdown(socket.SHUT_WR)
            client.drain()
            self.assertEqual(client.replies[number], (0, b"abc"))
            self.assertTrue(client.settled(seq))
        self.served()
        self.assertEqual(self.descriptors(), before)

    def test_who_sends_a_flood_of_descriptors(self):
        self.go()
        before = self.descriptors()
        part = varint(len(HELLO)) + HELLO
        with open("/dev/null", "rb") as null:
            fds = [null.fileno()] * 200
            for features in ((), ((3, "memfd"),)):
                hello = message((5, message((1, 1), (2, "fds"), *features)))
                for n in (1, 5, 200):
                    link = self.connect()
                    link.sendall(varint(len(hello)) + hello)
                    try:
                        for _ in range(20):
                            socket.send_fds(link, [part[:1]], fds[:n])
                    except (BrokenPipeError, ConnectionResetError):
                        pass
                    self.served()
                    link.close()
        harness.wait_for(lambda: self.descriptors() <= before,
                         "its descriptors to be closed")

    # what it asked for is under way on both loops when it goes
    def test_who_goes_while_it_is_served(self):
        self.go()
        before = self.descriptors()
        dice = random.Random(3)
        for _ in range(300):
            link = self.connect()
            asks = [message((7, message((1, n + 1), (dice.choice(
                (7, 8, 9)), b"")))) for n in range(20)]
            link.sendall(varint(len(HELLO)) + HELLO + b"".join(
                varint(len(ask)) + ask for ask in asks))
            if dice.random() < 0.5:
                link.recv(dice.randrange(1, 300))
            link.close()
        self.served()
        harness.wait_for(lambda: self.descriptors() <= before,
                         "all connections closed")

    def test_who_vanishes_at_any_byte(self):
        self.go()
        post = message((1, message((2, "echo"), (3, "hello"), (4, b"abc"),
                                   (5, 1))))
        whole = varint(len(HELLO)) + HELLO + varint(len(post)) + post
        for size in range(len(whole) + 1):
            with self.connect() as link:
                link.sendall(whole[:size])
        self.served()

    def test_claims_of_size_cost_nothing(self):
        """A frame says that it has 4 GiB, or more than there can be."""
        self.go()
        before = self.memory()
        for claim in (1 << 31, (1 << 32) - 1, 1 << 32, 1 << 63, (1 << 64) - 1):
            with self.connect() as link:
                link.sendall(varint(len(HELLO)) + HELLO + varint(claim) +
                             b"x" * 100)
                while link.recv(4096):  # a welcome, an error, the end
                    pass
        self.bounded(before)
        self.served()

    def test_descriptors_that_nobody_wants_are_closed(self):
        """With a greeting, with requests, with garbage, with half a frame."""
        self.go()
        before = self.descriptors()
        greeted = varint(len(HELLO)) + HELLO
        ping = message((7, message((1, 1), (11, b""))))
        for first, data in ((b"", greeted), (greeted, b"\xff" * 40),
                            (greeted, varint(len(ping)) + ping),
                            (greeted, b"\x7f")):
            for n in (1, 2, 253):
                with self.connect() as link, open(os.devnull, "rb") as null:
                    link.sendall(first)
                    fds = array.array("i", [null.fileno()] * n)
                    try:
                        link.sendmsg([data], [(
                            socket.SOL_SOCKET, socket.SCM_RIGHTS, fds)])
                    except (BrokenPipeError, ConnectionResetError):
                        pass
        self.served()
        harness.wait_for(lambda: self.descriptors() <= before,
                         "all that came is closed")

    def test_garbage_is_told_and_closed(self):
        self.go()
        dice = random.Random(2)
        for number in range(300):
            with self.connect() as link:
                if number % 2:
                    link.sendall(varint(len(HELLO)) + HELLO)
                body = dice.randbytes(dice.randrange(1, 300))
                try:
                    link.sendall(varint(len(body)) + body)
                    link.shutdown(socket.SHUT_WR)
                    while link.recv(4096):
                        pass
                except (BrokenPipeError, ConnectionResetError):
                    pass
        self.served()


@harness.unittest.skipUnless("COUNT_ALLOCS" in os.environ, "a sanitizer's")
class Allocations(TestCase):
    def allocations(self, n):
        """How many it makes for n posts."""
        posts = [message((1, message((2, "echo"), (3, "note"), (4, b"known"),
                                     (5, self.client.seq + i + 1))))
                 for i in range(n)]
        before = self.count()
        self.client.seq += n
        body = b"".join(posts)
        self.client.socket.sendall(varint(len(body)) + body)
        self.client.until(lambda: self.client.settled(self.client.seq))
        return self.count() - before

    def count(self):
        with open(self.path, "rb") as file:
            return int.from_bytes(file.read(8), "little")

    def test_a_post_needs_none(self):  # B121
        self.path = self.daemon.write("count", b"\0" * 4096)
        os.chmod(self.path, 0o666)
        # the payload is a string that Lua has already
        self.daemon.session("echo", script="local s = 'known' "
                                           "return {note = function() end}")
        self.daemon.start(environment={
            "LD_PRELOAD": os.environ["COUNT_ALLOCS"],
            "ALLOC_COUNT_FILE": self.path})
        self.client = self.daemon.client()
        self.assertGreater(self.count(), 100)  # it is really counted
        self.allocations(2000)  # fills the free lists
        self.assertLess(self.allocations(2000), 200)


class Limits(TestCase):
    def test_without_descriptors_it_rests(self):  # B70
        self.go(preexec_fn=lambda: resource.setrlimit(
            resource.RLIMIT_NOFILE, (48, 48)))
        links = []
        try:
            for _ in range(100):
                links.append(self.connect())
            self.daemon.logged("listener.paused")
            self.served()
            cpu = self.cpu()
            for _ in range(20):
                self.served()
                time.sleep(0.05)  # the time that is measured
            self.assertLess(self.cpu() - cpu, 0.3)
        finally:
            for link in links:
                link.close()
        harness.wait_for(self.is_open, "room for another client")
        self.assertLess(self.daemon.text().count("listener.paused"), 3)

    def cpu(self):
        """Seconds that the daemon has used."""
        path = f"/proc/{self.daemon.process.pid}/stat"
        with open(path, encoding="ascii") as file:
            words = file.read().rsplit(")", 1)[1].split()
        return (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK")

    def is_open(self):
        try:
            self.daemon.client().close()
            return True
        except (harness.Closed, ConnectionError):
            return False

    def test_reloads_while_posts_come(self):
        self.go()
        client = self.daemon.client()
        self.daemon.session("other", script=ECHO)
        sent = []
        for number in range(20):
            self.daemon.session("other", script=f"{ECHO}-- {number}")
            if number % 5 == 4:
                self.daemon.write("sessions.d/bad.conf", "[Sess")
            sent.append(client.post_soon("echo", "hello", b"x"))
            self.others[0].request("reload")
            if number % 5 == 4:
                self.daemon.remove("sessions.d/bad.conf")
        client.until(lambda: client.settled(sent[-1]))
        self.assertEqual(client.failures, {})
        self.served()


if __name__ == "__main__":
    harness.main()
