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

DENIED, LIMIT, NOT_FOUND, TIMEOUT = 14, 11, 18, 16
ALICE, BOB = 61000, 61001

SINK = """
return {
    tick = function() end,
    hold = function(data) eventd.sleep(tonumber(data)) end,
    silent = function() eventd.sleep(3600) end,
    later = function() eventd.defer() end,
    hello = function(data) eventd.reply(data) end,
}
"""

ROOT = unittest.skipUnless(os.geteuid() == 0, "needs other users")


def verb(client, name, *body):
    """Status and text of a request."""
    response = client.request(name, *body)
    return first(response, 2), first(response, 3, b"").decode()


class Walk:
    """Ways to use one more of each limit: status and text."""

    def __init__(self, daemon):
        self.daemon = daemon

    def stranger(self, _client, uid, _i, hello=False):
        client = self.daemon.client_as(uid, hello=False)
        try:
            if hello:
                client.greet()
                return 0, ""
            client.socket.settimeout(0.05)  # is it told at once?
            client.receive()
        except (harness.Closed, ConnectionError):
            pass
        except TimeoutError:
            return 0, ""
        client.socket.settimeout(harness.DEADLINE)
        client.drain()
        return client.errors[0]

    def connect(self, client, uid, i):
        return self.stranger(client, uid, i, True)

    def post(self, client, _uid, _i):
        status = client.post("sink", "tick", b"x" * 1000)
        return status, client.failures.get(client.seq, (0, ""))[1]

    def delay(self, client, _uid, _i):
        return verb(client, "delay", (1, "sink"), (2, "tick"), (5, 3600000))

    def bind(self, client, uid, i):
        return verb(client, "bind", (1, f"a{uid}.{i}"), (2, i + 1))

    def call(self, client, _uid, _i):
        number = client.call_soon("sink", "silent")
        client.request("ping")  # what is refused is answered before
        status, text = client.replies.get(number, (0, b""))
        return status, text.decode()

    def watch(self, client, _uid, i):
        return verb(client, "watch_names", (1, f"x{i}*"))


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
            "limits", str(uid))["limits"].items()
            if limit["used"] and key != "ConnectionBurst"}  # it fills itself

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

    # B1, B2: one that stopped reading has its own overflow, and is named; the
    # user's other clients go on
    @ROOT
    def test_a_slow_subscriber_leaves_room_for_its_users_others(self):
        path = self.limits(f"[Limits uid:{ALICE}]", "Events=40")
        self.start("--loops", "2")
        slow, quick = (self.daemon.client_as(ALICE) for _ in range(2))
        self.assertEqual(verb(slow, "bind", (1, "news"), (2, 1), (3, 1), (
            9, harness.message((1, "drop-oldest"), (2, 5000))), (11, 2))[0], 0)
        poster = self.daemon.client()
        for _ in range(1500):
            last = poster.post_soon("news", "e", b"x")
        poster.until(lambda: poster.settled(last))
        self.daemon.logged("fanout.slow")
        line = next(line for line in self.daemon.text().splitlines()
                    if "fanout.slow" in line)
        for part in ("alias=news", "conn=", f"uid={ALICE}",
                     f"pid={os.getpid()}", 'program="test"', "key=Events="):
            self.assertIn(part, line)
        self.daemon.logged("user.limit")
        limit = self.of(ALICE, "Events")
        self.assertTrue(0 < limit["used"] <= 32, limit)
        self.assertTrue(limit["from"].startswith(path))
        self.assertEqual([quick.post("sink", "tick") for _ in range(8)],
                         [0] * 8)
        slow.until(lambda: slow.deliveries)  # it is bound, and told
        slow.send((3, harness.message((1, 1), (2, 1))))
        slow.until(lambda: any(5 in n for n in slow.notices))  # a gap
        slow.close()
        quick.close()
        self.back_to_zero(ALICE)

    # B1, B11: also what has had no answer at all yet
    @ROOT
    def test_calls_count_together_however_many_connections_make_them(self):
        self.limits("Calls=100")
        self.start()
        clients = [self.daemon.client_as(ALICE) for _ in range(5)]
        for client in clients[:4]:
            for _ in range(20):
                client.call_soon("sink", "later")
        wait_for(lambda: self.used(ALICE).get("Calls") == 80, "80 calls")
        for _ in range(40):
            clients[4].call_soon("sink", "later")
        clients[4].until(lambda: len(clients[4].replies) == 20)
        self.assertEqual({status for status, _ in
                          clients[4].replies.values()}, {LIMIT})
        self.assertEqual(self.used(ALICE)["Calls"], 100)
        for client in clients:
            client.close()
        self.back_to_zero(ALICE)

    # what each row of [Limits] is to have: its value and where it comes from,
    # how much is used, a warning before it acts, and an error with all of that
    @ROOT
    def test_each_limit_is_seen_warned_of_and_told(self):
        walk = Walk(self.daemon)
        rows = {
            "Connections": ("5", "connections", walk.connect),
            "Greeting": ("5", "connections without a hello", walk.stranger),
            "Events": ("5", "events queued", walk.post),
            "Bytes": ("5000", "bytes queued", walk.post),
            "Timers": ("5", "timers", walk.delay),
            "Aliases": ("5", "aliases bound", walk.bind),
            "Calls": ("5", "calls outstanding", walk.call),
            "Watches": ("5", "watches", walk.watch),
        }
        lines = []
        for n, (key, (most, _, _)) in enumerate(rows.items()):
            lines += [f"[Limits uid:{ALICE + n}]", f"{key}={most}"]
        path = self.limits(*lines)
        self.start()
        self.ctl("queue", "pause", "sink")
        known = set(self.object("limits", "0")["limits"])
        self.assertEqual(known - set(rows), {
            "ConnectionRate", "ConnectionBurst", "HelloTimeout"})
        for n, (key, (most, what, take)) in enumerate(rows.items()):
            with self.subTest(key):
                self.walk(key, int(most), what, take, ALICE + n, path)
        self.ctl("queue", "purge", "--yes", "sink")
        self.ctl("cancel", "sink", "--all")
        for c in self.daemon.clients:
            c.close()
        self.back_to_zero(*(ALICE + n for n in range(len(rows))))

    def walk(self, key, most, what, take, uid, path):
        step = most // 5
        client = None if take.__name__ in ("connect", "stranger") else \
            self.daemon.client_as(uid)
        for i in range(4):
            self.assertEqual(take(client, uid, i)[0], 0)
        wait_for(lambda: self.of(uid, key)["used"] == 4 * step, "its use")
        limit = self.of(uid, key)
        self.assertEqual(limit["max"], most)
        self.assertTrue(limit["from"].startswith(path + ":"))
        self.assertTrue(limit["near"])
        self.assertEqual(limit["refused"], 0)
        self.daemon.logged(f'user.near-limit uid={uid} what="{what}" '
                           f'used={4 * step} limit={most} key={key}= '
                           f'from="{path}:')
        self.assertEqual(take(client, uid, 4)[0], 0)
        self.assert_limit(take(client, uid, 5), key,
                          f"uid {uid} has {most} of {most} {what}", path)
        self.assertEqual(self.of(uid, key)["refused"], 1)
        self.daemon.logged(f'user.limit uid={uid} what="{what}" used={most} '
                           f'limit={most} key={key}= from="{path}:')

    @ROOT
    def test_the_rate_is_seen_warned_of_and_told(self):
        path = self.limits(f"[Limits uid:{ALICE}]", "ConnectionRate=1",
                           "ConnectionBurst=10")
        self.start()
        for _ in range(8):
            self.daemon.client_as(ALICE)
        wait_for(lambda: "key=ConnectionBurst=" in self.daemon.text() or
                 self.daemon.client_as(ALICE), "a warning")
        self.assertGreater(self.of(ALICE, "ConnectionBurst")["used"], 0)

        def refused():
            client = self.daemon.client_as(ALICE, hello=False)
            try:
                client.greet()
            except (harness.Closed, ConnectionError):
                client.drain()
                return client
            return None
        error = wait_for(refused, "a refusal").errors[0]
        self.assertEqual(error[0], LIMIT)
        self.assertIn(f"uid {ALICE} connects more than 1 times a second "
                      f"(ConnectionRate= of [Limits] in eventd.conf: {path}:",
                      error[1])
        self.daemon.logged("key=ConnectionRate=")
        wait_for(lambda: not self.of(ALICE, "ConnectionBurst")["near"],
                 "the bucket to fill")

    @ROOT
    def test_each_user_has_a_time_to_say_hello(self):
        path = self.limits(f"[Limits uid:{ALICE}]", "HelloTimeout=100ms")
        self.start()
        bob = self.daemon.client_as(BOB, hello=False)
        silent = self.daemon.client_as(ALICE, hello=False)
        silent.drain()
        self.assertEqual(silent.errors, [(TIMEOUT, f"uid {ALICE} said no hello "
            f"within 100 ms (HelloTimeout= in eventd.conf: {path}:6)")])
        limit = self.of(ALICE, "HelloTimeout")
        self.assertEqual((limit["max"], limit["from"], limit["refused"]),
                         (100, path + ":6", 1))
        self.assertEqual(self.of(BOB, "HelloTimeout")["max"], 10000)
        bob.greet()
        self.assertEqual(bob.call("sink", "hello", b"x"), (0, b"x"))

    # a reload counts for those that come, and tells those that are there
    def test_windows_change_at_a_reload(self):
        self.daemon.configure("WindowPosts=8", "WindowBytes=1M")
        self.start()
        self.ctl("queue", "pause", "sink")
        old = self.daemon.client()
        self.assertEqual(first(old.welcome, 7), 8)
        self.daemon.configure("WindowPosts=20", "WindowBytes=2M")
        self.daemon.hangup()
        old.until(lambda: any(230 in n for n in old.notices))
        window = fields(first(old.notices[-1], 230))
        self.assertEqual((first(window, 1), first(window, 2)), (20, 2 << 20))
        new = self.daemon.client()
        self.assertEqual(first(new.welcome, 7), 20)
        self.assertNotIn("needs-restart", self.daemon.text())

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
