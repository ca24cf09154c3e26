#!/usr/bin/env python3
"""Random clients on four loops: they bind, consume, post, call, set timers,
leave wills, spawn, pause, purge, move and requeue, and die without a word. What
was accepted is accounted for at any time, everybody is told what became of
what was sent, and nothing stays behind."""
import os
import random

import harness
from harness import fields, first, message, wait_for

LOOPS = 4
STEPS = int(os.environ.get("RANDOM_STEPS", "6000"))
CLIENTS = 8
WINDOW = 512

WORKER = """
return {
    work = function(data) eventd.reply(data) end,
    boom = function() error("boom") end,
    nap = function() eventd.sleep(0.002) end,
    away = function(data) eventd.delay(0.003, "work", data) end,
    leave = function() eventd.exit("enough") end,
    pass = function(data) eventd.forward("slot1") end,
    later = function(data) eventd.defer() end,
    sink = function() end,
    _alias = function(told)
        if not told.up then eventd.exit("replaced") end
    end,
}
"""


class Party(harness.Client):
    """A client that remembers what it has sent and what it holds."""

    def __init__(self, path):
        self.bindings = {}     # number: [alias, deliveries, settled]
        self.timers = []
        self.held = []         # delivered, and not answered
        self.asked = {}
        self.last = 0
        self.pending = []      # ids of requests
        self.calls = []
        super().__init__(path)
        self.socket.setblocking(False)

    def sent(self, *parts):
        self.socket.setblocking(True)
        self.socket.settimeout(harness.DEADLINE)
        self.send(*parts)
        self.socket.setblocking(False)

    def look(self):
        """Reads what there is; False: the daemon has closed."""
        try:
            while True:
                data = self.socket.recv(65536)
                if not data:
                    return False
                self.buffer += data
        except BlockingIOError:
            pass
        while (frame := self.take_frame()) is not None:
            self.file(fields(frame))
        self.held += self.deliveries
        for delivery in self.deliveries:
            binding = self.bindings.get(first(delivery, 1))
            if binding:
                binding[1] += 1
        self.deliveries.clear()
        for notice in self.notices:
            for unbound in map(fields, notice.get(1, [])):
                self.bindings.pop(first(unbound, 1), None)
        self.notices.clear()
        for number in list(self.pending):
            if number in self.responses:
                self.pending.remove(number)
        return True

    def ask(self, verb, *body):
        self.number += 1
        self.sent((7, message((1, self.number), (verb, message(*body)))))
        self.pending.append(self.number)
        self.asked[self.number] = (verb, body)
        return self.number

    def unsettled(self):
        return [n for n in range(self.acked + 1, self.seq + 1)
                if not self.settled(n)]


class World(harness.TestCase):
    SEED = int(os.environ.get("RANDOM_SEED", "7"))

    def setUp(self):
        super().setUp()
        self.dice = random.Random(self.SEED)
        self.prepare()
        for i in range(LOOPS):
            self.daemon.session(
                f"worker{i}", f"Loop={i}", "Restart=always", "RestartSec=1ms",
                "RestartMaxSec=5ms", "RestartBurst=1000000", script=WORKER,
                mailbox=(("MaxEvents=20", "Overflow=block"),
                         ("MaxEvents=20", "Overflow=drop-oldest"),
                         ("MaxEvents=20", "Overflow=refuse",
                          "MaxAttempts=2"),
                         ("MaxEvents=20", "Overflow=drop-newest",
                          "DeadLetter=slot0"))[i])
            self.daemon.session(
                f"slot{i}", f"Loop={i}", "Kind=client",
                mailbox=(("MaxEvents=50",), ("MaxAttempts=3",),
                         ("Lease=20ms", "RetryDelay=1ms"),
                         ("MaxEvents=10", "Overflow=drop-oldest"))[i])
        self.script = self.daemon.write("scripts/extra.lua", WORKER)
        self.daemon.start()
        self.judge = self.daemon.client()
        self.names = [f"{kind}{i}" for kind in ("worker", "slot", "own")
                      for i in range(LOOPS)] + ["extra", "nobody"]
        self.parties = [self.party() for _ in range(CLIENTS)]

    def prepare(self):
        self.daemon.configure(f"Loops={LOOPS}", "DeadLetters=300")

    def party(self):
        client = Party(self.daemon.socket)
        self.daemon.clients.append(client)
        return client

    # -- what they do

    def name(self):
        return self.dice.choice(self.names)

    def event(self):
        return self.dice.choice(("work",) * 6 + (
            "boom", "nap", "away", "leave", "later", "sink", "unknown"))

    def payload(self):
        return self.dice.randbytes(self.dice.choice((0, 1, 10, 1000, 70000)))

    def do_post(self, p):
        if len(p.unsettled()) >= WINDOW:
            return
        p.seq += 1
        parts = [(2, self.name()), (3, self.event()), (4, self.payload()),
                 (5, p.seq), (12, self.dice.choice((0, 2, 3))),
                 (13, self.dice.randrange(2))]
        if self.dice.random() < 0.3:
            parts.append((15, message((1, "h"), (2, self.payload()[:2000]))))
        if self.dice.random() < 0.3:
            parts.append((17, 1))
        if self.dice.random() < 0.2:
            parts.append((18, self.dice.randrange(1, 5)))
        if self.dice.random() < 0.2:
            parts.append((19, b"key%d" % self.dice.randrange(9)))
        p.sent((1, message(*parts)))

    def do_call(self, p):
        if len(p.calls) > 100:
            return
        p.number += 1
        p.calls.append(p.number)
        p.sent((1, message(
            (2, self.name()), (3, self.dice.choice(("work", "pass", "boom",
                                                    "later", "sink"))),
            (4, self.payload()[:1000]), (6, p.number),
            (11, self.dice.randrange(1, 50)))))

    def do_cancel_call(self, p):
        if p.calls:
            p.ask(20, (1, self.dice.choice(p.calls)))

    def do_bind(self, p):
        p.last += 1  # a number is not used again: late deliveries are its
        number = p.last
        alias = self.dice.choice(
            [n for n in self.names if n[:4] in ("slot", "own0", "own1",
                                                "own2", "own3")])
        if len(p.bindings) < 5:
            p.bindings[number] = [alias, 0, 0]
            p.ask(3, (1, alias), (2, number), (3, self.dice.randrange(1, 20)),
                  (5, self.dice.randrange(3)), (6, self.dice.randrange(2)))

    def do_unbind(self, p):
        if p.bindings:
            number = self.dice.choice(list(p.bindings))
            del p.bindings[number]
            p.ask(4, (1, number))

    def do_settle(self, p):
        for number, binding in p.bindings.items():
            upto = self.dice.randint(binding[2], binding[1])
            if upto > binding[2]:
                binding[2] = upto
                p.sent((3, message((1, number), (2, upto))))

    def do_answer(self, p):
        for delivery in p.held:
            if 6 in delivery:
                p.sent((1, message((7, delivery[6][0]), (4, b"done"))))
        p.held.clear()

    def do_delay(self, p):
        p.timers.append(p.ask(
            5, (1, self.name()), (2, self.event()), (3, self.payload()),
            (5, self.dice.randrange(20)),
            *([(10, "named")] if self.dice.random() < .3 else [])))

    def do_cancel(self, p):
        answers = [r for t in p.timers if (r := p.responses.get(t))]
        if answers:
            answer = self.dice.choice(answers)
            p.ask(6, (1, first(fields(first(answer, 6, b"")), 1)))

    def do_will(self, p):
        p.ask(17, (1, self.name()), (2, "sink"), (3, self.payload()[:1000]))

    def do_queue(self, p):
        verb = self.dice.choice((36, 37, 37, 37, 38, 39))
        where = self.name()
        p.ask(verb, (1, where), *([(2, self.name())] if verb == 39 else []))

    def do_requeue(self, p):
        reason = self.dice.choice(("", "overflow", "no-alias", "died"))
        p.ask(42, (3, reason),
              *([(4, self.name())] if self.dice.random() < .5 else []))

    def do_purge_dead(self, p):
        p.ask(43, (3, self.dice.choice(("overflow", "expired", "attempts"))))

    def do_spawn(self, p):
        p.ask(30, (2, self.script), (4, "extra"),
              (6, self.dice.randrange(2)), (7, self.dice.randrange(3)),
              (8, 1))

    def do_stop(self, p):
        p.ask(31, (1, "extra"))

    def do_restart(self, p):
        p.ask(12, (1, self.dice.choice(self.names[:2 * LOOPS])))

    def do_watch(self, p):
        p.ask(14, (1, self.name()))
        p.ask(16, (1, "own*"))

    def do_goodbye(self, p):
        p.ask(18)
        self.replace(p)

    def do_die(self, p):
        self.replace(p)

    def replace(self, p):
        p.close()
        self.parties[self.parties.index(p)] = self.party()

    ACTIONS = (["do_post"] * 40 + ["do_call"] * 8 + ["do_settle"] * 15 +
               ["do_answer"] * 8 + ["do_bind"] * 8 + ["do_delay"] * 6 +
               ["do_cancel"] * 3 + ["do_cancel_call"] * 2 +
               ["do_unbind", "do_will", "do_will", "do_queue", "do_queue",
                "do_requeue", "do_requeue", "do_purge_dead", "do_spawn",
                "do_stop", "do_restart", "do_watch", "do_goodbye", "do_die",
                "do_die", "do_die"])

    # -- what must hold

    def counters(self):
        report = fields(first(self.judge.request("status", (1, "")), 8))
        info = fields(first(fields(first(report, 2)), 8))
        return {name: first(info, number) for number, name in enumerate(
            ("accepted", "handled", "expired", "cancelled", "dropped",
             "dead", "queued", "leased", "delayed", "refused"), 1)}

    def balanced(self):
        c = self.counters()
        self.assertEqual(c["accepted"], sum(
            c[k] for k in ("handled", "expired", "cancelled", "dropped",
                           "dead", "queued", "leased", "delayed")), c)
        return c

    def sessions(self):
        response = self.judge.request("list")
        return [fields(s) for s in fields(first(response, 7)).get(1, [])]

    def look(self):
        for p in list(self.parties):
            if not p.look():
                raise AssertionError(f"closed: {p.errors}")

    def test_all_is_accounted_for(self):  # B11
        for step in range(STEPS):
            p = self.dice.choice(self.parties)
            getattr(self, self.dice.choice(self.ACTIONS))(p)
            if step % 7 == 0:
                self.look()
            if step % 100 == 0:
                self.balanced()
        self.told_all()

    def missing(self):
        return "not told: " + "; ".join(
            f"conn {first(p.welcome, 4)} posts {p.unsettled()} "
            f"requests {[p.asked[n] for n in p.pending]} "
            f"calls {[c for c in p.calls if c not in p.replies]}"
            for p in self.parties)

    def told_all(self):
        """The consumers go; what waits is purged: everybody is told."""
        for p in self.parties:
            for number in list(p.bindings):
                p.bindings.pop(number)
                p.ask(4, (1, number))

        def quiet():
            self.look()
            for alias in self.names:
                self.judge.request_number(37, (1, alias))
                self.judge.request_number(38, (1, alias))
            return all(not p.unsettled() and not p.pending and
                       all(c in p.replies for c in p.calls)
                       for p in self.parties)
        try:
            wait_for(quiet, "everybody to be told of everything")
        except AssertionError as e:
            raise AssertionError(self.missing()) from e
        for p in self.parties:
            p.close()
        own = {f"own{i}".encode() for i in range(LOOPS)}

        def empty():
            self.judge.request_number(31, (1, "extra"))  # and who is next
            for alias in self.names:
                self.judge.request_number(38, (1, alias))
            c = self.balanced()
            left = [s for s in self.sessions()
                    if own & set(s.get(2, [])) or
                    first(s, 3) in (b"connection",)]
            return (len(left) == 1 and  # who judges
                    not c["queued"] and not c["leased"] and not c["delayed"])
        try:
            wait_for(empty, "nothing to be left")
        except AssertionError as e:
            raise AssertionError(f"{self.counters()} {self.sessions()}") from e
        for end, n in self.counters().items():
            if end not in ("queued", "leased", "delayed"):
                self.assertGreater(n, 0, end)  # it has been tried
        self.assertIn("will.posted", self.daemon.text())
        for info in self.sessions():
            counters = fields(first(info, 5, b""))
            for number in (7, 8, 9):
                self.assertEqual(first(counters, number), 0, info)
            self.assertEqual(first(info, 6), 0, info)  # bytes queued
            self.assertEqual(first(info, 9), 0, info)  # parked
        timers = fields(first(self.judge.request("timers"), 9))
        self.assertEqual(timers.get(1, []), [])


if __name__ == "__main__":
    harness.main()
