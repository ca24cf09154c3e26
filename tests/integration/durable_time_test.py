"""Durable delays, alarms and schedules through the daemon: what was set is
there after any end of it, and fires once."""
import os
import random
import time
import unittest

import ctl
from harness import wait_for

KEEP = """
local seen = {}
return {
    _default = function(data, ev)
        seen[#seen + 1] = ev.event .. (data ~= "" and ":" .. data or "")
            .. (ev.late > 2 and "/late" or "")
    end,
    seen = function() return table.concat(seen, " ") end,
}
"""


SETS = """
local seen = {}
local M = {}
local function word(...) return table.concat({...}, " ") end
local function text(v) return tostring(v) end
function M.set(words)
    local to, options = words:match("(%S+) (%S+)")
    local id, more = eventd.delay(3600, "rung", "x", {
        alias = to ~= "self" and to or nil, durable = true, name = "n"})
    return word(text(id), text(more))
end
function M.soon() eventd.adjust("n", 0.001) end
function M.cancel(id) return text(eventd.cancel(math.tointeger(id))) end
function M.list()
    local all = {}
    for _, t in ipairs(eventd.timers()) do
        all[#all + 1] = word(text(t.id), t.name or "-", text(t.durable))
    end
    return table.concat(all, ",")
end
function M.rung(data, ev) seen[#seen + 1] = data end
function M.seen() return table.concat(seen, " ") end
function M._start()
    if eventd.params.set then
        eventd.delay(3600, "rung", nil, {durable = true, name = "start"})
    end
end
return M
"""


class DurableTime(ctl.TestCase):
    def setUp(self):
        super().setUp()
        self.daemon.configure(
            "[Store]", f"Path={os.path.join(self.daemon.root, 'store')}")

    def keep(self, *mailbox, name="keep", **sections):
        self.daemon.session(name, f"Alias={name}", script=KEEP,
                            mailbox=mailbox, **sections)

    def slot(self, name="jobs"):
        self.daemon.session(name, f"Alias={name}", "Kind=client",
                            mailbox=("Durable=yes",))

    def crash(self, meanwhile=None):
        self.daemon.process.kill()
        self.daemon.wait()
        self.daemon.hear()
        self.daemon.notices.clear()
        if meanwhile:
            meanwhile()
        self.daemon.start()

    def seen(self, name="keep"):
        return self.ctl("call", name, "seen").decode()

    def timers(self):
        return sorted(self.objects("timers"), key=lambda t: t["timer"])

    def accounts(self):
        c = self.object("status")["events"]
        self.assertEqual(c["accepted"], sum(c[k] for k in (
            "handled", "queued", "leased", "delayed", "expired", "cancelled",
            "dropped", "dead_lettered")))
        return c

    # B46: ids, names and times are the same
    def test_a_kill_changes_no_timer(self):
        self.keep("Durable=yes")
        self.start()
        self.ctl("delay", "keep", "a", "data", "--in", "1h", "--name", "n")
        self.ctl("delay", "keep", "b", "--in", "1h", "--every", "10s",
                 "--slack", "5s", "--misfire", "all")
        self.ctl("delay", "keep", "c", "--on", "hourly", "--zone",
                 "Europe/Berlin", "--misfire", "skip")
        self.ctl("delay", "keep", "d", "--at", "2099-01-01 10:00")
        before = self.timers()
        self.assertTrue(all(t["durable"] for t in before))
        self.crash()
        after = self.timers()
        for t in before + after:  # who set it is somebody of another run
            t.pop("owner")
            t.pop("due")
        for b, a in zip(before, after):
            # what counts by another clock is told by this one
            self.assertLess(abs(b.pop("due_ns") - a.pop("due_ns")), 10 ** 8)
        self.assertEqual(before, after)
        self.assertEqual(self.accounts()["delayed"], 4)

    # B40
    def test_what_was_set_before_is_cancelled_and_changed(self):
        self.keep("Durable=yes")
        self.start()
        one = self.object("delay", "keep", "a", "--in", "1h")["timer"]
        self.ctl("delay", "keep", "b", "--in", "1h", "--name", "n")
        self.ctl("delay", "keep", "c", "--in", "1h", "--name", "m")
        self.crash()
        self.ctl("cancel", one)
        self.ctl("cancel", one, code=68)
        self.ctl("cancel", "keep", "--name", "n")
        self.ctl("adjust", "keep", "--name", "m", "--in", "2h")
        self.crash()
        left, = self.timers()
        self.assertEqual((left["name"], left["event"]), ("m", "c"))
        self.assertGreater(left["due_ns"], time.time_ns() + 7000 * 10 ** 9)
        again = self.object("delay", "keep", "d", "--in", "1ms", "--name",
                            "m")
        self.assertEqual(again["replaced"], left["timer"])
        wait_for(lambda: self.seen() == "d", "the one that replaces it")
        self.crash()
        self.assertEqual((self.seen(), self.timers()), ("", []))

    # B28
    def test_what_came_due_meanwhile_fires_at_the_start(self):
        self.keep("Durable=yes")
        self.start()
        self.ctl("delay", "keep", "later", "--in", "1h")
        self.ctl("delay", "keep", "skip", "--in", "6s", "--misfire", "skip")
        self.ctl("delay", "keep", "once", "--in", "6s")
        due = time.monotonic() + 8.5
        self.crash(lambda: wait_for(lambda: time.monotonic() > due, "then"))
        wait_for(lambda: self.seen() == "once/late", "the one that was due")
        self.assertEqual([t["event"] for t in self.timers()], ["later"])
        self.crash()
        self.assertEqual(self.seen(), "")
        self.accounts()

    def test_a_volatile_mailbox_keeps_it_if_asked_to(self):
        self.keep()
        self.start()
        self.ctl("delay", "keep", "plain", "--in", "1h")
        self.ctl("delay", "keep", "kept", "--in", "1h", "--durable")
        self.crash()
        self.assertEqual([t["event"] for t in self.timers()], ["kept"])
        self.ctl("adjust", self.timers()[0]["timer"], "--in", "1ms")
        wait_for(lambda: self.seen().startswith("kept"), "it")
        self.crash()
        self.assertEqual((self.seen(), self.timers()), ("", []))

    def test_volatile_is_by_name(self):
        self.keep("Durable=yes")
        self.start()
        self.ctl("delay", "keep", "a", "--in", "1h", "--volatile")
        self.ctl("delay", "keep", "a", "--in", "1h", "--volatile",
                 "--durable", code=64)
        self.crash()
        self.assertEqual(self.timers(), [])

    def test_without_a_store_it_is_refused(self):
        self.daemon.configure()
        self.keep()
        self.start()
        self.ctl("post", "keep", "a", "--in", "1h", "--durable", code=76)
        self.assertIn("there is no store", self.err)

    # B47
    def test_a_run_without_the_store_leaves_them(self):
        self.keep("Durable=yes")
        self.start()
        timer = self.object("delay", "keep", "old", "--in", "1h")["timer"]
        self.daemon.stop()
        self.daemon.hear()
        self.daemon.notices.clear()
        self.daemon.start("--no-store")
        self.ctl("delay", "keep", "new", "--in", "1h")
        self.ctl("delay", "keep", "new", "--in", "1h", "--durable", code=76)
        self.assertEqual([t.get("durable") for t in self.timers()], [None])
        self.crash()
        self.assertEqual([(t["timer"], t["event"]) for t in self.timers()],
                         [(timer, "old")])
        self.assertIn("store.ran-without", self.daemon.text())

    # B49: what a copy that is older has is what there is
    def test_an_older_copy_of_the_store(self):
        self.keep("Durable=yes")
        self.start()
        self.ctl("delay", "keep", "rings", "--in", "1h", "--name", "n")
        copy = os.path.join(self.daemon.root, "copy")
        self.ctl("store", "backup", copy)
        self.ctl("adjust", "keep", "--name", "n", "--in", "1ms")
        wait_for(lambda: self.seen() == "rings", "it")
        self.assertEqual(self.daemon.stop(), 0)
        store = os.path.join(self.daemon.root, "store")
        for name in os.listdir(store):
            if not name.endswith((".lock", "owner")):
                os.rename(os.path.join(store, name),
                          os.path.join(self.daemon.root, "old-" + name))
        os.rename(copy, os.path.join(store, "data.mdb"))
        self.daemon.hear()
        self.daemon.notices.clear()
        self.daemon.start()
        left, = self.timers()
        self.assertEqual(left["name"], "n")
        self.ctl("adjust", "keep", "--name", "n", "--in", "1ms")
        wait_for(lambda: self.seen() == "rings", "it, again")
        self.accounts()

    def test_names_are_one_space_on_two_loops(self):
        """What is in the store is where its mailbox is, other names are
        elsewhere."""
        for i in range(4):
            self.daemon.session(f"k{i}", f"Alias=k{i}", f"Loop={i % 2}",
                                script=KEEP, mailbox=("Durable=yes",))
        self.start("--loops", "2")
        for i in range(4):
            for how in ("--durable", "--volatile", "--durable"):
                self.ctl("delay", f"k{i}", "a", "--in", "1h", "--name", "n",
                         how)
            self.assertEqual(
                [t["durable"] for t in self.objects("timers", f"k{i}")],
                [True])
        self.daemon.process.kill()
        self.daemon.wait()
        self.daemon.hear()
        self.daemon.notices.clear()
        self.daemon.start("--loops", "2")
        self.assertEqual(len(self.timers()), 4)
        for i in range(4):
            self.ctl("cancel", f"k{i}", "--name", "n")
        self.assertEqual(self.timers(), [])

    def sets(self, *mailbox, name="sets", lines=()):
        self.daemon.session(name, f"Alias={name}", *lines, script=SETS,
                            mailbox=mailbox)

    def call(self, name, event, *data):
        return self.ctl("call", name, event, *data).decode()

    def test_a_script_sets_one_that_outlives_its_state(self):
        self.sets("Durable=yes")
        self.start()
        one, replaced = self.call("sets", "set", "self -").split()
        self.assertEqual(replaced, "false")
        two, replaced = self.call("sets", "set", "self -").split()
        self.assertEqual(replaced, "true")
        self.assertEqual(self.call("sets", "list"), f"{two} n true")
        self.ctl("restart", "sets")
        self.assertEqual(self.call("sets", "list"), f"{two} n true")
        self.crash()
        self.assertEqual(self.call("sets", "list"), f"{two} n true")
        self.assertEqual(self.call("sets", "cancel", one), "false")
        self.ctl("post", "sets", "soon")
        wait_for(lambda: self.call("sets", "seen") == "x", "it rings")
        self.crash()
        self.assertEqual(self.call("sets", "list"), "")
        two, _ = self.call("sets", "set", "self -").split()
        self.assertEqual(self.call("sets", "cancel", two), "true")

    def test_a_start_that_sets_it_again_replaces_it(self):
        self.sets("Durable=yes", "[Params]", "set=yes")
        self.start()
        for _ in range(3):
            self.crash()
            wait_for(lambda: [t["name"] for t in self.timers()] == ["start"],
                     "one timer")

    def test_a_script_sets_one_of_another_loop(self):
        self.sets(lines=("Loop=0",))
        self.keep("Durable=yes")
        self.daemon.session("keep", "Alias=keep", "Loop=1", script=KEEP,
                            mailbox=("Durable=yes",))
        self.start("--loops", "2")
        self.call("sets", "set", "keep -")
        left, = self.timers()
        self.assertEqual((left["alias"], left["name"], left["durable"]),
                         ("keep", "n", True))
        self.assertEqual(self.call("sets", "set", "nobody -").split()[:2],
                         ["nil", "no-alias"])
        self.ctl("adjust", "keep", "--name", "n", "--in", "1ms")
        wait_for(lambda: self.seen() == "rung:x", "it rings")

    def test_a_persistent_schedule_tells_what_it_missed(self):
        def schedule(text, *more):
            self.keep("Durable=yes", "[Schedule]", f"tick={text}",
                      "Persistent=yes", *more)

        def wait():
            until = time.monotonic() + 5
            wait_for(lambda: time.monotonic() > until, "some ticks")

        schedule("*:*:*")
        self.start()
        wait_for(lambda: "tick" in self.seen(), "a tick")
        self.crash(wait)
        wait_for(lambda: "tick/late" in self.seen(), "one that was missed")
        self.assertEqual(self.seen().count("tick/late"), 1)
        self.crash(lambda: (schedule("*:*:*", "Misfire=all"), wait()))
        wait_for(lambda: "tick" in self.seen(), "a tick")
        self.assertNotIn("late", self.seen())  # B31: it is another schedule
        self.crash(wait)
        wait_for(lambda: self.seen().count("tick/late") >= 2, "each")

    def test_persistent_needs_a_durable_mailbox(self):
        self.keep("[Schedule]", "tick=hourly", "Persistent=yes")
        done = self.daemon.run("--check-config")
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("Durable=yes", done.stdout + done.stderr)

    # B34: the lease begins at the delivery
    def test_each_fires_once_whatever_the_instant_of_the_kill(self):
        self.slot()
        self.start()
        wanted = set()
        dice = random.Random(7)
        for i in range(6):
            with self.daemon.client() as c:
                for k in range(20):
                    name = f"e{i}.{k}"
                    response = c.request(
                        "delay", (1, "jobs"), (2, name),
                        (5, dice.randrange(0, 60)))
                    self.assertTrue(response)
                    wanted.add(name)
                deadline = time.monotonic() + dice.random() * 0.06
                wait_for(lambda: time.monotonic() > deadline, "some moment")
            self.crash()
        self.crash()
        wait_for(lambda: self.accounts()["queued"] == len(wanted), "all")
        names = [e["event"] for e in self.objects("queue", "peek", "jobs",
                                                  "-n", "1000")]
        self.assertEqual(sorted(names), sorted(wanted))
        self.assertEqual(self.timers(), [])


if __name__ == "__main__":
    unittest.main()
