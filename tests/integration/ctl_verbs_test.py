#!/usr/bin/env python3
"""eventctl: every verb, as text and as JSON."""
import json
import os
import re
import time

import ctl
import harness

BROKEN = "return { x = \n"

COUNT = """
local n = 0
return {
    add = function(data) n = n + 1 end,
    get = function() eventd.reply(tostring(n)) end,
}
"""


class Post(ctl.TestCase):
    def setUp(self):
        super().setUp()
        self.daemon.session("count", script=COUNT)
        self.start()

    def test_says_nothing_if_all_is_well(self):
        self.assertEqual(self.ctl("post", "count", "add"), b"")
        self.assertEqual(self.err, "")
        self.assertEqual(self.ctl("call", "count", "get"), b"1")

    def test_200_in_a_row_all_arrive(self):  # B22
        for _ in range(200):
            self.ctl("post", "count", "add")
        self.assertEqual(self.ctl("call", "count", "get"), b"200")

    def test_verbose(self):
        self.ctl("post", "count", "add", "abc", "-v")
        self.told("count add: 3 bytes accepted")

    def test_json(self):
        self.assertEqual(
            self.object("post", "count", "add", "abc"),
            {"alias": "count", "event": "add", "level": "accepted", "size": 3})

    def test_waits_until_it_is_handled(self):
        self.ctl("post", "count", "add", "--wait", "delivered")
        self.ctl("post", "count", "add", "--wait=handled")
        self.assertEqual(self.ctl("call", "count", "get"), b"2")

    def test_an_unknown_alias(self):
        self.ctl("post", "thumbs", "resize", code=68)
        self.assertEqual(
            self.err, "eventctl: post thumbs: no session holds the alias "
            "'thumbs' (eventctl list shows what there is)\n")

    def test_many_lines(self):
        lines = b"".join(b"%d\n" % i for i in range(50000))
        self.ctl("post", "count", "add", "--lines", "-v", input=lines)
        self.told("50000 of 50000 events accepted")
        self.assertEqual(self.ctl("call", "count", "get"), b"50000")

    def test_lines_as_json(self):
        self.assertEqual(
            self.object("post", "count", "add", "--lines", input=b"a\nb"),
            {"alias": "count", "event": "add", "level": "accepted",
             "sent": 2, "accepted": 2})

    def test_lines_to_nobody(self):
        self.ctl("post", "nobody", "add", "--lines", code=68,
                 input=b"a\n" * 100)
        self.told("event 1: no session holds", "0 of ")
        self.assertLessEqual(self.err.count("\n"), 1)

    def test_lines_to_nobody_as_json(self):
        summary, error = self.objects("post", "nobody", "add", "--lines",
                                      code=68, input=b"a\n")
        self.assertEqual((summary["sent"], summary["accepted"]), (1, 0))
        self.assertEqual(error["error"]["status"], "no-alias")

    def test_lines_that_come_slowly_go_at_once(self):
        process = self.spawn("post", "count", "add", "--lines", stdin=-1)
        for n in range(1, 4):
            process.stdin.write(b"line\n")
            process.stdin.flush()
            harness.wait_for(
                lambda: self.ctl("call", "count", "get") == b"%d" % n)
        process.stdin.close()
        process.stdin = None
        self.ended(process)

    def test_a_failure_ends_it_though_no_input_comes(self):
        process = self.spawn("post", "nobody", "add", "--lines", stdin=-1)
        process.stdin.write(b"line\n")
        process.stdin.flush()
        process.wait(timeout=harness.DEADLINE)
        self.assertEqual(process.returncode, 68)


class Call(ctl.TestCase):
    def setUp(self):
        super().setUp()
        self.start()

    def test_prints_the_bytes_of_the_reply(self):
        self.assertEqual(self.ctl("call", "echo", "hello", "a b"), b"a b")
        self.assertEqual(self.ctl("call", "echo", "binary"),
                         b"\0\xff\x1b[2J\n")

    def test_an_empty_reply_is_no_error(self):  # B131
        self.assertEqual(self.ctl("call", "echo", "empty"), b"")
        self.assertEqual(self.ctl("call", "echo", "silent"), b"")
        self.assertEqual(self.object("call", "echo", "empty"),
                         {"alias": "echo", "event": "empty", "data": "",
                          "size": 0})

    def test_json(self):
        self.assertEqual(self.object("call", "echo", "hello", "hé\n"),
                         {"alias": "echo", "event": "hello", "data": "hé\n",
                          "size": 4})
        self.assertEqual(self.object("call", "echo", "binary"),
                         {"alias": "echo", "event": "binary",
                          "data": "AP8bWzJKCg==", "encoding": "base64",
                          "size": 7})

    def test_a_terminal_gets_no_control_characters(self):
        out = self.on_terminal("call", "echo", "binary")
        self.assertEqual(out, b"\\x00\\xff\\x1b[2J\r\n")
        out = self.on_terminal("call", "echo", "hello", "no line feed")
        self.assertEqual(out, b"no line feed\r\n")
        out = self.on_terminal("call", "echo", "binary", "--raw")
        self.assertEqual(out, b"\0\xff\x1b[2J\r\n")

    def on_terminal(self, *words):
        ours, theirs = os.openpty()
        self.ctl(*words, stdout=theirs)
        os.close(theirs)
        out = b""
        try:
            while True:
                out += os.read(ours, 4096)
        except OSError:
            pass  # its end
        os.close(ours)
        return out

    def test_an_error_of_the_handler(self):
        self.ctl("call", "echo", "no-such-event", code=1)
        self.assertTrue(self.err.startswith("eventctl: call echo: "))

    def test_a_handler_that_dies(self):
        self.ctl("call", "echo", "boom", code=69)

    def test_the_deadline(self):
        before = time.monotonic()
        self.ctl("call", "echo", "sleep", "30", "--timeout", "100ms", code=124)
        self.assertLess(time.monotonic() - before, 15)
        self.told("--timeout SPAN waits longer")


class Later(ctl.TestCase):
    def setUp(self):
        super().setUp()
        self.daemon.session("count", script=COUNT)
        self.start()

    def arrives(self, n=b"1"):
        harness.wait_for(lambda: self.ctl("call", "count", "get") == n)

    def test_in_a_span(self):
        out = self.ctl("delay", "count", "add", "--in", "10ms")
        self.assertRegex(out, rb"^[0-9]+\n$")
        self.assertEqual(self.err, "")
        self.arrives()

    def test_post_takes_the_same_options(self):
        self.ctl("post", "count", "add", "--in", "0")
        self.arrives()
        self.ctl("post", "count", "add", "--at", "@%.3f" % time.time())
        self.arrives(b"2")

    def test_at_a_time(self):
        self.ctl("delay", "count", "add", "--at",
                 "@%.3f" % (time.time() + 0.02))
        self.arrives()

    def test_at_a_time_that_is_over(self):
        self.ctl("delay", "count", "add", "--at", "2020-01-01T00:00:00Z")
        self.told("is over")
        self.arrives()

    def test_again_and_again_until_cancelled(self):
        timer = self.ctl("delay", "count", "add", "--in", "1ms", "--every",
                         "1ms").decode().strip()
        harness.wait_for(lambda: int(self.ctl("call", "count", "get")) >= 3)
        self.ctl("cancel", timer)
        before = self.ctl("call", "count", "get")
        self.ctl("ping")
        self.assertEqual(self.ctl("call", "count", "get"), before)

    def test_the_id_cancels(self):  # B40
        timer = self.ctl("delay", "count", "add", "--in",
                         "1h").decode().strip()
        self.assertEqual(self.ctl("cancel", timer), b"")
        self.ctl("cancel", timer, code=68)
        self.told("eventctl timers lists them")
        self.assertEqual(self.objects("timers"), [])

    def test_cancel_goes_on_behind_one_that_is_gone(self):
        timer = self.ctl("delay", "count", "add", "--in",
                         "1h").decode().strip()
        gone, done = self.objects("cancel", "12345", timer, code=68)
        self.assertEqual(gone["error"]["subject"], "12345")
        self.assertEqual(done, {"timer": timer, "cancelled": True})

    def test_json(self):
        made = self.object("delay", "count", "add", "x", "--in", "1h",
                           "--every", "2min")
        self.assertIsInstance(made["timer"], str)
        self.assertEqual((made["alias"], made["event"], made["every_ms"]),
                         ("count", "add", 120000))
        self.assertLess(abs(made["due_ns"] / 1e9 - time.time() - 3600), 60)
        self.assertTrue(made["due"].endswith("Z"))
        listed = self.object("timers")
        for key in ("timer", "alias", "event", "every_ms"):
            self.assertEqual(listed[key], made[key])
        self.assertEqual(listed["size"], 1)
        self.assertIsInstance(listed["owner"], str)

    def test_timers_come_as_they_are_due(self):
        for span in ("3h", "1h", "2h"):
            self.ctl("delay", "count", "add", "--in", span)
        self.ctl("delay", "echo", "hello", "--in", "90min")
        out = self.ctl("timers").decode().splitlines()
        self.assertRegex(out[0], "^ *TIMER +DUE +LEFT +EVERY +NAME +ALIAS")
        self.assertEqual([re.search("(count|echo) +(add|hello)", line)[1]
                          for line in out[1:5]],
                         ["count", "echo", "count", "count"])
        self.assertEqual(out[-1], "4 timers")
        dues = [timer["due_ns"] for timer in self.objects("timers")]
        self.assertEqual(dues, sorted(dues))
        self.assertEqual(len(self.objects("timers", "echo")), 1)
        self.assertEqual(
            len(self.ctl("timers", "--no-legend").splitlines()), 4)

    def test_more_timers_than_a_page(self):
        client = self.daemon.client()
        for _ in range(1500):
            client.request("delay", (1, "count"), (2, "add"), (5, 3600000))
        self.assertEqual(len(self.objects("timers")), 1500)

    def test_a_note_for_a_person(self):
        self.ctl("delay", "count", "add", "--in", "1h", "-v")
        self.told("eventctl cancel ")


class Look(ctl.TestCase):
    def setUp(self):
        super().setUp()
        self.daemon.session("broken", "Restart=no", script=BROKEN)
        self.start()

    def test_list(self):
        out = self.ctl("list").decode()
        self.assertRegex(out, r"ALIAS +KIND +STATE")
        self.assertRegex(out, r"(?m)^broken +lua +failed ")
        self.assertRegex(out, r"(?m)^echo +lua +up ")
        self.assertIn("2 sessions, 1 failed: eventctl status ALIAS", out)
        self.assertNotIn("\033", out)

    def test_list_without_legend(self):
        out = self.ctl("list", "--no-legend").decode().splitlines()
        self.assertEqual([line.split()[0] for line in out],
                         ["broken", "echo"])

    def test_list_with_colour(self):
        self.assertIn(b"\033[31mfailed\033[0m",
                      self.ctl("list", "--color=always"))
        self.assertIn(b"\033[31mfailed", self.ctl(
            "list", "--color=always", env=ctl.without(NO_COLOR="1")))

    def test_list_of_a_prefix(self):
        self.assertEqual(len(self.objects("list", "ec")), 1)
        self.assertEqual(self.objects("list", "nothing"), [])

    def test_list_of_all(self):
        found = self.objects("list", "--all")
        peers = [s["peer"]["name"] for s in found if "peer" in s]
        self.assertIn("eventctl", peers)
        self.assertEqual(len(self.objects("list")), 2)

    def test_list_of_more_than_a_page(self):
        client = self.daemon.client()
        for number in range(1, 1501):
            client.request("bind", (1, f"many.{number:04}"), (2, number))
        found = self.objects("list", "many.")
        names = [alias for s in found for alias in s["aliases"]]
        self.assertEqual(len(names), 1500)

    def test_list_as_json(self):
        found = self.held("echo")
        self.assertIsInstance(found["id"], str)
        self.assertEqual((found["kind"], found["state"]), ("lua", "up"))
        self.assertEqual(found["events"]["accepted"], 0)
        self.assertEqual(found["mailbox"]["parked"], 0)
        self.assertTrue(found["origin"].endswith("echo.conf"))
        self.assertRegex(found["started"], r"^20..-..-..T.*Z$")
        self.assertIsInstance(found["started_ns"], int)

    def test_status_of_a_session(self):
        self.ctl("post", "echo", "silent", "--wait", "handled")
        out = self.ctl("status", "echo").decode()
        self.assertTrue(out.startswith("echo\n"))
        self.assertRegex(out, r" State: up\n")
        self.assertRegex(out, r" Events: 1 accepted, 1 handled")
        self.assertEqual(
            self.object("status", "echo")["events"]["handled"], 1)

    def test_status_of_a_failed_one_says_what_to_do(self):
        out = self.ctl("status", "broken").decode()
        self.assertRegex(out, r" State: failed")
        self.assertRegex(out, r" Reason: .*broken\.lua:2: ")
        self.assertRegex(out, r" To do: .*eventctl restart broken")
        found = self.object("status", "broken")
        self.assertEqual(found["state"], "failed")
        self.assertIn("broken.lua:2:", found["reason"])

    def test_status_of_the_daemon(self):
        out = self.ctl("status").decode()
        self.assertRegex(out, r"^eventd [0-9.]+\n")
        self.assertRegex(out, r" State: running")
        self.assertRegex(out, r"1 failed: eventctl list shows which")
        found = self.object("status")
        self.assertEqual(found["pid"], self.daemon.process.pid)
        self.assertEqual(found["failed"], 1)
        self.assertEqual(found["state"], "running")
        parts = found["memory_parts"]
        self.assertEqual(parts["private"] + parts["shared"], found["memory"])
        self.assertGreater(parts["proportional"], parts["private"])
        self.assertRegex(out, r" Memory: .* resident: .* its own, .* shared")

    def test_status_of_nobody(self):
        self.ctl("status", "nobody", code=68)
        self.assertEqual(
            self.object("status", "nobody", code=68)["error"]["exit"], 68)

    def test_names_of_peers_cannot_command_the_terminal(self):
        client = self.daemon.client(hello=False)
        client.send((5, harness.message((1, 1), (2, "a\x1b[2Jb"))))
        client.until(lambda: client.welcome is not None or client.errors)
        self.assertNotIn(b"\x1b", self.ctl("list", "--all"))

    def test_what_a_failed_one_is_posted(self):
        self.ctl("post", "broken", "x", code=69)
        self.told("broken.lua:2:", "eventctl restart")


class Manage(ctl.TestCase):
    def test_restart_of_a_failed_session(self):
        self.daemon.session("broken", "Restart=no", script=BROKEN)
        self.start()
        self.assertEqual(self.object("status", "broken")["state"], "failed")
        self.daemon.write("scripts/broken.lua", "return {}")
        self.assertEqual(self.ctl("restart", "broken"), b"")
        harness.wait_for(
            lambda: self.object("status", "broken")["state"] == "up")

    def test_restart_as_json_goes_on_behind_a_wrong_one(self):
        self.daemon.session("broken", "Restart=no", script=BROKEN)
        self.start()
        error, done = self.objects("restart", "nobody", "broken", code=68)
        self.assertEqual(error["error"]["subject"], "nobody")
        self.assertEqual(done, {"alias": "broken", "restarted": True})

    def change(self):
        self.daemon.session("gone", script="return {}")
        self.daemon.session("changed", script="return {}")
        self.start()
        self.daemon.remove("sessions.d/gone.conf")
        self.daemon.session("changed", "Restart=no", script="return {}")
        self.daemon.session("new", script="return {}")

    def test_preview_changes_nothing(self):
        self.change()
        out = self.ctl("reload", "--preview").decode()
        self.assertIn("+ new  add\n", out)
        self.assertIn("~ changed  change\n", out)
        self.assertIn("- gone  remove\n", out)
        self.assertIn("3 sessions to change, 1 as before\n", out)
        self.assertEqual(
            self.object("reload", "--preview"),
            {"preview": True, "added": ["new"], "changed": ["changed"],
             "removed": ["gone"], "unchanged": 1})
        self.assertEqual(self.objects("list", "new"), [])

    def test_reload(self):
        self.change()
        out = self.ctl("reload").decode()
        self.assertIn("+ new  added\n", out)
        self.assertIn("- gone  removed\n", out)
        self.held("new")
        self.free("gone")
        self.assertEqual(self.object("reload")["unchanged"], 3)

    def test_reload_of_what_is_wrong(self):
        self.start()
        self.daemon.write("sessions.d/bad.conf", "[Session]\nKind=poem\n")
        self.ctl("reload", code=78)
        self.told("bad.conf:2")
        self.assertEqual(self.object("reload", code=78)["error"]["status"],
                         "config")
        self.held("echo")

    def test_ping(self):
        self.start()
        self.assertRegex(self.ctl("ping"),
                         rb"^eventd [0-9.]+ answers in [0-9.]+[um]?s\n$")
        found = self.objects("ping", "-n", "3", "--interval", "1ms")
        self.assertEqual(len(found), 3)
        self.assertGreater(found[0]["rtt_ns"], 0)

    def test_version(self):
        self.start()
        out = self.ctl("version").decode()
        self.assertRegex(out, r"^eventctl [0-9.]+\nlibevd [0-9.]+\neventd ")
        self.assertEqual(self.object("version")["socket"], self.daemon.socket)
        self.assertRegex(self.ctl("--version"), rb"^eventctl [0-9.]+\n$")

    def test_help_as_json(self):
        names = [verb["verb"] for verb in self.objects("help")]
        self.assertIn("post", names)
        self.assertEqual(self.object("help", "post")["verb"], "post")
        self.assertEqual(self.object("post", "--help")["verb"], "post")
        self.assertEqual(self.object("completion", "fish")["shell"], "fish")
        self.assertIn("eventctl", self.object("--version"))


class EveryVerb(ctl.TestCase):
    """B124: no verb takes --json and prints something else."""

    WORDS = {
        "post": ["echo", "hello", "x"],
        "call": ["echo", "hello", "x"],
        "gather": ["hello", "echo", "-d", "x"],
        "bind": ["sink", "-n", "1"],
        "delay": ["echo", "hello", "--in", "1h"],
        "wait": ["echo"], "watch": ["nobody"], "names": ["-n", "1"],
        "cancel": ["1"], "adjust": ["1", "--in", "2h"], "calendar": ["daily"],
        "list": [], "status": [], "timers": [], "reload": [],
        "restart": ["echo"], "session": ["executor", "echo", "loop"],
        "profile": [],
        "spawn": ["--script", "SCRIPT", "--alias", "spawned"],
        "stop": ["spawned"],
        "tree": [],
        "queue": ["list"], "dead": ["list"], "policy": ["show"],
        "limits": [], "monitor": ["-n", "1"], "store": ["stats"],
        "ping": [], "version": [], "why": ["1"],
        "completion": ["bash"],
        "help": [],
    }

    def test_prints_json_alone(self):
        self.start()
        timer = self.object("delay", "echo", "hello", "--in", "1h")["timer"]
        self.WORDS["spawn"][1] = self.daemon.write("spawned.lua", "return {}")
        self.ctl("delay", "echo", "hello", "--in", "1h", "--name", "n")
        verbs = [verb["verb"] for verb in self.objects("help")]
        self.assertEqual(sorted(verbs), sorted(self.WORDS))
        for verb in verbs:
            words = self.WORDS[verb]
            if verb == "cancel":
                words = [timer]
            elif verb == "why":
                words = [str(self.object("post", "echo", "hello",
                                         "--print-id")["id"])]
            elif verb == "adjust":
                words = ["echo", "--name", "n", "--in", "2h"]
            if verb in ("bind", "monitor"):
                continue
            with self.subTest(verb=verb):
                self.assertTrue(self.objects(verb, *words) or
                                verb in ("timers", "profile", "dead"))

    def test_bind_does(self):
        self.start()
        process = self.bind("sink", "-n", "1", "--json")
        self.ctl("post", "sink", "x")
        self.assertEqual(json.loads(self.ended(process))["event"], "x")

    def test_monitor_does(self):
        self.start()
        process = self.spawn("monitor", "echo", "-n", "2", "--json")
        while process.poll() is None:
            self.ctl("post", "echo", "hello", "x")
        there, told = map(json.loads, self.ended(process).splitlines())
        self.assertEqual(there["alias"], "echo")
        self.assertEqual((told["alias"], told["event"]), ("echo", "hello"))

    def test_prints_json_if_it_fails(self):
        for verb, words in self.WORDS.items():
            if verb in ("completion", "help"):
                continue
            with self.subTest(verb=verb):
                found = self.objects(verb, *words, code=69)
                self.assertEqual(found[0].get("error", {}).get("exit"), 69)


if __name__ == "__main__":
    harness.main()
