"""Durable state of sessions, through the daemon: a value and the end of the
event that changed it, both or neither."""
import os
import random
import time
import unittest

import ctl
from harness import wait_for

COUNTS = """
local M = {}
function M.add(data)
    local d = eventd.durable
    d.n = (d.n or 0) + 1
    d["seen." .. data] = (d["seen." .. data] or 0) + 1
    if data:find("crash") and (d.crashes or 0) < 1 then
        d.crashes = 1
        error("on purpose")
    end
end
function M.get(key) return tostring(eventd.durable[key]) end
function M.set(words)
    local key, kind, value = words:match("(%S+) (%S+) ?(.*)")
    local as = {s = value, i = math.tointeger(value), f = tonumber(value),
                b = value == "true"}
    eventd.durable[key] = as[kind]
end
function M.all()
    local words = {}
    for k, v in pairs(eventd.durable) do
        words[#words + 1] = k .. "=" .. tostring(v) .. "/" ..
            (math.type(v) or type(v))
    end
    table.sort(words)
    return table.concat(words, " ")
end
function M.wrong(data)
    local all = {
        function() eventd.durable[1] = 2 end,
        function() eventd.durable.x = {} end,
        function() eventd.durable[("k"):rep(200)] = 1 end,
        function() eventd.durable.x = ("v"):rep(100000) end,
    }
    local words = {}
    for i, f in ipairs(all) do
        local ok, why = pcall(f)
        words[i] = tostring(ok) .. " " .. tostring(why)
    end
    return table.concat(words, "\\n")
end
return M
"""


class DurableState(ctl.TestCase):
    def setUp(self):
        super().setUp()
        self.daemon.configure(
            "[Store]", f"Path={os.path.join(self.daemon.root, 'store')}")

    def counts(self, *mailbox, lines=()):
        self.daemon.session("counts", "Alias=counts", *lines, script=COUNTS,
                            mailbox=mailbox)

    def crash(self):
        self.daemon.process.kill()
        self.daemon.wait()
        self.daemon.hear()
        self.daemon.notices.clear()
        self.daemon.start()

    def call(self, event, *data, code=0):
        return self.ctl("call", "counts", event, *data, code=code).decode()

    def test_values_outlive_the_daemon(self):
        self.counts("Durable=yes")
        self.start()
        for words in ("text s two words", "int i 42", "float f 0.5",
                      "yes b true", "no b false", "gone s x", "gone n"):
            self.call("set", words)
        wanted = ("float=0.5/float int=42/integer no=false/boolean "
                  "text=two words/string yes=true/boolean")
        self.assertEqual(self.call("all"), wanted)
        self.ctl("post", "counts", "get", "--wait", "handled")
        self.crash()
        self.assertEqual(self.call("all"), wanted)
        status = self.ctl("status", "counts").decode()
        self.assertIn("5 durable values", status)

    def test_a_handler_that_fails_has_changed_nothing(self):
        self.counts("Durable=yes")
        self.start()
        self.ctl("post", "counts", "add", "a", "--wait", "handled")
        self.ctl("post", "counts", "add", "crash", "--wait", "handled",
                 code=69)
        wait_for(lambda: self.call("get", "n") == "1", "the first alone")
        self.assertEqual(self.call("get", "seen.crash"), "nil")
        self.crash()
        self.assertEqual(self.call("get", "n"), "1")

    def test_wrong_use_is_told(self):
        self.counts("Durable=yes", "DurableState=8K")
        self.start()
        said = self.call("wrong")
        for part in ("is a string, not a number", "boolean or nil, not a "
                     "table", "1 to 127 bytes", "DurableState="):
            self.assertIn(part, said)
        self.assertNotIn("true", said)

    def test_it_needs_a_durable_mailbox(self):
        self.counts()
        self.start()
        self.assertIn("Durable=yes", self.call("wrong"))

    def test_it_needs_one_handler_at_a_time(self):
        self.counts("Durable=yes", lines=("Concurrency=4",))
        self.start()
        self.assertIn("Concurrency=", self.call("wrong"))

    def test_a_plugin_has_the_same(self):
        self.daemon.session(
            "counts", "Alias=counts", "Kind=native", "Plugin=" + os.path.join(
                os.environ["EVENTD_BUILD"],
                "tests/unit/kind/plugins/durable.so"),
            mailbox=("Durable=yes",))
        self.start()
        self.ctl("post", "counts", "count", "--wait", "handled")
        self.ctl("post", "counts", "count", "fail", "--wait", "handled",
                 code=69)
        self.ctl("post", "counts", "set", "--wait", "handled")
        wait_for(lambda: self.call("check") == "yes", "a timer with its id")
        self.crash()
        self.assertEqual(self.call("get"), "1")
        self.assertEqual(self.call("check"), "yes")
        self.ctl("post", "counts", "soon", "--wait", "handled")
        wait_for(lambda: self.call("get") == "2", "it has fired")
        self.crash()
        self.assertEqual(self.call("get"), "2")
        self.assertEqual(self.call("check"), "no timer")

    def kill_rounds(self, *lines):
        """Each event is posted with a key until it is accepted: then the state
        has counted each once, whatever the instants of the kills."""
        self.counts("Durable=yes", "DurableState=1M", lines=lines)
        self.start()
        dice = random.Random(11)
        posted = 0
        for _ in range(8):
            with self.daemon.client() as c:
                n = dice.randrange(20, 120)
                for _ in range(n):
                    self.assertEqual(c.post("counts", "add",
                                            f"{posted}".encode()), 0)
                    posted += 1
                until = time.monotonic() + dice.random() * 0.01
                wait_for(lambda: time.monotonic() > until, "some moment")
            self.crash()
        self.ctl("post", "counts", "get", "--wait", "handled")
        self.assertEqual(self.call("get", "n"), str(posted))
        seen = [w for w in self.call("all").split() if w.startswith("seen.")]
        self.assertEqual(len(seen), posted)
        self.assertEqual({w.split("=")[1] for w in seen}, {"1/integer"})

    def test_a_counter_counts_what_was_accepted(self):
        self.kill_rounds()

    def test_the_same_on_threads(self):
        self.kill_rounds("Executor=worker")


if __name__ == "__main__":
    unittest.main()
