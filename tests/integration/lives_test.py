#!/usr/bin/env python3
"""Sessions that come and go: spawn, stop, tree, groups, idle stop, poison."""
import os
import unittest

import ctl
from harness import wait_for

ECHO = """
return {
    who = function() return eventd.params.name or "nobody" end,
    boom = function() error("boom") end,
    exit = function(text) eventd.exit(text) end,
    kids = function() return table.concat(eventd.children(), " ") end,
}
"""

PARENT = """
local log = {}
local M = {}
function M.spawn(opts)
    local id, word, text =
        eventd.spawn(load("return " .. opts)())
    if not id then return eventd.reply_error(word .. ": " .. text) end
    return id
end
function M._child(n)
    log[#log + 1] = n.change .. " " .. n.alias
        .. (n.reason and (" " .. n.reason) or "")
end
function M.log() return table.concat(log, ", ") end
return M
"""

POISON = """
return {
    bad = function(data, ev)
        eventd.log("warning", "attempt " .. ev.attempt)
        error("attempt " .. ev.attempt)
    end,
    good = function() return "fine" end,
}
"""


LOG = """
local names = {}
return {
    up = function(name) names[#names + 1] = name end,
    names = function() return table.concat(names, " ") end,
}
"""

# Takes its time to start.
SLOW = """
return { _start = function()
    eventd.sleep(0.02)
    eventd.post("log", "up", eventd.params.name)
end }
"""


class Order(ctl.TestCase):
    """After= and Order= when the daemon starts, on two loops."""

    def slow(self, name, *lines):
        self.daemon.session(name, *lines, script=SLOW)
        with open(self.daemon.etc + f"/sessions.d/{name}.conf", "a",
                  encoding="utf-8") as out:
            out.write(f"[Params]\nname={name}\n")

    def test_boot(self):
        self.daemon.configure("Loops=2")
        self.daemon.session("log", script=LOG)
        self.slow("a", "After=b", "Loop=0")
        self.slow("b", "After=c", "Loop=1")
        self.slow("c", "Alias=c see", "After=log", "Loop=0")
        self.slow("m1", "Group=g", "Order=3", "Loop=0")
        self.slow("m2", "Group=g", "Order=2", "Loop=1", "After=a")
        self.slow("m3", "Group=g", "Order=9", "Loop=1")
        self.start()
        wait_for(lambda: self.ctl("call", "log", "names") ==
                 b"c b a m2 m1 m3")
        self.slow("d", "After=a")  # which is up
        self.ctl("reload")
        wait_for(lambda: self.ctl("call", "log", "names")[-1:] == b"d")

    def test_a_circle_is_told(self):
        self.daemon.configure("Loops=2")
        self.slow("a", "After=b")
        self.slow("b", "After=a")
        done = self.daemon.run("--check-config")
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("wait for each other", done.stdout + done.stderr)
        self.slow("b", "After=nobody")
        done = self.daemon.run("--check-config")
        self.assertIn("After=nobody", done.stdout + done.stderr)


class Lives(ctl.TestCase):
    LOOPS = 2

    def start(self):
        self.daemon.configure(f"Loops={self.LOOPS}")
        super().start()

    def file(self, name, text):
        path = os.path.join(self.daemon.root, name)
        with open(path, "w", encoding="utf-8") as out:
            out.write(text)
        return path

    def status(self, alias):
        return self.object("status", alias)

    def state(self, alias, state):
        wait_for(lambda: self.status(alias)["state"] == state,
                 f"{alias} to be {state}, not {self.status(alias)}")

    def call(self, *words, **more):
        return self.ctl("call", *words, **more).decode().strip()

    def test_spawn_of_a_script(self):
        self.start()
        path = self.file("extra.lua", ECHO)
        found = self.object("spawn", "--script", path, "--alias", "x",
                            "--alias", "y/z", "--param", "name=me")
        self.assertEqual(found["aliases"], ["x", "y/z"])
        self.assertEqual(self.call("y/z", "who"), "me")
        status = self.status("x")
        self.assertEqual(status["id"], found["id"])
        self.assertEqual(status["name"], "extra.lua")
        self.assertEqual(status["starts"], 1)
        self.ctl("spawn", "--script", path, "--alias", "x", code=73)
        self.assertIn("'x' is held", self.err)
        self.ctl("stop", "x")
        self.ctl("status", "x", code=68)
        self.ctl("stop", "x", code=68)

    def test_spawn_of_a_file(self):
        self.start()
        self.file("extra.lua", ECHO)
        path = self.file("extra.conf", "[Session]\nKind=lua\nScript=extra.lua"
                         "\nAlias=e\nLoop=1\n[Params]\nname=file\n")
        self.ctl("spawn", path)
        self.assertEqual(self.call("e", "who"), "file")
        self.assertEqual(self.status("e")["loop"], 1)
        self.ctl("stop", "e")
        self.ctl("spawn", path, "--param", "name=other")
        self.assertEqual(self.call("e", "who"), "other")
        # a reload leaves it alone
        self.ctl("reload")
        self.assertEqual(self.call("e", "who"), "other")

    def test_wrong_spawns_are_told(self):
        self.start()
        path = self.file("wrong.conf", "[Session]\nKind=lau\n")
        self.ctl("spawn", path, code=78)
        self.assertIn("wrong.conf:2:6: there is no kind 'lau'", self.err)
        self.ctl("spawn", os.path.join(self.daemon.root, "none.conf"),
                 code=66)
        self.ctl("spawn", code=64)
        self.ctl("spawn", path, "--alias", "a", code=64)
        self.ctl("spawn", path, "--script", path, code=64)
        path = self.file("open.lua", "return {}")
        os.chmod(path, 0o666)
        self.ctl("spawn", "--script", path, "--alias", "a", code=78)
        self.assertIn("anyone may write to it", self.err)

    def test_tree_and_children_on_two_loops(self):
        self.daemon.session("parent", script=PARENT)
        self.start()
        self.daemon.write("scripts/kid.lua", ECHO)
        for loop in (0, 1):
            self.call("parent", "spawn",
                      f"{{script='kid.lua', alias='kid{loop}', loop={loop}}}")
        wait_for(lambda: len(self.objects("list", "kid")) == 2,
                 "both to be there")
        ids = {s["aliases"][0]: s for s in self.objects("tree")
               if s["aliases"]}
        self.assertEqual(ids["kid0"]["parent"], ids["parent"]["id"])
        self.assertEqual(ids["kid1"]["parent"], ids["parent"]["id"])
        self.assertEqual(ids["parent"]["children"], 2)
        text = self.ctl("tree").decode()
        self.assertIn("|- kid0  lua", text)
        self.assertIn("`- kid1  lua", text)
        self.ctl("post", "kid1", "exit", "done")
        self.ctl("stop", "kid0")
        want = "gained kid0, gained kid1, "
        wait_for(lambda: {"lost kid1 normal", "lost kid0 killed"} <= set(
            self.call("parent", "log").split(", ")),
                 "both to be lost")
        self.assertTrue(self.call("parent", "log").startswith(want))
        self.ctl("stop", "parent")
        self.ctl("status", "parent", code=68)

    def test_groups_and_their_budget(self):
        for name in ("db", "web"):
            self.daemon.session(name, "Group=site",
                                "RestartSec=10ms", script=ECHO)
        self.daemon.session("site", "Kind=group", "Strategy=all",
                            "RestartBurst=1")
        self.start()
        self.assertEqual(self.status("group/site")["children"], 2)
        self.assertEqual(self.status("web")["parent"],
                         self.status("group/site")["id"])
        self.ctl("post", "db", "boom")
        wait_for(lambda: self.status("web")["starts"] == 2, "web to restart")
        self.state("db", "up")
        self.assertEqual(self.status("web")["exit"], "stopped")
        self.ctl("post", "web", "boom")
        self.state("group/site", "failed")
        self.state("db", "failed")
        self.assertIn("the group 'site' has failed: 'web' was its failure 2",
                      self.status("db")["reason"])
        self.assertEqual(self.call("echo", "hello", "x"), "x")
        self.ctl("restart", "group/site")
        self.state("db", "up")
        self.state("web", "up")

    def test_on_demand_and_idle_stop(self):
        self.daemon.session("lazy", "Start=on-demand",
                            "IdleStop=50ms", script=ECHO)
        self.start()
        self.assertEqual(self.status("lazy")["state"], "dormant")
        for n in range(1, 6):
            self.assertEqual(self.call("lazy", "who"), "nobody")
            self.state("lazy", "dormant")
            status = self.status("lazy")
            self.assertEqual(status["starts"], n)
            self.assertEqual(status["exit"], "idle")
        self.assertEqual(status["events"]["handled"], 5)
        self.assertIn("Last exit: idle", self.ctl("status", "lazy").decode())

    def test_a_poison_event_is_parked_alone(self):
        self.daemon.session("p", "RestartSec=5ms",
                            "RestartBurst=1", script=POISON,
                            mailbox=("MaxAttempts=3",))
        self.start()
        self.ctl("call", "p", "bad", code=69)
        self.assertIn("crashed its session 3 times", self.err)
        self.assertIn("attempt 3", self.err)
        self.assertEqual(self.call("p", "good"), "fine")
        status = self.status("p")
        self.assertEqual(status["starts"], 4)
        self.assertEqual(status["events"]["dead_lettered"], 1)


if __name__ == "__main__":
    unittest.main()
