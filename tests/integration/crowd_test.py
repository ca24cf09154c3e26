"""Hosted sessions beside clients as consumers of one alias, on several loops
and executors: shared and fanout."""
import os
import subprocess
import unittest

import ctl
import harness
from harness import first, wait_for

LOOPS = 3
SHARED, FANOUT = 1, 2
PLUGIN = os.path.join(os.environ.get("EVENTD_BUILD", ""),
                      "tests/unit/kind/plugins/member.so")

# Counts what comes; `hold` waits until `go`; `crash` fails.
MEMBER = """
local mode, alias = eventd.params.mode, eventd.params.alias
local seen, told, from = {}, {}, {}
local function join(window)
    local r, word, text = eventd.bind(alias, {mode = mode, window = window})
    return tostring(r or word .. " " .. text)
end
local joined
return {
    _start = function()
        if mode then joined = join(tonumber(eventd.params.window)) end
    end,
    _alias = function(n)
        joined = n.up and "true" or n.reason .. " " .. n.text
    end,
    _gap = function(n) told[#told + 1] = n.count end,
    joined = function() return joined end,
    join = function(data) mode = data; return join() end,
    leave = function() return tostring(eventd.unbind(alias)) end,
    lua = function(data) return tostring(load("return " .. data)()) end,
    e = function(data, ev)
        seen[#seen + 1] = data
        from[#from + 1] = ev.from
        return eventd.alias()
    end,
    hold = function(data)
        seen[#seen + 1] = data
        eventd.await_event("go", 60)
    end,
    crash = function(data) seen[#seen + 1] = data; error("kaputt") end,
    seen = function() return table.concat(seen, " ") end,
    from = function() return tostring(from[#from]) end,
    gaps = function() return table.concat(told, " ") end,
}
"""


class Crowd(ctl.TestCase):
    def setUp(self):
        super().setUp()
        self.daemon.configure(f"Loops={LOOPS}")
        self.n = 0

    def member(self, name, alias, mode, *lines, window=0, mailbox=()):
        params = ["[Params]", f"alias={alias}"]
        if mode:
            params.append(f"mode={mode}")
        if window:
            params.append(f"window={window}")
        self.daemon.session(name, f"Loop={self.n % LOOPS}", *lines,
                            script=MEMBER, mailbox=tuple(mailbox) +
                            tuple(params))
        self.n += 1

    def call(self, alias, event, data=""):
        return self.ctl("call", alias, event, data).decode()

    def joined(self, *names):
        for name in names:
            wait_for(lambda: self.call(name, "joined") == "true",
                     f"{name} has joined")

    def counters(self, alias):
        return self.object("status", alias)["events"]

    def balance(self):
        def balanced():
            c = self.object("status")["events"]
            return c["accepted"] == sum(c[k] for k in (
                "handled", "queued", "leased", "delayed", "expired",
                "cancelled", "dropped", "dead_lettered"))
        wait_for(balanced, "the accounts balance")

    def post(self, alias, event, words):
        c = self.daemon.client()
        last = 0
        for w in words:
            last = c.post_soon(alias, event, str(w).encode())
        c.until(lambda: c.settled(last))
        return c

    def bind(self, alias, mode, window=0, status=0):
        c = self.daemon.client()
        r = c.request("bind", (1, alias), (2, 1), (3, window), (11, mode))
        self.assertEqual(first(r, 2), status, r)
        return c

    def settle(self, client, upto):
        client.send((3, harness.message((1, 1), (2, upto))))

    def seen(self, name):
        return self.call(name, "seen").split()

    # -- shared

    def test_shared_work_is_done_once_by_scripts_and_clients(self):
        for i in range(LOOPS):
            self.member(f"w{i}", "jobs", "shared")
        self.start()
        self.joined(*(f"w{i}" for i in range(LOOPS)))
        c = self.bind("jobs", SHARED, 8)
        self.assertEqual(self.object("status", "jobs")["consumers"], 4)
        self.post("jobs", "e", range(600))
        got = []

        def done():
            c.request("ping")
            if len(c.deliveries) > len(got):
                got[:] = [first(d, 4).decode() for d in c.deliveries]
                self.settle(c, len(got))
            return self.counters("jobs")["handled"] == 600
        wait_for(done, "all is handled")
        parts = [self.seen(f"w{i}") for i in range(LOOPS)] + [got]
        self.assertEqual(sorted(sum(parts, []), key=int),
                         [str(i) for i in range(600)])
        for part in parts:
            self.assertTrue(part)
            self.assertEqual(part, sorted(part, key=int))
        self.balance()

    def test_a_window_bounds_what_one_holds_and_others_go_on(self):
        self.member("slow", "jobs", "shared", window=1)
        self.member("fast", "jobs", "shared")
        self.start()
        self.joined("slow", "fast")
        self.post("jobs", "hold", ["x", "y"])  # one each
        for name in ("slow", "fast"):
            wait_for(lambda: self.counters(name)["leased"] == 1)
        self.ctl("post", "fast", "go")
        self.post("jobs", "e", range(50))
        wait_for(lambda: self.counters("jobs")["handled"] == 51)
        self.assertEqual(self.counters("slow")["queued"], 0)
        self.ctl("post", "slow", "go")
        wait_for(lambda: not self.counters("jobs")["leased"])
        self.assertEqual(len(self.seen("slow")), 1)
        self.balance()

    def test_what_a_member_had_not_begun_goes_to_others(self):
        """It ends, fails or leaves: the others get it, in order."""
        self.daemon.session("jobs", "Kind=client", "Mode=shared", "Loop=1")
        self.member("w", "jobs", "shared", "Restart=no", "After=jobs",
                    window=30)
        self.start()
        self.joined("w")
        self.post("jobs", "hold", ["first"])
        self.post("jobs", "e", range(20))
        wait_for(lambda: self.counters("w")["queued"] == 20)
        self.assertEqual(self.counters("jobs")["leased"], 21)
        self.ctl("stop", "w")
        wait_for(lambda: self.counters("jobs")["queued"] == 21)
        c = self.bind("jobs", SHARED)
        c.until(lambda: len(c.deliveries) == 21)
        self.assertEqual([first(d, 4).decode() for d in c.deliveries],
                         ["first"] + [str(i) for i in range(20)])
        self.settle(c, 21)
        wait_for(lambda: self.counters("jobs")["handled"] == 21)
        self.assertEqual(self.objects("dead", "list"), [])
        self.balance()

    def test_one_that_leaves_ends_what_it_has_begun(self):
        self.daemon.session("jobs", "Kind=client", "Mode=shared", "Loop=2")
        self.member("w", "jobs", "shared", "Concurrency=2", "After=jobs",
                    window=5)
        self.start()
        self.joined("w")
        self.post("jobs", "hold", ["a"])
        wait_for(lambda: self.seen("w") == ["a"])
        self.assertEqual(self.call("w", "leave"), "true")
        self.assertEqual(self.call("w", "leave"), "false")
        wait_for(lambda: self.object("status", "jobs")["consumers"] == 0)
        self.assertEqual(self.counters("jobs")["leased"], 1)
        c = self.bind("jobs", SHARED, 9)
        self.post("jobs", "e", ["b"])
        c.until(lambda: c.deliveries)
        self.assertEqual(first(c.deliveries[0], 4), b"b")
        self.ctl("post", "w", "go")
        wait_for(lambda: self.counters("jobs")["handled"] == 1)
        self.settle(c, 1)
        wait_for(lambda: self.counters("jobs")["handled"] == 2)
        self.balance()

    def test_a_crash_is_tried_again_by_another(self):
        self.daemon.session("jobs", "Kind=client", "Mode=shared",
                            mailbox=["MaxAttempts=2", "RetryDelay=0"])
        self.member("w0", "jobs", "shared", "After=jobs")
        self.member("w1", "jobs", "shared", "After=jobs")
        self.start()
        self.joined("w0", "w1")
        self.post("jobs", "crash", ["x"])
        wait_for(lambda: self.counters("jobs")["dead_lettered"] == 1)
        letters = self.objects("dead", "list")
        self.assertEqual([(d["alias"], d["reason"]) for d in letters],
                         [("jobs", "attempts")])
        self.joined("w0", "w1")  # again, as they were started again
        self.post("jobs", "e", ["y"])
        wait_for(lambda: self.counters("jobs")["handled"] == 1)
        self.balance()

    def test_calls_are_answered_by_who_has_them(self):
        self.member("w0", "jobs", "shared")
        self.member("w1", "jobs", "shared")
        self.start()
        self.joined("w0", "w1")
        names = {self.call("jobs", "e", "x") for _ in range(4)}
        self.assertEqual(names, {"w0", "w1"})
        self.ctl("call", "jobs", "nosuch", code=1)
        self.post("jobs", "hold", ["a", "b"])
        self.ctl("call", "jobs", "e", "--timeout", "0.2", code=124)
        for name in ("w0", "w1"):
            self.ctl("post", name, "go")
        wait_for(lambda: not self.counters("jobs")["leased"])
        self.balance()

    def test_the_sender_is_who_posted(self):
        self.member("w0", "jobs", "shared")
        self.member("s0", "news", "fanout", mailbox=["Overflow=block"])
        self.member("s1", "news", "fanout", mailbox=["Overflow=refuse"])
        self.start()
        self.joined("w0", "s0", "s1")
        c = self.post("jobs", "e", ["x"])
        wait_for(lambda: self.seen("w0"))
        ours = self.call("w0", "from")
        self.assertEqual(ours, str(first(c.welcome, 4)))
        c.post("news", "e", b"y")
        for name in ("s0", "s1"):
            wait_for(lambda: self.seen(name) == ["y"])
            self.assertEqual(self.call(name, "from"), ours)

    # -- fanout

    def test_all_hear_all_and_each_loses_by_its_own_policy(self):
        for i in range(LOOPS):
            self.member(f"s{i}", "news", "fanout")
        self.member("lossy", "news", "fanout",
                    mailbox=["MaxEvents=10", "Overflow=drop-oldest"])
        self.start()
        names = [f"s{i}" for i in range(LOOPS)]
        self.joined("lossy", *names)
        c = self.bind("news", FANOUT, 1000)
        self.ctl("queue", "pause", "lossy")
        self.post("news", "e", range(300))
        want = [str(i) for i in range(300)]
        for name in names:
            wait_for(lambda: self.seen(name) == want, f"{name} has all")
        c.until(lambda: len(c.deliveries) == 300)
        self.assertEqual([first(d, 4).decode() for d in c.deliveries], want)
        self.settle(c, 300)
        self.ctl("queue", "resume", "lossy")
        wait_for(lambda: self.seen("lossy") == want[-10:])
        self.assertEqual(sum(int(n) for n in self.call(
            "lossy", "gaps").split()), 290)
        self.assertEqual(self.counters("lossy")["dropped"], 290)
        self.assertEqual(self.counters("news")["handled"], 300)
        self.balance()

    def test_a_large_payload_comes_to_all(self):
        self.member("s0", "news", "fanout")
        self.member("s1", "news", "fanout")
        self.member("w0", "jobs", "shared")
        self.start()
        self.joined("s0", "s1", "w0")
        big = b"x" * 300000
        c = self.daemon.client()
        c.post("news", "e", big)
        c.post("jobs", "e", big)
        for name in ("s0", "s1", "w0"):
            wait_for(lambda: self.call(name, "lua", "1") == "1")
            wait_for(lambda: len(self.call(name, "seen")) == len(big))

    def test_what_it_has_not_taken_may_be_moved_to_a_client(self):
        self.member("s0", "news", "fanout", mailbox=["Overflow=drop-oldest"])
        self.member("w0", "jobs", "shared")
        self.start()
        self.joined("s0", "w0")
        c = self.bind("mine", 0)
        for name, alias in (("s0", "news"), ("w0", "jobs")):
            self.ctl("queue", "pause", name)
            poster = self.post(alias, "e", ["one", "two"])
            wait_for(lambda: self.counters(name)["queued"] == 2)
            self.ctl("queue", "move", name, "mine")
            c.until(lambda: len(c.deliveries) == 2)
            self.assertEqual([(first(d, 3), first(d, 4), first(d, 10))
                              for d in c.deliveries],
                             [(b"e", w, first(poster.welcome, 4))
                              for w in (b"one", b"two")])
            c.deliveries.clear()
        self.settle(c, 4)
        wait_for(lambda: self.counters("jobs")["handled"] == 2)
        self.balance()

    def test_it_is_removed_when_it_ends_and_the_alias_with_the_last(self):
        for i in range(2):
            self.member(f"s{i}", "news", "fanout")
        self.start()
        self.joined("s0", "s1")
        self.assertEqual(self.object("status", "news")["consumers"], 2)
        self.ctl("stop", "s0")
        wait_for(lambda: self.object("status", "news")["consumers"] == 1)
        self.ctl("stop", "s1")
        wait_for(lambda: "news" not in [
            a for s in self.objects("list") for a in s.get("aliases", [])])
        self.ctl("status", "news", code=68)

    # -- files

    def of_file(self, name, *lines, mailbox=()):
        self.daemon.session(name, f"Loop={self.n % LOOPS}", *lines,
                            script=MEMBER, mailbox=mailbox)
        self.n += 1

    def binds(self, name):
        return self.object("status", name).get("binds", "")

    def test_files_say_what_their_sessions_bind(self):
        """In any order of files; a reload changes it."""
        self.of_file("a", "Bind=jobs:shared:1 news:fanout")
        self.of_file("b", "Bind=jobs:shared",
                     mailbox=("MaxEvents=2", "Overflow=drop-oldest"))
        self.daemon.session("jobs", "Kind=client", "Mode=shared", "Loop=2")
        self.start()
        wait_for(lambda: self.object("status", "jobs")["consumers"] == 2)
        self.assertEqual(self.binds("a"), "jobs:shared:1 news:fanout")
        self.assertEqual(self.binds("b"), "jobs:shared:16")
        self.assertIn(b"Binds:", self.ctl("status", "a"))
        self.post("jobs", "e", range(100))
        wait_for(lambda: self.counters("jobs")["handled"] == 100)
        parts = [self.seen("a"), self.seen("b")]
        self.assertEqual(sorted(sum(parts, []), key=int),
                         [str(i) for i in range(100)])
        self.post("jobs", "hold", range(3))
        wait_for(lambda: self.counters("jobs")["leased"] == 3)
        self.assertEqual(self.counters("a")["leased"], 1)
        for _ in range(3):
            for name in ("a", "b"):
                self.ctl("post", name, "go")
        wait_for(lambda: not self.counters("jobs")["leased"])
        self.of_file("b", "Bind=news:fanout",
                     mailbox=("MaxEvents=2", "Overflow=drop-oldest"))
        self.ctl("reload")
        wait_for(lambda: self.object("status", "news")["consumers"] == 2)
        wait_for(lambda: self.object("status", "jobs")["consumers"] == 1)
        self.assertEqual(self.binds("b"), "news:fanout")
        self.ctl("restart", "b")
        wait_for(lambda: self.object("status", "news")["consumers"] == 2)
        self.post("news", "hold", ["x"])
        for name in ("a", "b"):
            wait_for(lambda: self.counters(name)["leased"] == 1)
        self.post("news", "e", range(10))
        for name in ("a", "b"):
            self.ctl("post", name, "go", "--priority", "urgent")
        wait_for(lambda: len(self.seen("a")) > 10)
        # "go" itself may have taken the place of one
        wait_for(lambda: self.seen("b") in (["x", "8", "9"], ["x", "9"]))
        self.balance()

    def test_what_a_file_cannot_bind_is_its_failure(self):
        """... which its supervisor tries again."""
        self.of_file("alone", "Alias=jobs")
        for i in range(LOOPS):  # one of them on the loop of who has it
            self.of_file(f"m{i}", "Bind=jobs:shared", "RestartSec=10ms",
                         "RestartBurst=1")
        self.start()
        for i in range(LOOPS):
            reason = wait_for(lambda: self.object(
                "status", f"m{i}").get("reason"))
            self.assertIn("Bind=jobs in its file: the alias 'jobs' is held "
                          "by session", reason)
            wait_for(lambda: self.object(
                "status", f"m{i}")["state"] == "failed")
        self.daemon.remove("sessions.d/alone.conf")
        self.ctl("reload")
        for i in range(LOOPS):
            self.ctl("restart", f"m{i}")
        wait_for(lambda: self.object("status", "jobs")["consumers"] == LOOPS)
        self.balance()

    # -- refusals

    def test_refusals_say_why(self):
        self.member("m", "echo", None)
        self.member("taken", "jobs", "shared")
        self.start()
        self.joined("taken")
        for mode in ("shared", "fanout"):
            why = self.call("m", "join", mode)
            if why == "queued":
                wait_for(lambda: self.call("m", "joined") != "nil")
                why = self.call("m", "joined")
            self.assertIn("is held by session", why)
        ask = "select({}, eventd.bind({!r}, {{mode = {!r}}}))"
        self.assertEqual(self.call(
            "m", "lua", ask.format(2, "a b", "shared")), "invalid")
        self.assertIn("itself", self.call(
            "m", "lua", ask.format(3, "m", "fanout")))
        self.assertEqual(self.call("m", "lua", (
            "pcall(eventd.bind, 'x', {mode = 'shared', window = 0})")),
            "false")
        self.assertEqual(self.call("m", "lua", (
            "pcall(eventd.bind, 'x', {mode = 'no'})")), "false")
        self.assertEqual(self.call("m", "lua", (
            "pcall(eventd.bind, 'x', {mode = 'shared', if_taken = 'queue'})"
        )), "false")
        self.call("m", "lua", "eventd.bind('jobs', {mode = 'fanout'})")
        wait_for(lambda: "in mode shared" in self.call("m", "joined"))

    # -- plugins and executors

    @unittest.skipUnless(os.path.exists(PLUGIN), "no plugin is built")
    def test_a_plugin_does_the_same(self):
        self.daemon.configure(f"Loops={LOOPS}", "[Pool pool]", "Threads=2")
        self.daemon.session("p0", "Kind=native", f"Plugin={PLUGIN}", "Loop=0")
        self.daemon.session("p1", "Kind=native", f"Plugin={PLUGIN}", "Loop=1")
        self.start()
        probe = self.bind("probe", 0)
        r = self.daemon.client()
        for p in ("p0", "p1"):
            self.assertIn(self.call(p, "fanout", "news"), ("0", "1"))
            self.assertEqual(self.call(p, "both", "news"), "-22")
        wait_for(lambda: self.object("status", "news")["consumers"] == 2)
        r.post("news", "work", b"hi")
        probe.until(lambda: len(probe.deliveries) == 2)
        self.assertEqual([first(d, 4) for d in probe.deliveries],
                         [b"hi 1"] * 2)
        for p in ("p0", "p1"):
            self.assertEqual(self.call(p, "leave", "news"), "0")
            self.assertEqual(self.call(p, "leave", "news"), "-3")
        wait_for(lambda: self.ctl_status("news") == 68)
        self.assertIn(self.call("p0", "shared", "jobs"), ("0", "1"))
        wait_for(lambda: self.ctl_status("jobs") == 0)
        self.assertEqual(self.call("jobs", "work", "x"), "plugin")
        self.balance()

    def ctl_status(self, alias):
        return subprocess.run(self.command("status", alias),
                              stdout=subprocess.DEVNULL,
                              stderr=subprocess.DEVNULL, check=False
                              ).returncode

    def test_members_on_every_executor(self):
        for kind in ("worker", "threadpool", "leader"):
            self.member(kind, "jobs", "shared", f"Executor={kind}")
        self.member("loop", "jobs", "shared")
        self.start()
        names = ("worker", "threadpool", "leader", "loop")
        self.joined(*names)
        self.post("jobs", "e", range(400))
        wait_for(lambda: self.counters("jobs")["handled"] == 400)
        parts = [self.seen(n) for n in names]
        self.assertEqual(sorted(sum(parts, []), key=int),
                         [str(i) for i in range(400)])
        self.ctl("stop", "worker")
        self.ctl("restart", "leader")
        self.joined("leader")
        self.post("jobs", "e", range(100))
        wait_for(lambda: self.counters("jobs")["handled"] == 500)
        self.balance()


if __name__ == "__main__":
    harness.main()
