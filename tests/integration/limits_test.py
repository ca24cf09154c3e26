"""Limits of users through the daemon: each bites, says so, and all that was
charged comes back to zero. Other users need root."""
import os
import resource
import signal
import socket
import time
import unittest

import ctl
import harness
from harness import fields, first, wait_for

DENIED, LIMIT, NOT_FOUND = 14, 11, 18
ALICE, BOB = 61000, 61001

SINK = """
return {
    tick = function() end,
    hold = function(data) eventd.sleep(tonumber(data)) end,
    silent = function() eventd.sleep(3600) end,
    hello = function(data) eventd.reply(data) end,
}
"""

ROOT = unittest.skipUnless(os.geteuid() == 0, "needs other users")


def verb(client, name, *body):
    """Status and text of a request."""
    response = client.request(name, *body)
    return first(response, 2), first(response, 3, b"").decode()


class Limits(ctl.TestCase):
    def limits(self, *lines, daemon=()):
        path = self.daemon.open_to_all(*daemon)
        with open(path, "a", encoding="utf-8") as file:
            file.write("[Limits]\n" + "\n".join(lines) + "\n")
        return path

    def start(self, *arguments):
        self.daemon.session("sink", script=SINK)
        self.daemon.start(*arguments)

    def of(self, uid, key):
        return self.object("limits", str(uid))["limits"][key]

    def used(self, uid):
        return {key: limit["used"] for key, limit in self.object(
            "limits", str(uid))["limits"].items() if limit["used"]}

    def back_to_zero(self, *uids):
        for uid in uids:
            wait_for(lambda: not self.used(uid),
                     f"nothing charged to {uid}: {self.used(uid)}")

    def assert_limit(self, result, key, used, path):
        status, text = result
        self.assertEqual(status, LIMIT, text)
        self.assertIn(used, text)
        self.assertIn(f"{key}= of [Limits] in eventd.conf: {path}:", text)

    # B1, B10: who, what, how much, and the key that changes it
    @ROOT
    def test_each_limit_refuses_with_its_key_and_leaves_others_alone(self):
        path = self.limits("Events=3", "Timers=2", "Aliases=1", "Calls=1",
                           "Watches=1", "Connections=2", "Bytes=100K")
        self.start("--loops", "2")
        a, b = self.daemon.client_as(ALICE), self.daemon.client_as(BOB)
        for c in (a, b):
            self.assertEqual(verb(c, "bind", (1, f"a{id(c)}"), (2, 1))[0], 0)
        self.assert_limit(verb(a, "bind", (1, "second"), (2, 2)), "Aliases",
                          f"uid {ALICE} has 1 of 1 aliases bound", path)
        for _ in range(2):
            self.assertEqual(verb(a, "delay", (1, "sink"), (2, "tick"),
                                  (5, 3600000))[0], 0)
        self.assert_limit(verb(a, "delay", (1, "sink"), (2, "tick"),
                               (5, 3600000)), "Timers", "2 of 2 timers", path)
        self.assertEqual(verb(a, "watch_names", (1, "x*"))[0], 0)
        self.assert_limit(verb(a, "watch_names", (1, "y*")), "Watches",
                          "1 of 1 watches", path)
        a.call_soon("sink", "silent")
        status, text = a.call("sink", "hello", b"x")
        self.assertEqual(status, LIMIT)
        self.assertIn(b"1 of 1 calls outstanding (Calls=", text)
        # the sink is busy with the call: events wait in its mailbox
        self.assertEqual([a.post("sink", "tick") for _ in range(4)],
                         [0, 0, LIMIT, LIMIT])
        self.assertIn("3 of 3 events queued (Events=",
                      a.failures[a.seq][1])
        self.assertEqual(b.post("sink", "tick", b"x" * 60000), 0)
        self.assertEqual(b.post("sink", "tick", b"x" * 60000), LIMIT)
        self.assertIn("bytes queued (Bytes=", b.failures[b.seq][1])
        self.daemon.client_as(ALICE)
        third = self.daemon.client_as(ALICE, hello=False)
        third.drain()
        self.assert_limit(third.errors[0], "Connections", "2 of 2", path)
        used = self.used(ALICE)
        self.assertEqual(used, {"Connections": 2, "Events": 3, "Timers": 2,
                                "Aliases": 1, "Calls": 1, "Watches": 1})
        self.assertEqual(self.of(ALICE, "Events")["refused"], 2)
        self.assertTrue(self.of(ALICE, "Events")["from"].startswith(path))
        self.daemon.logged("user.limit")
        self.ctl("restart", "sink")
        self.ctl("cancel", "sink", "--all")
        for c in self.daemon.clients:
            c.close()
        self.back_to_zero(ALICE, BOB)

    # B11
    @ROOT
    def test_what_clients_leave_behind_comes_back_to_zero(self):
        self.limits("Events=100000")
        self.daemon.session("stuck", script=SINK, mailbox=(
            "MaxEvents=50", "Overflow=drop-oldest tick:block"))
        self.start("--loops", "3")
        for i in range(30):
            c = self.daemon.client_as(ALICE if i % 2 else BOB)
            for k in range(40):
                c.post_soon("sink", "tick", os.urandom(k * 37 % 3000))
                c.post_soon("stuck", "hold" if k % 7 else "tick", b"0.01")
            c.call_soon("sink", "hello", b"x" * i)
            c.call_soon("nobody", "hello")
            c.request("bind", (1, f"own.{i}"), (2, 1))
            c.post_soon(f"own.{i}", "back", b"kept")
            c.request("will", (1, "sink"), (2, "tick"), (3, b"last"))
            c.request("delay", (1, "sink"), (2, "tick"), (3, b"later"),
                      (5, 5))
            if i % 3:
                c.socket.shutdown(socket.SHUT_WR)
            c.close()
        self.ctl("restart", "stuck")
        self.back_to_zero(ALICE, BOB)

    # B4
    @ROOT
    def test_overrides_count_at_once_for_those_connected(self):
        self.limits("Timers=1")
        self.start()
        a, b = self.daemon.client_as(ALICE), self.daemon.client_as(BOB)

        def delay(c):
            return verb(c, "delay", (1, "sink"), (2, "tick"),
                        (5, 3600000))[0]
        self.assertEqual([delay(a), delay(a), delay(b)], [0, LIMIT, 0])
        path = self.limits("Timers=1", f"[Limits uid:{ALICE}]", "Timers=none",
                           "[Limits user:no-such-user]", "Timers=7")
        self.ctl("reload")
        self.assertEqual([delay(a), delay(a), delay(b)], [0, 0, LIMIT])
        limit = self.of(ALICE, "Timers")
        self.assertNotIn("max", limit)
        self.assertEqual(limit["from"].rsplit(":", 1)[0], path)
        self.assertEqual(self.of(BOB, "Timers")["max"], 1)
        self.daemon.logged("there is no user 'no-such-user'")
        self.limits("Timers=everything")
        self.ctl("reload", code=78)
        self.assertEqual(delay(a), 0)

    # B40: own ones, whatever connection set them; others' by who manages
    @ROOT
    def test_timers_are_cancelled_by_their_user_or_a_manager(self):
        self.daemon.open_to_all()
        self.start("--loops", "2")
        a, b = self.daemon.client_as(ALICE), self.daemon.client_as(BOB)

        def delay(c, name=""):
            response = c.request("delay", (1, "sink"), (2, "tick"),
                                 (5, 3600000), (10, name))
            self.assertEqual(first(response, 2), 0, response)
            return first(fields(first(response, 6)), 1)
        own, other = delay(a), delay(a)
        self.assertEqual(verb(b, "cancel", (1, own))[0], DENIED)
        again = self.daemon.client_as(ALICE)
        self.assertEqual(verb(again, "cancel", (1, own))[0], 0)
        self.assertEqual(verb(again, "cancel", (1, own))[0], NOT_FOUND)
        delay(a, "nightly")
        self.assertEqual(verb(b, "cancel", (2, "sink"), (3, "nightly"))[0],
                         DENIED)
        self.assertEqual(verb(b, "delay", (1, "sink"), (2, "tick"),
                              (5, 1000), (10, "nightly"))[0], DENIED)
        mine = delay(b)
        self.assertEqual(verb(b, "cancel", (2, "sink"), (4, 1))[0], 0)
        self.assertEqual(verb(b, "cancel", (1, mine))[0], NOT_FOUND)
        self.ctl("cancel", str(other))
        self.ctl("cancel", "sink", "--all")
        for c in self.daemon.clients:
            c.close()
        self.back_to_zero(ALICE, BOB)

    # B5
    @ROOT
    def test_a_connect_storm_is_slowed_and_others_go_on(self):
        self.limits(f"[Limits uid:{ALICE}]", "ConnectionRate=50",
                    "ConnectionBurst=100", "Greeting=60")
        self.start()
        bob = self.daemon.client_as(BOB)
        pid = os.fork()
        if pid == 0:
            os.setgid(ALICE)
            os.setuid(ALICE)
            while True:
                s = socket.socket(socket.AF_UNIX)
                try:
                    s.connect(self.daemon.socket)
                except OSError:
                    pass
                s.close()
        try:
            times = []
            for _ in range(300):
                start = time.monotonic()
                self.assertEqual(bob.call("sink", "hello", b"x"), (0, b"x"))
                times.append(time.monotonic() - start)
            wait_for(lambda: self.of(ALICE, "ConnectionRate")["refused"] > 500,
                     "500 refusals")
        finally:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
        self.assertLess(sorted(times)[len(times) // 2], 0.5)
        self.assertLess(self.daemon.text().count("user.limit"), 10)
        bob.close()
        self.back_to_zero(ALICE, BOB)

    # B5: those that never say hello
    @ROOT
    def test_strangers_are_few_and_go_in_time(self):
        path = self.limits(f"[Limits uid:{ALICE}]", "Greeting=20",
                           daemon=("HelloTimeout=1s",))
        self.start()
        silent = [self.daemon.client_as(ALICE, hello=False)
                  for _ in range(20)]
        more = self.daemon.client_as(ALICE, hello=False)
        more.drain()
        self.assert_limit(more.errors[0], "Greeting",
                          "20 of 20 connections without a hello", path)
        self.assertEqual(self.daemon.client_as(BOB).call(
            "sink", "hello", b"x"), (0, b"x"))
        for c in silent:
            c.drain()
        self.assertEqual(self.used(ALICE), {})
        self.daemon.client_as(ALICE)

    # B70: no descriptor is left, and it neither spins nor stays deaf
    @ROOT
    def test_without_descriptors_it_rests_and_comes_back(self):
        self.limits()
        self.daemon.session("sink", script=SINK)
        self.daemon.start(preexec_fn=lambda: resource.setrlimit(
            resource.RLIMIT_NOFILE, (64, 64)))
        bob = self.daemon.client_as(BOB)
        held = [self.daemon.client_as(ALICE, hello=False) for _ in range(80)]
        self.daemon.logged("listener.paused")
        self.assertEqual(bob.call("sink", "hello", b"x"), (0, b"x"))
        before = self.cpu()
        for _ in range(20):
            self.assertEqual(bob.call("sink", "hello", b"x"), (0, b"x"))
            time.sleep(0.01)  # a span to measure, not a wait
        self.assertLess(self.cpu() - before, 0.15)
        for c in held:
            c.close()
        wait_for(lambda: self.ctl("ping"), "it answers")
        bob.close()
        self.back_to_zero(ALICE, BOB)

    def cpu(self):
        with open(f"/proc/{self.daemon.process.pid}/stat",
                  encoding="utf-8") as file:
            part = file.read().rsplit(") ", 1)[1].split()
        return (int(part[11]) + int(part[12])) / os.sysconf("SC_CLK_TCK")

    # B1: a reader that stopped costs its own
    @ROOT
    def test_a_warning_comes_before_the_limit(self):
        self.limits("Events=100")
        self.start()
        self.ctl("queue", "pause", "sink")
        a = self.daemon.client_as(ALICE)
        for _ in range(79):
            self.assertEqual(a.post("sink", "tick"), 0)
        self.assertNotIn("user.near-limit", self.daemon.text())
        for _ in range(2):
            self.assertEqual(a.post("sink", "tick"), 0)
        self.daemon.logged(
            f'user.near-limit uid={ALICE} what="events queued"')
        self.assertTrue(self.of(ALICE, "Events")["near"])
        self.ctl("queue", "purge", "--yes", "sink")
        wait_for(lambda: not self.of(ALICE, "Events")["near"], "it is calm")

    @ROOT
    def test_one_sees_oneself_and_managers_all(self):
        self.limits()
        self.start()
        a = self.daemon.client_as(ALICE)
        self.assertEqual(first(a.request_number(77, (1, 1), (2, ALICE)), 2), 0)
        self.assertEqual(first(a.request_number(77, (1, 1), (2, BOB)), 2),
                         DENIED)
        self.assertEqual(first(a.request_number(77), 2), DENIED)
        users = {u["uid"]: u for u in self.objects("limits")}
        self.assertEqual(users[ALICE]["denied"], 2)
        self.assertEqual(users[ALICE]["limits"]["Connections"]["used"], 1)
        self.assertIn(b"Connections", self.ctl("limits", str(ALICE)))
        self.ctl("limits", "no-such-user", code=68)

    def test_wrong_limits_are_told_with_file_and_line(self):
        for lines, part in (
                (("Events=many",), "Events= needs a number, or none"),
                (("Bytes=1Q",), "Bytes= needs a size"),
                (("Evnts=1",), "did you mean Events=?"),
                (("[Limits bob]", "Events=1"), "not [Limits bob]")):
            path = self.limits(*lines)
            done = self.daemon.run("--check-config")
            self.assertEqual(done.returncode, 78, (lines, done.stderr))
            self.assertIn(part, done.stderr)
            self.assertIn(path + ":", done.stderr)


if __name__ == "__main__":
    harness.main()
