#!/usr/bin/env python3
"""Timers through the real daemon: names, changes, clocks, calendars."""
import datetime
import json
import os
import shutil
import signal
import threading
import time

import ctl
import harness

TICKS = """
local ticks = {}
return {
    _start = function() eventd.schedule("*:*:*", "own", "", {name = "own"}) end,
    tick = function(data, ev) ticks[#ticks + 1] = data end,
    own = function() end,
    boot = function() ticks[#ticks + 1] = "booted" end,
    get = function() eventd.reply(table.concat(ticks, " ")) end,
    crash = function() error("on purpose") end,
}
"""


class TestCase(ctl.TestCase):
    def setUp(self):
        super().setUp()
        self.daemon.configure("Loops=2")
        self.daemon.session("ticks", script=TICKS)
        self.start()

    def ticks(self):
        return self.ctl("call", "ticks", "get").decode().split()

    def wait_for_ticks(self, *expected):
        harness.wait_for(lambda: self.ticks() == list(expected),
                         f"the ticks {expected}")

    def timers(self, name):
        return [t for t in self.objects("timers") if t.get("name") == name]


class Names(TestCase):
    def test_a_name_replaces(self):
        first = self.object("delay", "ticks", "tick", "1", "--in", "1h",
                            "--name", "n")
        self.assertNotIn("replaced", first)
        second = self.object("delay", "ticks", "tick", "2", "--in", "10ms",
                             "--name", "n")
        self.assertEqual(second["replaced"], first["timer"])
        self.wait_for_ticks("2")

    def test_another_client_cancels_by_name(self):  # B40
        self.ctl("delay", "ticks", "tick", "x", "--in", "1h", "--name", "n")
        out = self.object("cancel", "ticks", "--name", "n")
        self.assertEqual(
            out, {"alias": "ticks", "name": "n", "cancelled": True})
        self.ctl("cancel", "ticks", "--name", "n", code=68)
        self.told("it was cancelled")
        self.ctl("delay", "ticks", "tick", "x", "--in", "1ms", "--name", "n")
        self.wait_for_ticks("x")
        self.ctl("cancel", "ticks", "--name", "n", code=68)
        self.told(": it has fired (")
        self.ctl("adjust", "ticks", "--name", "n", "--in", "1h", code=68)
        self.told(": it has fired (")
        self.ctl("cancel", "ticks", "--name", "none", code=68)
        self.told("it has fired, was cancelled, or never was")

    def test_who_comes_too_late_is_told_why(self):  # B40
        stays = self.object("delay", "ticks", "tick", "--in", "1h")
        fires = self.object("delay", "ticks", "tick", "f", "--in", "1ms")
        self.wait_for_ticks("f")
        self.ctl("cancel", fires["timer"], code=68)
        self.told(": it has fired (")
        gone = self.object("delay", "ticks", "tick", "--in", "1h")
        self.ctl("cancel", gone["timer"])
        self.ctl("cancel", gone["timer"], code=68)
        self.told("it was cancelled")
        self.ctl("cancel", str(int(stays["timer"]) + (1 << 40)), code=68)
        self.told("there has been none")

    def test_many_clients_replace_each_other(self):
        for i in range(30):
            self.ctl("delay", "ticks", "tick", str(i), "--in", "1h",
                     "--name", "n")
        self.assertEqual(len(self.timers("n")), 1)

    def test_the_timers_of_a_session_have_names_for_others(self):
        self.assertEqual(len(self.timers("own")), 1)
        self.ctl("cancel", "ticks", "--name", "own")
        self.assertEqual(self.timers("own"), [])

    def test_all(self):
        for _ in range(5):
            self.ctl("delay", "ticks", "tick", "--in", "1h")
        self.ctl("delay", "echo", "hello", "--in", "1h")
        self.assertEqual(self.object("cancel", "ticks", "--all"),
                         {"alias": "ticks", "cancelled": 6})
        self.assertEqual([t["alias"] for t in self.objects("timers")],
                         ["echo"])

    def test_wrong_use(self):
        self.ctl("cancel", "ticks", code=64)
        self.told("--name or --all")
        self.ctl("cancel", "ticks", "echo", "--name", "n", code=64)
        self.ctl("cancel", "ticks", "--name", "n", "--all", code=64)
        self.ctl("cancel", "ticks", "--name", "a b", code=64)
        self.ctl("delay", "ticks", "tick", "--in", "1s", "--name", "a b",
                 code=64)
        self.told("a timer's name")


class Adjust(TestCase):
    def test_by_id_and_by_name(self):
        timer = self.object("delay", "ticks", "tick", "a", "--in", "1h",
                            "--name", "n")["timer"]
        changed = self.object("adjust", timer, "--in", "2h")
        self.assertEqual(changed["timer"], timer)
        left = changed["due_ns"] - time.time_ns()
        self.assertTrue(7100e9 < left <= 7200e9, left)
        self.ctl("adjust", "ticks", "--name", "n", "--in", "1ms")
        self.wait_for_ticks("a")
        self.ctl("adjust", timer, "--in", "1ms", code=68)
        self.ctl("adjust", "ticks", "--name", "n", "--in", "1ms", code=68)

    def test_repetition(self):
        timer = self.object("delay", "ticks", "tick", "a", "--in",
                            "1h")["timer"]
        self.ctl("adjust", timer, "--in", "1ms", "--every", "5ms")
        harness.wait_for(lambda: len(self.ticks()) > 3, "repetition")
        self.ctl("adjust", timer, "--every", "0", "--in", "1h")
        count = len(self.ticks())
        self.assertEqual(len(self.ticks()), count)
        self.ctl("adjust", "ticks", "--name", "own", "--every", "1s", code=64)
        self.told("repeats by its calendar")

    def test_wrong_use(self):
        self.ctl("adjust", "1", code=64)
        self.ctl("adjust", "1", "--in", "1s", "--at", "@1", code=64)
        self.ctl("adjust", "ticks", "--in", "1s", code=64)
        self.told("is not the id of a timer")


class Calendars(TestCase):
    def test_a_delay_by_calendar(self):
        self.ctl("delay", "ticks", "tick", "c", "--on", "*:*:*", "--zone",
                 "Europe/Berlin", "--misfire", "skip", "--name", "cal",
                 "--slack", "5ms")
        harness.wait_for(lambda: len(self.ticks()) >= 2, "two seconds")
        timer, = self.timers("cal")
        self.assertEqual(timer["calendar"], "*:*:*")
        self.assertEqual(timer["zone"], "Europe/Berlin")
        self.assertEqual(timer["misfire"], "skip")
        self.assertEqual(timer["clock"], "wall")
        self.assertEqual(timer["slack_ms"], 5)
        self.assertIn("*:*:*", self.ctl("timers").decode())

    def test_the_event_tells_when_it_was_due(self):
        process = self.bind("sink", "--json", "--count", "1")
        self.held("sink")
        made = self.object("delay", "sink", "e", "--in", "20ms", "--clock",
                           "boottime")
        out, _ = process.communicate(timeout=harness.DEADLINE)
        event = json.loads(out)
        self.assertLess(abs(event["due_ns"] - made["due_ns"]), 50e6)

    def test_wrong_use(self):
        for words, part in [
                (["--on", "25:00"], "hour is from 0 to 23"),
                (["--on", "daily", "--zone", "No/Where"], "No/Where"),
                (["--on", "2020-01-01"], "no time to come"),
                (["--on", "daily", "--every", "1s"], "how it repeats"),
                (["--on", "daily", "--in", "1s"], "one of these alone"),
                (["--in", "1s", "--zone", "UTC"], "goes with --on"),
                (["--on", "daily", "--misfire", "maybe"], "maybe"),
                (["--in", "1s", "--clock", "sun"], "sun"),
                (["--at", "@9000000000", "--clock", "boottime"], "--in")]:
            self.ctl("delay", "ticks", "tick", *words, code=64)
            self.told(part)

    def test_next_times(self):
        times = self.objects("calendar", "30 2 * * *", "--zone",
                             "Europe/Berlin", "--count", "3", "--after",
                             "2026-03-28T00:00:00Z")
        self.assertEqual(
            [t["at"] for t in times],
            ["2026-03-28T01:30:00Z", "2026-03-29T01:00:00Z",
             "2026-03-30T00:30:00Z"])
        self.assertEqual([t["offset_s"] for t in times], [3600, 7200, 7200])
        text = self.ctl("calendar", "Mon *-*-* 9:00 UTC").decode()
        self.assertEqual(text.count("Mon "), 5)
        self.assertIn("zone UTC", text)
        self.ctl("calendar", "nonsense", code=64)
        self.ctl("calendar", "*-02-30", "-v")
        self.told("no time to come")


class Posts(TestCase):
    """A post that is due later has the words of a delay."""

    def test_all_words(self):
        made = self.object("post", "ticks", "tick", "p", "--on", "*:*:*",
                           "--zone", "Asia/Tokyo", "--misfire", "all",
                           "--slack", "5ms", "--name", "cal")
        harness.wait_for(lambda: len(self.ticks()) >= 2, "two seconds")
        timer, = self.timers("cal")
        self.assertEqual(timer["timer"], made["timer"])
        self.assertEqual(timer["zone"], "Asia/Tokyo")
        self.assertEqual(timer["misfire"], "all")
        self.assertEqual(timer["slack_ms"], 5)
        self.object("post", "ticks", "tick", "--in", "1h", "--clock",
                    "boottime", "--name", "cal")
        self.assertEqual(self.timers("cal")[0]["clock"], "boottime")

    def test_wrong_use(self):
        for words, part in [
                (["--name", "n"], "say when"),
                (["--slack", "1s"], "say when"),
                (["--in", "1s", "--zone", "UTC"], "goes with --on"),
                (["--on", "daily", "--key", "k"], "no --key"),
                (["--on", "daily", "--wait", "handled"], "--wait")]:
            self.ctl("post", "ticks", "tick", *words, code=64)
            self.told(part)


class Zones(ctl.TestCase):
    def setUp(self):
        super().setUp()
        self.zones = os.path.join(self.daemon.root, "zones")
        os.makedirs(os.path.join(self.zones, "Test"))
        self.write_zone("Asia/Tokyo")
        self.daemon.configure("Loops=2")
        self.daemon.session("ticks", script=TICKS)
        self.daemon.session("echo", script=ctl.ECHO)
        self.daemon.start(environment={"TZDIR": self.zones})

    def write_zone(self, name):
        shutil.copy("/usr/share/zoneinfo/" + name,
                    os.path.join(self.zones, "Test", "Land"))

    def due(self):
        return {t["event"]: t["due"] for t in self.objects("timers", "ticks")
                if t.get("zone") == "Test/Land"}

    def test_a_reload_sees_changed_rules(self):  # B31
        self.daemon.write(
            "sessions.d/ticks.conf",
            "[Session]\nAlias=ticks\nKind=lua\nScript=../scripts/ticks.lua\n"
            "[Schedule]\nboot=12:00\nZone=Test/Land\n")
        self.ctl("reload")
        self.ctl("post", "ticks", "tick", "--on", "12:00", "--zone",
                 "Test/Land")
        self.assertEqual({d[11:19] for d in self.due().values()},
                         {"03:00:00"})
        self.write_zone("Asia/Kolkata")
        self.ctl("reload", "--preview")
        self.assertEqual({d[11:19] for d in self.due().values()},
                         {"03:00:00"})
        self.ctl("reload")
        self.assertEqual(set(self.due()), {"boot", "tick"})
        self.assertEqual({d[11:19] for d in self.due().values()},
                         {"06:30:00"})
        self.ctl("restart", "ticks")
        harness.wait_for(lambda: self.due().get("boot", "")[11:19] ==
                         "06:30:00", "the schedule by the new rules")
        self.assertEqual(self.ctl("call", "ticks", "get"), b"")


SWARM = """
local fired = {}
return {
    set = function(data)
        for i = 1, tonumber(data) do
            eventd.delay(math.random() * 0.5, "tick", tostring(i))
        end
    end,
    tick = function(data) fired[#fired + 1] = data end,
    fired = function() eventd.reply(tostring(#fired)) end,
    list = function() eventd.reply(table.concat(fired, " ")) end,
}
"""


class Swarm(ctl.TestCase):
    def setUp(self):
        super().setUp()
        self.daemon.configure("Loops=2")
        self.daemon.session("swarm", script=SWARM)
        self.start()

    def fired(self):
        return int(self.ctl("call", "swarm", "fired"))

    def lateness(self):
        return self.object("status")["lateness"]

    def test_lateness_is_told(self):  # B41
        self.assertEqual(self.lateness()["late_count"], 0)
        self.ctl("post", "swarm", "set", "5000")
        harness.wait_for(lambda: self.fired() == 5000, "all of the swarm")
        late = self.lateness()
        self.assertEqual(late["late_count"], 5000)
        self.assertEqual(sum(b["count"] for b in late["buckets"]), 5000)
        bounds = [b["below_ns"] for b in late["buckets"]]
        self.assertEqual(bounds, sorted(set(bounds)))
        self.assertGreater(bounds[-1], late["late_max_ns"])
        self.assertLessEqual(late["late_p50_ns"], late["late_p99_ns"])
        self.assertLessEqual(late["late_p99_ns"], late["late_max_ns"])
        loops = self.object("status")["loop"]
        self.assertEqual(sum(l["late_count"] for l in loops), 5000)
        self.assertIn("5000 delays", self.ctl("status").decode())

    def test_stopped_and_continued_it_loses_none(self):  # B35
        self.ctl("post", "swarm", "set", "2000")
        for _ in range(40):
            self.daemon.process.send_signal(signal.SIGSTOP)
            time.sleep(0.01)
            self.daemon.process.send_signal(signal.SIGCONT)
            time.sleep(0.01)
        harness.wait_for(lambda: self.fired() == 2000, "all of the swarm")
        fired = self.ctl("call", "swarm", "list").decode().split()
        self.assertEqual(sorted(map(int, fired)), list(range(1, 2001)))
        self.assertIsNone(self.daemon.process.poll())

    def test_each_has_fired_or_was_cancelled(self):  # B40
        self.ctl("post", "swarm", "set", "3000", "--wait", "handled")
        ids = [int(t["timer"]) for t in self.objects("timers", "swarm")]
        results = []

        def cancel(client, mine):
            results.append(sum(
                harness.first(client.request(
                    "cancel", (1, timer)), 2) == 0
                for timer in mine))

        clients = [self.daemon.client() for _ in range(4)]
        threads = [threading.Thread(target=cancel, args=(c, ids[i // 2::2]))
                   for i, c in enumerate(clients)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        harness.wait_for(
            lambda: not self.objects("timers", "swarm"), "the end of all")
        harness.wait_for(lambda: self.fired() + sum(results) == 3000,
                         "each timer once")


class Schedule(TestCase):
    def schedule(self, *lines):
        self.daemon.write(
            "sessions.d/sched.conf",
            "[Session]\nKind=lua\nScript=../scripts/ticks.lua\n[Schedule]\n" +
            "".join(f"{line}\n" for line in lines))

    def due(self):
        return {t["event"]: t for t in self.objects("timers", "sched")
                if t["event"] != "own"}

    def test_a_schedule_fires_and_survives_crashes(self):
        self.schedule("boot=*:*:*", "Zone=UTC")
        self.ctl("reload")
        get = lambda: self.ctl("call", "sched", "get").decode().split()
        harness.wait_for(lambda: "booted" in get(), "a scheduled event")
        self.ctl("post", "sched", "crash")
        harness.wait_for(get, "another after the restart")
        self.assertEqual(self.due()["boot"]["name"], "boot")

    def test_a_reload_fires_nothing(self):  # B31
        now = datetime.datetime.now(datetime.timezone.utc)
        hour = (now.hour + 12) % 24
        self.schedule(f"boot={hour:02}:00", "Zone=UTC", "tick=yearly")
        self.ctl("reload")
        before = self.due()
        self.schedule(f"boot={(hour + 1) % 24:02}:00", "Zone=UTC",
                      "Misfire=all")
        self.ctl("reload")
        after = self.due()
        self.assertEqual(set(after), {"boot"})
        self.assertEqual(after["boot"]["misfire"], "all")
        self.assertNotEqual(before["boot"]["due"], after["boot"]["due"])
        self.assertEqual(self.ctl("call", "sched", "get"), b"")

    def test_a_wrong_schedule_is_refused(self):
        self.schedule("boot=25:00")
        self.ctl("reload", code=78)
        self.told("sched.conf:5:6", "25:00")


if __name__ == "__main__":
    harness.main()
