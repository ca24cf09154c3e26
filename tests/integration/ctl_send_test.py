#!/usr/bin/env python3
"""Sending beside the plain way: keys, priority, time to live, gather, forward,
states; through a real daemon with two loops."""
import json

import ctl
import harness

DOOR = """
local M, log = {}, {}
M.states = {
    shut = {
        open = "open",
        walk = function() eventd.stash() end,
    },
    open = {
        walk = function(data) log[#log + 1] = data end,
        shut = "shut",
    },
}
function M._start() eventd.become("shut") end
function M.back() eventd.unstash() end
function M.log() return table.concat(log, " ") .. " " .. eventd.state() end
function M.count(data, ev)
    log[#log + 1] = data .. (ev.headers.who or "") .. ev.priority
end
return M
"""

MANY = """
return {
    ask = function(data)
        if eventd.alias() == "slow" then eventd.sleep(60) end
        if eventd.alias() == "sour" then eventd.reply_error("no\\n") return end
        return eventd.alias() .. data
    end,
    nested = function(data)
        local r, word = eventd.call("slow", "ask", "", 60)
        return word
    end,
}
"""


class Send(ctl.TestCase):
    def setUp(self):
        super().setUp()
        for name in ("one", "two", "slow", "sour"):
            self.daemon.session(name, script=MANY)
        self.daemon.session("door", script=DOOR)
        self.start()

    def log(self):
        return self.ctl("call", "door", "log").decode()

    def test_a_key_makes_a_post_safe_to_repeat(self):
        for _ in range(3):
            self.ctl("post", "door", "count", "a", "--key", "k1",
                     "--wait", "handled")
        self.ctl("post", "door", "count", "b", "--key", "k2",
                 "-H", "who=me", "--priority", "urgent", "--wait", "handled")
        self.assertEqual(self.log(), "anormal bmeurgent shut")
        self.assertEqual(self.object("status", "door")["aliases"], ["door"])

    def test_wrong_options_are_told(self):
        for words in (("--key", ""), ("--key", "k" * 65), ("--ttl", "0"),
                      ("--priority", "high"), ("--key", "k", "--lines"),
                      ("--key", "k", "--in", "1s")):
            self.ctl("post", "door", "count", *words, code=64)

    def test_what_is_too_late_expires(self):
        sleep = self.spawn("call", "echo", "sleep", "1")
        harness.wait_for(
            lambda: b"leased" in self.ctl("status", "echo"),
            "echo sleeps", harness.DEADLINE)
        self.ctl("post", "echo", "hello", "--ttl", "1ms", "--wait", "handled",
                 code=75)
        self.assertIn("expired", self.err)
        self.ended(sleep)

    def test_gather_prints_a_line_for_each(self):
        out = self.ctl("gather", "ask", "one", "two", "-d", "!")
        self.assertEqual(out, b"one one!\ntwo two!\n")
        self.ctl("gather", "ask", "one", "nobody", code=68)
        self.assertIn("nobody: no session holds", self.err)
        self.ctl("gather", "ask", "sour", "one", code=1)
        self.assertIn("sour: no", self.err)

    def test_enough_answers_are_enough(self):
        out = self.objects("gather", "ask", "slow", "one", "two", "--wanted",
                           "2", "-d", "?")
        self.assertEqual([(o["alias"], o["status"]) for o in out],
                         [("slow", "cancelled"), ("one", "ok"),
                          ("two", "ok")])
        self.assertEqual(out[1]["data"], "one?")
        self.ctl("gather", "ask", "one", "--wanted", "2", code=64)

    def test_gather_has_a_deadline(self):
        self.ctl("gather", "ask", "slow", "one", "--timeout", "0.2s", code=124)
        self.assertIn("slow: ", self.err)

    def test_a_deadline_is_handed_on(self):  # B26
        self.ctl("call", "one", "nested", "--timeout", "0.2s", code=124)
        # it ended with its caller's deadline, not after a minute
        self.assertEqual(self.ctl("call", "one", "ask", "x",
                                  "--timeout", "5s"), b"onex")

    def test_a_client_forwards(self):
        process = self.bind("front", "--forward", "echo", "-n", "2")
        self.assertEqual(self.ctl("call", "front", "hello", "abc"), b"abc")
        self.ctl("call", "front", "boom", code=69)
        self.ended(process)

    def test_a_client_sees_deadline_and_priority(self):
        process = self.bind("front", "--json", "-n", "2")
        self.assertEqual(self.ctl("call", "front", "a", "--timeout", "9s",
                                  "--priority", "urgent", "-H", "h=v"), b"")
        self.ctl("post", "front", "b")
        a, b = map(json.loads, self.ended(process).splitlines())
        self.assertTrue(0 < a["deadline_ms"] <= 9000)
        self.assertEqual(a["priority"], "urgent")
        self.assertEqual(a["headers"][0]["name"], "h")
        self.assertNotIn("deadline_ms", b)
        self.assertNotIn("priority", b)

    def test_a_state_machine(self):
        self.ctl("post", "door", "walk", "1")
        self.ctl("post", "door", "walk", "2")
        self.ctl("call", "door", "open")
        self.ctl("call", "door", "walk", "3")
        self.ctl("call", "door", "back")
        self.assertEqual(self.log(), "3 1 2 open")

    def test_an_empty_reply_is_none(self):  # B131
        self.assertEqual(self.ctl("call", "echo", "empty"), b"")
        self.assertEqual(self.ctl("gather", "empty", "echo"), b"echo \n")
        self.assertEqual(
            self.object("gather", "empty", "echo")["data"], "")


if __name__ == "__main__":
    harness.main()
