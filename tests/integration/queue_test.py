"""Mailboxes and dead letters through the daemon: eventctl queue and dead."""
import json
import os
import time
import unittest

import ctl
import harness
from harness import wait_for

COUNT = """
local n, water = 0, {}
return {
    count = function() eventd.reply(tostring(n)) end,
    water = function() eventd.reply(table.concat(water, ",")) end,
    tick = function() n = n + 1 end,
    _high_water = function(data)
        water[#water + 1] = "high" .. data:match("queued=(%d+)")
    end,
    _low_water = function(data) water[#water + 1] = "low" end,
}
"""


class Queue(ctl.TestCase):
    def session(self, name, *mailbox, script=COUNT):
        self.daemon.session(name, script=script, mailbox=mailbox)

    def fill(self, alias, *events):
        for event in events:
            self.ctl("post", alias, event, event)

    def waiting(self, alias, *more):
        return [e["event"] for e in self.objects("queue", "peek", alias,
                                                 "-n", "1000", *more)]

    def accounts(self):
        c = self.object("status")["events"]
        self.assertEqual(c["accepted"], sum(c[k] for k in (
            "handled", "queued", "leased", "delayed", "expired", "cancelled",
            "dropped", "dead_lettered")))
        return c

    # B20: what is told to the mailbox is not behind what waits in it
    def test_pause_holds_events_and_accepts_new_ones(self):
        self.session("count")
        self.start()
        self.assertEqual(self.object("queue", "pause", "count"),
                         {"alias": "count", "paused": True})
        self.fill("count", "tick", "tick", "other")
        self.assertEqual(self.waiting("count"), ["tick", "tick", "other"])
        self.assertTrue(self.object("status", "count")["mailbox"]["paused"])
        self.assertIn(b"paused", self.ctl("queue", "list", "count"))
        self.ctl("queue", "resume", "count")
        self.assertEqual(self.ctl("call", "count", "count"), b"2")
        self.assertEqual(self.waiting("count"), [])
        self.accounts()

    def test_peek_is_paged_and_shows_the_head_of_payloads(self):
        self.session("count")
        self.start()
        self.ctl("queue", "pause", "count")
        lines = b"".join(b"%04d\n" % i for i in range(2500))
        self.ctl("post", "--lines", "count", "tick", "-", input=lines)
        first = self.objects("queue", "peek", "count", "--bytes", "2")
        self.assertEqual(len(first), 10)
        self.assertEqual([e["position"] for e in first], list(range(10)))
        self.assertEqual(first[9]["data"], "00")
        self.assertEqual(first[9]["payload_size"], 4)
        late = self.objects("queue", "peek", "count", "--skip", "2400",
                            "-n", "1000")
        self.assertEqual(len(late), 100)
        self.assertEqual(late[0]["data"], "2400")
        every = self.objects("queue", "peek", "count", "-n", "5000")
        self.assertEqual([e["data"] for e in every],
                         ["%04d" % i for i in range(2500)])
        one = self.object("queue", "peek", "count", "--id", every[77]["id"])
        self.assertEqual((one["position"], one["data"]), (77, "0077"))
        self.ctl("queue", "peek", "count", "--id", "1", code=68)
        text = self.ctl("queue", "peek", "count", "--bytes", "2").decode()
        self.assertIn("00...", text)

    def test_purge_wants_yes_and_ends_as_cancelled(self):
        self.session("count")
        self.start()
        self.ctl("queue", "pause", "count")
        self.fill("count", "tick", "other", "tick")
        self.ctl("queue", "purge", "count", code=64)
        self.told("--yes")
        self.assertEqual(
            self.object("queue", "purge", "count", "--event", "tick", "--yes"),
            {"alias": "count", "purged": 2})
        self.assertEqual(self.waiting("count"), ["other"])
        self.ctl("queue", "purge", "count", "--yes")
        self.assertEqual(self.waiting("count"), [])
        self.assertEqual(self.accounts()["cancelled"], 3)
        self.assertEqual(self.objects("dead", "list"), [])

    def test_move_keeps_ids_and_the_bounds_of_the_target(self):
        self.daemon.configure("Loops=2")
        self.daemon.session("from", "Loop=0", script=COUNT)
        self.daemon.session("to", "Loop=1", script=COUNT,
                            mailbox=["MaxEvents=3"])
        self.start()
        self.ctl("queue", "pause", "from", "to")
        self.fill("from", "a", "b", "c", "d", "e")
        ids = [e["id"] for e in self.objects("queue", "peek", "from")]
        self.assertEqual(
            self.object("queue", "move", "from", "to", "-n", "2"),
            {"alias": "from", "to": "to", "moved": 2})
        self.ctl("queue", "move", "from", "to", code=75)
        self.told("1 events moved, 2 are left", "'to' takes no more")
        moved = self.objects("queue", "peek", "to")
        self.assertEqual([e["id"] for e in moved], ids[:3])
        self.assertEqual(self.waiting("from"), ["d", "e"])
        self.ctl("queue", "move", "from", "from", code=64)
        self.ctl("queue", "move", "from", "nobody", code=68)
        self.accounts()

    # B17, B2: each its own policy
    def test_overflow_by_class_of_event(self):
        self.session("count", "MaxEvents=3", "Overflow=refuse "
                     "tick:drop-oldest log.*:drop-newest")
        self.start()
        self.ctl("queue", "pause", "count")
        self.fill("count", "a", "tick", "b", "tick", "tick", "log.x")
        self.assertEqual(self.waiting("count"), ["a", "b", "tick"])
        self.ctl("post", "count", "c", code=75)
        self.ctl("post", "--wait", "handled", "count", "log.y", code=75)
        self.told("dropped")
        self.ctl("call", "count", "log.z", code=75)
        status = self.object("status", "count")
        self.assertEqual(status["events"]["dropped"], 5)
        self.assertEqual(status["mailbox"]["overflow"],
                         "refuse tick:drop-oldest log.*:drop-newest")
        reasons = [(d["reason"], d["event"])
                   for d in self.objects("dead", "list")]
        self.assertEqual(reasons, [("overflow", e) for e in (
            "tick", "tick", "log.x", "c", "log.y", "log.z")])
        self.accounts()

    # B13: told once a crossing, and anew after the next fall
    def test_marks_are_told_once_a_crossing(self):
        self.session("count", "MaxEvents=10", "HighWater=40%", "LowWater=10%")
        self.start()
        for _ in range(2):
            self.ctl("queue", "pause", "count")
            self.fill("count", *["tick"] * 6)
            self.assertTrue(self.object("queue", "list", "count")["above"])
            self.ctl("queue", "resume", "count")
            wait_for(lambda: not self.object("queue", "list", "count")[
                "above"], "low again")
        self.assertEqual(self.ctl("call", "count", "water"),
                         b"high4,low,high4,low")

    def test_marks_are_told_to_an_alias(self):
        self.session("count", "HighWater=3", "WaterAlias=ops")
        self.daemon.session("ops", "Kind=client")
        self.start()
        self.ctl("queue", "pause", "count")
        self.fill("count", *["tick"] * 5)
        self.ctl("queue", "purge", "count", "--yes")
        out = self.spawn("bind", "--json", "-n", "2", "ops")
        events = [json.loads(line) for line in
                  self.ended(out).splitlines()]
        self.assertEqual([e["event"] for e in events],
                         ["_high_water", "_low_water"])
        self.assertIn("alias=count queued=3 ", events[0]["data"])

    # B16: each bad end has its own reason, with all that is known
    def test_dead_letters_tell_their_reasons(self):
        self.session("box", "MaxEvents=1", "Overflow=drop-newest")
        self.session("gone")
        self.start()
        self.ctl("queue", "pause", "box", "gone")
        self.ctl("post", "nobody", "lost", "L", code=68)
        self.fill("box", "one", "two")
        with self.daemon.client() as client:  # with a time to live of 1 ms
            client.send((1, harness.message(
                (2, "gone"), (3, "late"), (4, b"x"), (5, 1), (18, 1))))
            wait_for(lambda: self.waiting("gone"), "the event")
        self.fill("gone", "mail")
        time.sleep(0.002)  # nothing to wait for: it expires by the clock
        self.ctl("queue", "resume", "gone")
        self.ctl("queue", "pause", "gone")
        self.fill("gone", "mail")
        self.daemon.remove("sessions.d/gone.conf")
        self.ctl("reload")
        self.fill("echo", "what")
        found = {d["event"]: d for d in self.objects("dead", "list")}
        self.assertEqual({e: d["reason"] for e, d in found.items()}, {
            "lost": "no-alias", "two": "overflow", "late": "expired",
            "mail": "died", "what": "unhandled"})
        self.assertEqual(found["mail"]["alias"], "gone")
        for letter in found.values():
            self.assertNotEqual(letter["id"], "0")
            self.assertNotEqual(letter["from"], "0")
            self.assertGreater(letter["time_ns"], 0)
        shown = self.object("dead", "show", found["lost"]["letter"])
        self.assertEqual((shown["data"], shown["alias"]), ("L", "nobody"))
        self.assertEqual(
            self.ctl("dead", "show", "--raw", found["lost"]["letter"]), b"L")
        self.assertIn(b"no-alias", self.ctl("dead", "list"))
        self.assertGreaterEqual(
            self.object("status")["dead_letters"]["kept"], 5)

    def test_dead_letters_are_posted_again(self):
        self.start()
        for event in ("one", "two", "three"):
            self.ctl("post", "later", event, code=68)
        letters = [d["letter"] for d in self.objects("dead", "list")]
        self.ctl("dead", "requeue", letters[0], code=68)
        self.told("no session holds the alias 'later'")
        self.daemon.session("later", "Kind=client")
        self.ctl("reload")
        self.assertEqual(self.object("dead", "requeue", letters[1]),
                         {"requeued": 1, "failed": 0})
        self.assertEqual(self.waiting("later"), ["two"])
        self.ctl("dead", "requeue", "--alias", "later")
        self.assertEqual(self.waiting("later"), ["two", "one", "three"])
        self.assertEqual(self.objects("dead", "list"), [])
        self.ctl("dead", "show", letters[0], code=68)
        self.accounts()

    def test_dead_letters_are_purged(self):
        self.start()
        for alias in ("a", "b", "a"):
            self.ctl("post", alias, "x", code=68)
        self.ctl("dead", "purge", "--all", code=64)
        self.ctl("dead", "purge", "--yes", code=64)
        self.assertEqual(
            self.object("dead", "purge", "--alias", "a", "--yes"),
            {"purged": 2, "failed": 0})
        self.assertEqual([d["alias"] for d in self.objects("dead", "list")],
                         ["b"])
        self.assertEqual(self.objects("dead", "list", "--reason", "died"), [])
        self.ctl("dead", "list", "--reason", "boredom", code=64)

    def test_many_dead_letters_come_in_pages(self):
        self.daemon.configure("Loops=2", "DeadLetters=1500")
        self.start()
        lines = b"x\n" * 2000
        self.ctl("post", "--lines", "nobody", "x", "-", input=lines, code=68)
        found = self.objects("dead", "list")
        kept = self.object("status")["dead_letters"]
        self.assertEqual(len(found), kept["kept"])
        self.assertLessEqual(len(found), 3000)
        self.assertEqual(len({d["letter"] for d in found}), len(found))
        self.assertEqual(
            self.object("dead", "purge", "--all", "--yes")["purged"],
            len(found))
        self.assertEqual(self.objects("dead", "list"), [])

    def test_a_session_may_name_who_gets_its_dead_letters(self):
        self.daemon.session("grave", "Kind=client")
        self.session("box", "DeadLetter=grave")
        self.start()
        self.fill("box", "what")
        wait_for(lambda: self.waiting("grave"), "the copy")
        out = self.spawn("bind", "--json", "-n", "1", "grave")
        event = json.loads(self.ended(out))
        self.assertEqual((event["event"], event["data"]), ("dead", "what"))

    # B19: looking at a long queue takes no time, whatever its length
    def test_looking_at_a_million_events_does_not_take_long(self):
        self.session("deep", "MaxEvents=2000000", "MaxBytes=1G")
        self.start()
        self.ctl("queue", "pause", "deep")
        lines = b"\n" * 1000000
        self.ctl("post", "--lines", "deep", "tick", "-", input=lines)
        client = self.daemon.client()
        took = []
        for _ in range(10):
            before = time.monotonic()
            client.request("status", (1, "deep"))
            took.append(time.monotonic() - before)
        self.assertLess(sorted(took)[5], 0.010, took)
        self.assertEqual(len(self.objects("queue", "peek", "deep", "--skip",
                                          "999990", "-n", "100")), 10)
        self.ctl("post", "echo", "hello", "x")
        self.ctl("queue", "purge", "deep", "--yes")
        self.assertEqual(self.accounts()["cancelled"], 1000000)

    def test_only_who_may_manage_changes_a_mailbox(self):
        if os.geteuid() != 0:
            self.skipTest("needs another user")
        self.session("count")
        self.start()
        self.ctl("queue", "pause", "count")
        self.ctl("post", "count", "tick", "secret")
        self.ctl("post", "nobody", "x", "secret", code=68)
        letter = self.objects("dead", "list")[0]["letter"]
        os.chmod(self.daemon.root, 0o755)
        os.chmod(self.daemon.socket, 0o777)
        nobody = {"user": 65534}
        try:
            self.ctl("queue", "resume", "count", code=77, **nobody)
        except PermissionError:
            self.skipTest("the other user cannot reach eventctl")
        self.told("lacks the right 'manage' for 'count'")
        self.ctl("queue", "purge", "--yes", "count", code=77, **nobody)
        self.ctl("queue", "move", "count", "echo", code=77, **nobody)
        self.ctl("dead", "requeue", "--all", code=77, **nobody)
        self.ctl("dead", "purge", "--all", "--yes", code=77, **nobody)
        seen = self.object("queue", "peek", "count", **nobody)
        self.assertEqual((seen["event"], seen.get("data")), ("tick", None))
        seen = self.object("dead", "show", letter, **nobody)
        self.assertEqual((seen["event"], seen.get("data")), ("x", None))


if __name__ == "__main__":
    harness.main()
