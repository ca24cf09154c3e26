"""Rights through the daemon: who may post, call, bind, watch, manage and see,
by real users of other uids. Those need root; without it they are skipped."""
import json
import os
import re
import unittest

import ctl
import harness
from harness import fields, first, wait_for

DENIED = 14
NO_ALIAS = 5
ALICE, BOB, STAFF = 61000, 61001, 61500

GREET = """
local n = 0
return {
    hello = function(data) n = n + 1; eventd.reply(data) end,
    reset = function() n = 0; eventd.reply("") end,
    count = function() eventd.reply(tostring(n)) end,
}
"""

ROOT = unittest.skipUnless(os.geteuid() == 0, "needs other users")


def text(response):
    return first(response, 3, b"").decode()


class Access(ctl.TestCase):
    def session(self, name, *access, script=GREET, lines=()):
        path = self.daemon.session(name, *lines, script=script)
        with open(path, "a", encoding="utf-8") as file:
            file.write("\n".join(access) + "\n")
        return path

    def access(self, *lines):
        """eventd.conf with these sections, open to all users."""
        path = self.daemon.open_to_all()
        with open(path, "a", encoding="utf-8") as file:
            file.write("\n".join(lines) + "\n")
        return path

    def start(self, *arguments):
        self.daemon.start(*arguments)

    def assert_denied(self, client, alias, event="hello"):
        self.assertEqual(client.post(alias, event), DENIED)
        self.assertEqual(client.call(alias, event)[0], DENIED)

    # B73: policy is asked before it is told whether anybody is there, and
    # before somebody is started
    @ROOT
    def test_a_denied_post_starts_nobody_and_tells_nothing(self):
        self.session("lazy", "[Access]", f"Post=uid:{ALICE}",
                     f"Call=uid:{ALICE}", f"See=uid:{ALICE}",
                     lines=("Start=on-demand",))
        self.access("[Access ghost]", f"Post=uid:{ALICE}",
                    f"Call=uid:{ALICE}", f"See=uid:{ALICE}")
        self.start()
        bob, alice = (self.daemon.client_as(u) for u in (BOB, ALICE))
        self.assert_denied(bob, "lazy")
        self.assert_denied(bob, "ghost")  # nobody holds it
        there = first(bob.request("resolve", (1, "lazy")), 2)
        gone = first(bob.request("resolve", (1, "ghost")), 2)
        self.assertEqual((there, gone), (DENIED, DENIED))
        self.assertEqual(self.object("status", "lazy")["state"], "dormant")
        self.assertEqual(alice.post("ghost", "hello"), NO_ALIAS)
        self.assertEqual(alice.call("lazy", "hello", b"x"), (0, b"x"))
        self.assertEqual(self.object("status", "lazy")["state"], "up")
        self.assertEqual(self.object("status")["denied"], 6)
        self.assertEqual(self.object("status", "lazy")["denied"], 3)
        self.assertEqual(self.objects("dead", "list", "--alias", "lazy"), [])

    # B77: the error names right and line, and so do explain and the log
    @ROOT
    def test_a_denial_names_right_and_line(self):
        path = self.session("greet", "[Access]", f"Post=uid:{ALICE}")
        self.access()
        self.start()
        bob = self.daemon.client_as(BOB)
        self.assertEqual(bob.post("greet", "hello"), DENIED)
        with open(path, encoding="utf-8") as file:
            line = file.read().split("\n").index(f"Post=uid:{ALICE}") + 1
        said = bob.failures[bob.seq][1]
        self.assertIn(f"uid {BOB} lacks the right 'post' for 'greet'", said)
        self.assertIn(f"{path}:{line}: Post=uid:{ALICE}", said)
        self.daemon.logged("policy.denied")
        self.assertIn(f"rule={path}:{line}", self.daemon.text())
        verdict = self.object("policy", "explain", f"uid:{BOB}", "post",
                              "greet", "hello")
        self.assertFalse(verdict["allowed"])
        self.assertEqual((verdict["rule"]["file"], verdict["rule"]["line"]),
                         (path, line))
        self.assertEqual(verdict["rule"]["denied"], 1)
        self.assertEqual(verdict["text"], said)
        self.assertTrue(self.object("policy", "explain", f"uid:{ALICE}",
                                    "post", "greet")["allowed"])

    @ROOT
    def test_explain_of_a_connected_client_and_of_oneself(self):
        self.access("[Access *]", f"Post=gid:{STAFF}")
        self.start()
        bob = self.daemon.client_as(BOB, groups=(STAFF, 7))
        self.assertEqual(bob.post("ghost", "x"), NO_ALIAS)
        v = self.object("policy", "explain", f"pid:{os.getpid()}", "post",
                        "ghost")
        self.assertTrue(v["allowed"])
        self.assertEqual((v["uid"], v["groups"]), (BOB, [7, STAFF]))
        self.ctl("policy", "explain", "pid:1", "post", "a", code=68)
        self.ctl("policy", "explain", "no-such-user", "post", "a", code=68)
        self.ctl("policy", "explain", "root", "juggle", "a", code=64)
        out = self.ctl("policy", "explain", "root", "manage")
        self.assertIn(b"allowed: uid 0 has the right 'manage' for the daemon",
                      out)
        own = bob.request_number(76, (1, BOB), (6, "post"), (7, "a"))
        self.assertEqual(first(own, 2), 0)
        other = bob.request_number(76, (1, ALICE), (6, "post"), (7, "a"))
        self.assertEqual(first(other, 2), DENIED)
        self.assertEqual(first(bob.request_number(75), 2), DENIED)

    @ROOT
    def test_rights_by_event_and_group(self):
        self.session("greet", "[Access]", "Call=any", "[Access reset]",
                     f"Call=gid:{STAFF}")
        self.access()
        self.start()
        bob = self.daemon.client_as(BOB)
        staff = self.daemon.client_as(ALICE, groups=(STAFF,))
        self.assertEqual(bob.call("greet", "hello", b"x"), (0, b"x"))
        self.assertEqual(bob.call("greet", "reset")[0], DENIED)
        self.assertEqual(staff.call("greet", "reset"), (0, b""))

    @ROOT
    def test_what_one_may_not_post_one_does_not_move_there_either(self):
        """Who manages one mailbox, and may not post some event to another,
        gets it there neither by a move nor as a dead letter."""
        for name in ("mine", "open"):
            self.daemon.session(name, "Kind=client")
        self.session("greet", "[Access]", "Post=any", "[Access reset]",
                     f"Post=gid:{STAFF}")
        self.access("[Access *]", f"Manage=uid:{ALICE}", "Post=any",
                    "[Access mine]", "Post=any", "[Access open]", "Post=any")
        self.start()
        alice = self.daemon.client_as(ALICE)
        staff = self.daemon.client_as(ALICE, groups=(STAFF,))
        self.assertEqual(alice.post("mine", "reset"), 0)
        self.assertEqual(alice.post("greet", "reset"), DENIED)
        move, requeue = (self.numbers_of(w) for w in (
            "queue_move", "dead_requeue"))

        def moved(who, to):
            return first(who.request_number(move[0], (move[1], "mine"),
                                            (move[2], to)), 2)
        self.assertEqual(moved(alice, "greet"), DENIED)
        self.assertEqual(first(alice.request_number(
            requeue[0], (requeue[1], "mine"), (requeue[2], "greet")), 2),
            DENIED)
        self.assertEqual(moved(alice, "open"), 0)
        self.assertEqual(alice.post("mine", "reset"), 0)
        self.assertEqual(moved(staff, "greet"), 0)

    @staticmethod
    def numbers_of(verb):
        """Of the request, and of its fields alias and to."""
        path = os.path.join(os.path.dirname(os.path.abspath(__file__)),
                            "..", "..", "proto", "eventd.proto")
        with open(path, encoding="utf-8") as file:
            proto = file.read()
        kind, number = re.search(
            rf"(\w+) {verb} = (\d+);", proto).groups()
        body = re.search(rf"message {kind} \{{(.*?)\n\}}", proto,
                         re.S).group(1)
        return [int(number)] + [int(re.search(
            rf"string {name} = (\d+);", body).group(1))
            for name in ("alias", "to")]

    @ROOT
    def test_what_may_not_be_seen_is_not_listed(self):
        self.session("secret", "[Access]", f"See=uid:{ALICE}")
        self.session("open")
        self.access()
        self.start()
        bob, alice = (self.daemon.client_as(u) for u in (BOB, ALICE))
        self.assertEqual(sorted(bob.states()), ["open"])
        self.assertEqual(sorted(alice.states()), ["open", "secret"])
        self.assertEqual(sorted(self.daemon.client().states()),
                         ["open", "secret"])
        self.assertEqual(first(bob.request("status", (1, "secret")), 2),
                         DENIED)
        self.assertEqual(first(bob.request("status", (1, "none")), 2),
                         NO_ALIAS)

    # B74: not only asking for notices is checked, but each that is delivered
    @ROOT
    def test_notices_of_names_are_checked_each(self):
        self.access("[Access secret.*]", "Watch=root")
        self.start()
        bob = self.daemon.client_as(BOB)
        self.assertEqual(first(bob.request("watch_names", (1, "*")), 2), 0)
        holder = self.daemon.client()
        for number, alias in enumerate(("secret.a", "plain.b"), 1):
            self.assertEqual(first(holder.request(
                "bind", (1, alias), (2, number)), 2), 0)
        bob.until(lambda: bob.notices)
        names = [first(fields(n[4][0]), 2) for n in bob.notices if 4 in n]
        self.assertEqual(names, [b"plain.b"], bob.notices)
        self.assertEqual(first(bob.request("watch", (1, "secret.a")), 2),
                         DENIED)
        self.assertEqual(first(bob.request("wait", (1, "secret.a")), 2),
                         DENIED)
        self.assertEqual(first(bob.request("watch", (1, "plain.b")), 2), 0)
        number = self.object("status", "secret.a")["id"]
        self.assertEqual(first(bob.request("watch", (2, int(number))), 2),
                         DENIED)

    @ROOT
    def test_binding_is_a_right_and_names_of_files_are_reserved(self):
        self.session("greet", script="error('never up')",
                     lines=("Restart=no",))
        self.access("[Access own.*]", f"Bind=uid:{ALICE}")
        self.start()
        bob, alice = (self.daemon.client_as(u) for u in (BOB, ALICE))

        def bind(client, alias, number):
            return first(client.request("bind", (1, alias), (2, number)), 2)
        self.assertEqual(bind(bob, "own.x", 1), DENIED)
        self.assertEqual(bind(alice, "own.x", 1), 0)
        self.assertEqual(bind(bob, "ownx", 2), 0)
        self.assertEqual(bind(bob, "greet", 3), DENIED)

    @ROOT
    def test_managing_one_alias(self):
        self.session("greet", "[Access]", f"Manage=uid:{ALICE}")
        self.access()
        self.start()
        bob, alice = (self.daemon.client_as(u) for u in (BOB, ALICE))
        self.assertEqual(first(bob.request("restart", (1, "greet")), 2),
                         DENIED)
        self.assertEqual(first(alice.request("restart", (1, "greet")), 2), 0)
        self.assertEqual(first(alice.request("reload"), 2), DENIED)

    # B4: at once, also for who is connected; B73: also by reference
    @ROOT
    def test_a_reload_counts_at_once_for_those_connected(self):
        self.session("greet")
        self.access()
        self.start("--loops", "2")
        clients = [self.daemon.client_as(BOB) for _ in range(4)]
        refs = [first(fields(first(c.request("resolve", (1, "greet")), 4)), 1)
                for c in clients]
        for c, ref in zip(clients, refs):
            self.assertEqual(c.post_ref(ref, "hello"), 0)
        self.access("[Access greet]", f"Post=uid:{ALICE}")
        self.ctl("reload")
        for c, ref in zip(clients, refs):
            self.assertEqual(c.post_ref(ref, "hello"), DENIED)
            self.assertEqual(c.post("greet", "hello"), DENIED)
        self.access("[Access greet]", f"Post=uid:{BOB}")
        self.daemon.hangup()
        for c, ref in zip(clients, refs):
            self.assertEqual(c.post_ref(ref, "hello"), 0)

    @ROOT
    def test_what_may_not_be_bound_any_more_goes_with_notice(self):
        self.daemon.session("box", "Alias=box", "Kind=client")
        self.daemon.session("crowd", "Alias=crowd", "Kind=client",
                            "Mode=fanout")
        self.access("[Access *]", f"Bind=uid:{BOB} uid:{ALICE}")
        self.start("--loops", "2")
        bob, alice = (self.daemon.client_as(u) for u in (BOB, ALICE))
        for number, (alias, *more) in enumerate((
                ("mine",), ("box",), ("crowd", (11, 2)), ("kept",)), 1):
            bound = bob.request("bind", (1, alias), (2, number), *more)
            self.assertEqual(first(bound, 2), 0, bound)
        self.access("[Access kept]", f"Bind=uid:{BOB}",
                    "[Access *]", f"Bind=uid:{ALICE}")
        self.ctl("reload")
        bob.until(lambda: len(bob.notices) >= 3)
        gone = [fields(first(n, 1, b"")) for n in bob.notices]
        self.assertEqual({(first(g, 1), first(g, 2)) for g in gone},
                         {(1, DENIED), (2, DENIED), (3, DENIED)})
        # others have them at once
        for number, alias in enumerate(("mine", "box"), 1):
            bound = alice.request("bind", (1, alias), (2, number))
            self.assertEqual(first(bound, 2), 0, bound)
        self.assertEqual(alice.post("kept", "e"), 0)
        bob.until(lambda: bob.deliveries)
        self.assertEqual(bob.deliveries[0][1][0], 4)

    def test_limits_of_strangers_are_live(self):
        self.daemon.configure("HelloTimeout=1h")
        self.start()
        stranger = self.daemon.client(hello=False)
        self.daemon.configure("HelloTimeout=50ms", "MaxConnections=1")
        self.daemon.hangup()
        stranger.drain()
        self.assertEqual([e[0] for e in stranger.errors], [16])
        first_one = self.daemon.client()
        other = self.daemon.client(hello=False)
        other.drain()
        self.assertEqual([e[0] for e in other.errors], [11])
        self.assertEqual(first_one.post("nobody", "e"), 5)
        self.assertNotIn("needs-restart", self.daemon.text())

    @ROOT
    def test_a_failed_reload_opens_nothing(self):
        self.session("greet", "[Access]", f"Post=uid:{ALICE}")
        self.access()
        self.start()
        bob = self.daemon.client_as(BOB)
        self.assertEqual(bob.post("greet", "hello"), DENIED)
        for wrong in ("Post=everybody", "Past=any", "Post="):
            self.access("[Access greet]", "Post=any", "[Access x]", wrong)
            self.ctl("reload", code=78)
            self.assertEqual(bob.post("greet", "hello"), DENIED)

    # B73, B74: a rule for somebody who does not exist is for nobody
    @ROOT
    def test_an_unknown_user_is_warned_about_and_never_matches(self):
        self.access("[Access greet]", "Post=user:no-such-user")
        self.session("greet")
        done = self.daemon.run("--check-config")
        self.assertEqual(done.returncode, 0)
        self.assertIn("there is no user 'no-such-user'", done.stderr)
        self.start()
        self.daemon.logged("config.warning")
        self.assertEqual(self.daemon.client_as(BOB).post("greet", "x"), DENIED)

    # B76: who connected counts, not who speaks now
    @ROOT
    def test_rights_stay_with_who_connected(self):
        self.session("greet", "[Access]", f"Call=uid:{ALICE}")
        self.access()
        self.start()
        alice = self.daemon.client_as(ALICE)
        pid = os.fork()
        if pid == 0:  # another user's process speaks on it
            os.setgid(BOB)
            os.setuid(BOB)
            status = alice.call("greet", "hello", b"x")[0]
            os._exit(status)
        self.assertEqual(os.waitpid(pid, 0)[1], 0)

    @ROOT
    def test_a_user_s_own_daemon_is_closed_to_others(self):
        self.daemon.session("greet", script=GREET)
        config = self.daemon.open_to_all()
        os.chown(config, ALICE, ALICE)
        self.daemon.start("--user")
        self.assert_denied(self.daemon.client_as(BOB), "greet")
        self.assertEqual(self.daemon.client().call("greet", "hello", b"x"),
                         (0, b"x"))

    # B134: each denial is counted, few are logged
    @ROOT
    def test_a_storm_of_denials_is_counted_and_logged_in_part(self):
        self.access("[Access *]", f"Post=uid:{ALICE}")
        self.start()
        bob = self.daemon.client_as(BOB)
        for _ in range(20):
            seqs = [bob.post_soon("x", "e") for _ in range(200)]
            bob.until(lambda: all(map(bob.settled, seqs)))
        self.assertEqual(self.object("status")["denied"], 4000)
        self.assertLess(self.daemon.text().count("policy.denied"), 1000)

    def test_show_tells_the_rules_in_order(self):
        path = self.session("greet", "[Access]", "Post=root !uid:7 unit:cron")
        self.daemon.write("eventd.conf.d/50-x.conf",
                          "[Access greet.* up*]\nCall=gid:5\n")
        self.start()
        rules = self.objects("policy", "show")
        self.assertEqual([(r["right"], r["alias"], r["event"]) for r in rules],
                         [("post", "greet", ""), ("bind", "greet", ""),
                          ("call", "greet.*", "up*")])
        self.assertEqual(rules[0]["file"], path)
        self.assertEqual([w["kind"] for w in rules[0]["who"]],
                         ["uid", "uid", "unit"])
        self.assertEqual([w["deny"] for w in rules[0]["who"]],
                         [False, True, False])
        self.assertEqual(rules[1]["line"], 0)
        shown = self.ctl("policy", "show").decode()
        self.assertIn("uid 0, not uid 7, unit cron.service", shown)
        self.assertIn("else: root and uid", shown)

    # B73, B74: bounds and wrong patterns are told with their place
    def test_wrong_access_is_told_with_file_and_line(self):
        for section, key, part in (
                ("[Access a b c]", "Post=any", "[Access ALIAS EVENT]"),
                ("[Access a**]", "Post=any", "is no alias"),
                ("[Access a\tx]", "Bind=any", "only Post= and Call="),
                ("[Access " + "a" * 300 + "]", "Post=any", "is no alias"),
                ("[Access " + "a" * 600 + "]", "Post=any", "at most 511"),
                ("[Access a]", "Post=bob", "'bob' says nobody"),
                ("[Access a]", "Pots=any", "did you mean Post=")):
            path = self.access(section, key)
            done = self.daemon.run("--check-config")
            self.assertEqual(done.returncode, 78, (section, done.stderr))
            self.assertIn(part, done.stderr)
            self.assertRegex(done.stderr, path + r":[45]:\d+: ")


if __name__ == "__main__":
    harness.main()
