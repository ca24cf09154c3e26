#!/usr/bin/env python3
"""The example sessions as they are installed, and README's tour: each of its
commands is run, and what it prints is what README says."""
import os
import re
import shlex
import shutil
import subprocess

import ctl
import harness

TREE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../..")
BUILD = os.environ.get("EVENTD_BUILD", TREE + "/build/debug")


class TestCase(ctl.TestCase):
    def setUp(self):
        super().setUp()
        for name in ("lua", "native", "sessions.d"):
            shutil.copytree(f"{BUILD}/docs/examples/{name}",
                            f"{self.daemon.etc}/{name}", dirs_exist_ok=True)

    def change(self, name, **params):
        """Other parameters for the session of that file."""
        path = f"{self.daemon.etc}/sessions.d/{name}.conf"
        with open(path, encoding="utf-8") as file:
            text = file.read()
        for key, value in params.items():
            text, n = re.subn(f"(?m)^{key}=.*$", f"{key}={value}", text)
            if n == 0:
                text += f"{key}={value}\n"
        self.daemon.write(f"sessions.d/{name}.conf", text)

    def call(self, alias, event, payload=b""):
        status, reply = self.client.call(alias, event, payload)
        self.assertEqual(status, 0, reply)
        return reply.decode()

    def said(self, alias, event, payload, text):
        """Waits until the call is answered so."""
        harness.wait_for(lambda: self.call(alias, event, payload) == text,
                         f"{alias} {event} says {text}")

    def go(self, **start):
        self.daemon.start(**start)
        self.client = self.daemon.client()


class Examples(TestCase):
    def test_all_are_up(self):
        self.go()
        states = self.client.states()
        self.assertEqual(sorted(states), [
            "debouncer", "greeter", "outbox", "ping", "pong", "thumbs",
            "thumbs/worker1", "thumbs/worker2", "watchdog"])
        self.assertEqual({state for state, _ in states.values()}, {"up"})

    def test_greeter_greets_counts_and_reminds(self):
        self.go()
        self.assertEqual(self.call("greeter", "greet", "World"),
                         "Hello, World!")
        self.assertEqual(self.call("greeter", "count"), "1")
        self.assertEqual(self.client.call("greeter", "greet")[0], 1)
        self.call("greeter", "remind", "0.01 drink some tea")
        self.daemon.logged("drink some tea (0.0")

    def test_thumbs_gives_the_job_of_a_dead_worker_to_another(self):
        self.change("thumbs", seconds="0.01", timeout="0.3", attempts="2")
        self.go()
        self.assertEqual(self.call("thumbs", "add", "a.crash"), "1")
        for name in ("b.jpg", "c.png"):
            self.call("thumbs", "add", name)
        self.said("thumbs", "status", "1",
                  "a.crash: failed, attempt 2: no answer within 0.3 s")
        self.said("thumbs", "status", "",
                  "0 waiting, 0 running, 2 done, 1 failed")
        self.said("thumbs", "status", "2", "b.jpg: done, attempt 1: "
                  "b.thumb.png")
        restarts = [harness.first(harness.fields(info), 12)
                    for info in self.sessions()]
        self.assertGreaterEqual(sum(restarts), 1)

    def sessions(self):
        answer = self.client.request("list", (1, "thumbs/"))
        return harness.fields(harness.first(answer, 7, b""))[1]

    def test_ping_and_pong_play(self):
        self.go()
        for event in ("run", "run-by-id", "run-by-alias"):
            self.assertRegex(self.call("ping", event, "1000"),
                             r"^2000 events, [0-9.]+ ns each$")

    def test_debouncer_makes_one_of_many(self):
        self.change("debouncer", target="sink", event="settled", quiet="0.2")
        self.go()
        answer = self.client.request("bind", (1, "sink"), (2, 1), (3, 10))
        self.assertEqual(harness.first(answer, 2), 0)
        for number in range(20):
            self.client.post("debouncer", "changed", f"file{number}")
        self.client.until(lambda: self.client.deliveries)
        found = self.client.deliveries[0]
        self.assertEqual((found[3], found[4]), ([b"settled"], [b"20 file19"]))
        # what comes after it is the next one's
        self.client.post("debouncer", "changed", b"x")
        self.client.until(lambda: len(self.client.deliveries) > 1)
        self.assertEqual(self.client.deliveries[1][4], [b"1 x"])

    def test_watchdog_reports_both_ways(self):
        self.change("watchdog", target="sick", event="ping", every="0.05",
                    timeout="0.2", report="desk")
        self.go()
        self.client.request("bind", (1, "desk"), (2, 1), (3, 10))
        self.daemon.session("sick", script="return {ping = function() "
                                           "return 'pong' end}")
        self.daemon.hangup()
        self.alert("sick answers again")
        self.daemon.remove("sessions.d/sick.conf")
        self.daemon.hangup()
        self.alert("sick does not answer: no-alias")
        self.assertIn("checks failed)", self.call("watchdog", "status"))

    def alert(self, text):
        self.client.until(lambda: self.client.deliveries and
                          text in self.client.deliveries[-1][4][0].decode())


class Tour(TestCase):
    """What README prints below a command is that command's output; numbers,
    times and paths may be others."""

    def test_it_says_the_truth(self):
        self.change("thumbs", seconds="2")  # on a slow machine, too
        self.go()
        n = 0
        for command, expected in self.steps():
            with self.subTest(command=command):
                self.check(command, expected)
                n += 1
        self.assertGreater(n, 9)

    @staticmethod
    def steps():
        with open(f"{TREE}/README.md", encoding="utf-8") as file:
            text = file.read()
        tour = text.split("## Five minutes")[1].split("\n## ")[0]
        command, lines = None, []
        for line in tour.splitlines() + ["    $ eventctl"]:
            if line.startswith("    $ "):
                if command and command.startswith("eventctl "):
                    yield command, lines
                command, lines = line[6:], []
            elif command and line.startswith("    "):
                lines.append(line[4:].rstrip())
        assert command == "eventctl"

    def check(self, command, expected):
        words = shlex.split(command)
        if words[-1] == "&":
            self.bind(*words[2:-1])
            return
        if words[1] == "cancel":
            words[2] = self.timer
        if words[1] == "status":
            self.ended_anew(words[2])
        done = subprocess.run(
            self.command(*words[1:]), stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, timeout=harness.DEADLINE)
        told = done.stdout.decode().splitlines()
        if words[1] == "delay":
            self.timer = told[0]
        if expected and expected[-1] == "...":
            expected, told = expected[:-1], told[:len(expected) - 1]
        self.assertEqual([vague(line) for line in told if line.strip()],
                         [vague(line) for line in expected if line.strip()])

    def ended_anew(self, alias):
        """Waits until its supervisor has started it again."""
        harness.wait_for(lambda: "restarted 1 time" in self.ctl(
            "status", alias).decode(), f"{alias} restarted")


def vague(line):
    """Without what may differ each time."""
    line = re.sub(r"(/|\.\.\.)\S*(?=/sessions\.d)", "/DIR", line)
    line = re.sub(r"\b\d+(min|s|ms)\b( \d+s)?", "SPAN", line)
    line = re.sub(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d", "TIME", line)
    line = re.sub(r"\d{3,}", "NUMBER", line)
    return re.sub(r" +", " ", line).strip()


if __name__ == "__main__":
    harness.main()
