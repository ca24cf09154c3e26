#!/usr/bin/env python3
"""Random clients and sessions that share aliases on four loops, beside all that
random_test does: modes shared and fanout with each overflow, payloads that are
memfds, readers that stop, clients that are cut at any byte, windows, limits and
rights that change under them. What was accepted is accounted for at any time,
and all that was charged comes back."""
import array
import fcntl
import json
import os
import select
import socket

import harness
import random_test
from harness import message
from random_test import LOOPS

STEPS = int(os.environ.get("RANDOM_STEPS", "5000"))
SHARED, FANOUT = 1, 2
OTHER = 61000  # a user who is not root
SEALS = (fcntl.F_SEAL_SEAL | fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW
         | fcntl.F_SEAL_WRITE)
OVERFLOWS = ("block", "refuse", "drop-oldest", "drop-newest", "disconnect",
             "block tick:drop-oldest")
CROWDS = {"jobs": SHARED, "news": FANOUT, "free-jobs": SHARED,
          "free-news": FANOUT}


class Party(random_test.Party):
    """It passes memfds, or those that get some as bytes."""

    passes = True

    def greet(self):
        features = [(3, "memfd"), (3, "memfd-replies")] * self.passes
        self.send((5, message((1, 1), (2, "party"), *features)))
        self.until(lambda: self.welcome is not None)

    def sent(self, *parts):
        self.sent_with([], *parts)

    def sent_with(self, fds, *parts):
        """It reads while it writes: what it has asked for may fill the way
        back, and then the daemon reads no more."""
        body = message(*parts)
        data = harness.varint(len(body)) + body
        passed = [(socket.SOL_SOCKET, socket.SCM_RIGHTS,
                   array.array("i", fds))] if fds else []
        while data:
            ready = select.select([self.socket], [self.socket], [],
                                  harness.DEADLINE)
            if not any(ready):
                raise TimeoutError("the daemon neither reads nor writes")
            if ready[0]:
                self.buffer += self.socket.recv(65536)
            if ready[1]:
                try:
                    data = data[self.socket.sendmsg([data], passed):]
                    passed = []
                except BlockingIOError:
                    pass


class Crowds(random_test.World):
    def prepare(self):
        self.root = os.geteuid() == 0
        if self.root:
            os.chmod(self.daemon.root, 0o755)
        self.configure(1000000, True, 4096)
        for i in range(LOOPS):
            self.daemon.session(
                f"member{i}", f"Loop={i}", "Restart=always", "RestartSec=1ms",
                "RestartMaxSec=5ms", "RestartBurst=1000000",
                f"Bind=jobs:shared:{i + 1} news:fanout free-news:fanout",
                script=random_test.WORKER,
                mailbox=("MaxEvents=20", f"Overflow={OVERFLOWS[i]}"))
        self.daemon.session("jobs", "Kind=client", "Mode=shared", "Loop=1",
                            mailbox=("MaxEvents=50", "MaxAttempts=3",
                                     "Lease=50ms"))
        self.daemon.session("news", "Kind=client", "Mode=fanout", "Loop=2",
                            mailbox=("MaxEvents=50",))

    def configure(self, events, open_to_all, window):
        may = "any" if open_to_all else "root"
        self.daemon.configure(
            f"Loops={LOOPS}", "DeadLetters=300", f"WindowPosts={window}",
            "SocketMode=0666", "[Limits]", f"Events={events}",
            "[Access *]", "Post=any", "Call=any", "Bind=any", "Watch=any",
            "[Access jobs]", f"Post={may}", f"Bind={may}")

    def setUp(self):
        self.asleep = {}  # party: steps for which it does not read
        super().setUp()
        self.names += list(CROWDS) * 2
        self.names += [f"member{i}" for i in range(LOOPS)]

    def party(self):
        """Every third is another user's, every fourth takes no memfds."""
        other = self.root and self.dice.randrange(3) == 0
        Party.passes = self.dice.randrange(4) > 0
        if other:
            os.setgroups([])
            os.setegid(OTHER)
            os.seteuid(OTHER)
        try:
            client = Party(self.daemon.socket)
        finally:
            if other:
                os.seteuid(0)
                os.setegid(0)
        self.daemon.clients.append(client)
        return client

    # -- what else they do

    def do_crowd(self, p):
        alias = self.dice.choice(list(CROWDS))
        if len(p.bindings) >= 5:
            return
        p.last += 1
        p.bindings[p.last] = [alias, 0, 0]
        box = []
        if CROWDS[alias] == FANOUT:
            box = [(9, message((1, self.dice.choice(OVERFLOWS)),
                               (2, self.dice.randrange(1, 40))))]
        p.ask(3, (1, alias), (2, p.last), (3, self.dice.randrange(1, 10)),
              *box, (11, CROWDS[alias]))

    def memfd(self, size):
        """Mostly as it should be."""
        fd = os.memfd_create("random", os.MFD_ALLOW_SEALING | os.MFD_CLOEXEC)
        os.ftruncate(fd, size - (self.dice.randrange(8) == 0))
        fcntl.fcntl(fd, fcntl.F_ADD_SEALS,
                    SEALS if self.dice.randrange(8) else fcntl.F_SEAL_SHRINK)
        return fd

    def with_memfd(self, p, size, *parts):
        fd = self.memfd(size)
        p.sent_with([fd], (1, message(*parts, (120, size))))
        os.close(fd)

    def takes_memfds(self, p):
        return p.welcome.get(120, [0])[0] > 0

    def do_memfd(self, p):
        if not self.takes_memfds(p) or len(p.unsettled()) >= random_test.WINDOW:
            return
        size = self.dice.choice((65537, 100000, 2000000))
        if self.dice.randrange(2):
            p.seq += 1
            self.with_memfd(p, size, (2, self.name()), (3, self.event()),
                            (5, p.seq), (12, self.dice.choice((0, 3))))
        elif len(p.calls) < 100:
            p.number += 1
            p.calls.append(p.number)
            self.with_memfd(p, size, (2, self.name()), (3, "work"),
                            (6, p.number), (11, self.dice.randrange(1, 50)))

    def do_answer(self, p):
        """Some by a memfd."""
        kept = []
        for delivery in p.held:
            if 6 not in delivery:
                continue
            if self.takes_memfds(p) and self.dice.randrange(3) == 0:
                self.with_memfd(p, 70000, (7, delivery[6][0]))
            else:
                kept.append(delivery)
        p.held[:] = kept
        super().do_answer(p)

    def do_sleep(self, p):
        """As if it were stopped: it neither reads nor writes."""
        if len(self.asleep) < 3:
            self.asleep[p] = self.dice.randrange(20, 300)

    def do_cut(self, p):
        """It dies in the middle of what it says."""
        body = message((1, message((2, self.name()), (3, self.event()),
                                   (4, self.payload()), (5, p.seq + 1))))
        data = harness.varint(len(body)) + body
        p.socket.setblocking(True)
        p.socket.send(data[:self.dice.randrange(len(data))])
        self.replace(p)

    def do_reload(self, _p):
        """Windows only grow for who is there: see WindowPosts=."""
        self.configure(self.dice.choice((20, 100, 1000000)),
                       self.dice.randrange(2), self.dice.choice((2000, 6000)))
        response = self.judge.request("reload")
        self.assertEqual(harness.first(response, 2), 0, response)

    def do_member(self, _p):
        self.judge.request("restart", (
            1, f"member{self.dice.randrange(LOOPS)}"))

    def replace(self, p):
        self.asleep.pop(p, None)
        super().replace(p)

    ACTIONS = (random_test.World.ACTIONS + ["do_crowd"] * 12 +
               ["do_memfd"] * 4 + ["do_sleep"] * 2 +
               ["do_cut", "do_cut", "do_reload", "do_member"])

    # -- what must hold

    def look(self):
        for p in list(self.parties):
            if p not in self.asleep and not p.look():
                raise AssertionError(f"closed: {p.errors}")

    def used(self):
        """What is charged to each user, but for who asks."""
        out = self.daemon.eventctl("--json", "limits").stdout
        return {(user["uid"], key): limit["used"]
                for user in map(json.loads, out.splitlines())
                for key, limit in user["limits"].items()
                if limit["used"] and key in ("Events", "Bytes", "Timers",
                                             "Aliases", "Calls")}

    def test_all_is_accounted_for(self):  # B2, B11
        for step in range(STEPS):
            p = self.dice.choice(self.parties)
            if p not in self.asleep:
                getattr(self, self.dice.choice(self.ACTIONS))(p)
            for sleeper in list(self.asleep):
                self.asleep[sleeper] -= 1
                if not self.asleep[sleeper]:
                    del self.asleep[sleeper]
            if step % 7 == 0:
                self.look()
            if step % 20 == 0:
                self.balanced()
        self.asleep.clear()
        self.configure(1000000, True, 4096)
        self.judge.request("reload")
        self.told_all()
        try:
            harness.wait_for(lambda: not self.used(),
                             "all that was charged to come back")
        except AssertionError as e:
            raise AssertionError(str(self.used())) from e
        self.assertIn("user.limit", self.daemon.text())  # it has been tried


if __name__ == "__main__":
    harness.main()
