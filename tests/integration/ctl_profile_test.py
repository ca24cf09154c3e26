#!/usr/bin/env python3
"""eventctl profile: what events cost, through the real daemon on two loops."""
import ctl
import harness

WORK = """
return {
    spin = function()
        local n = 0
        for i = 1, 20000 do n = n + i end
    end,
    quick = function() end,
    ask = function() eventd.reply(eventd.call("work", "slow")) end,
    slow = function() eventd.sleep(0.05) eventd.reply("") end,
}
"""


class Profile(ctl.TestCase):
    def setUp(self):
        super().setUp()
        self.daemon.session("work", script=WORK)
        self.daemon.session("other", "Loop=1", script=WORK)
        self.start("--loops", "2")

    def rows(self, *words):
        return {(row.get("alias"), row["event"]): row
                for row in self.objects("profile", *words)}

    def work(self):
        for _ in range(20):
            self.ctl("post", "work", "spin", "--wait", "handled")
        self.ctl("post", "other", "quick", "--wait", "handled")

    def test_is_off_by_default(self):
        self.work()
        self.assertEqual(self.objects("profile"), [])
        self.ctl("profile")
        self.told("profiling is off: eventctl profile --on")

    def test_on_off_and_reset(self):
        self.assertEqual(self.ctl("profile", "--on"), b"")
        self.assertTrue(self.object("status")["profile"])
        self.work()
        rows = self.rows()
        spin, quick = rows["work", "spin"], rows["other", "quick"]
        self.assertEqual((spin["calls"], quick["calls"]), (20, 1))
        self.assertGreater(spin["exclusive_ns"], 20 * 20000)
        self.assertGreater(spin["exclusive_ns"], quick["exclusive_ns"])
        self.assertGreater(spin["wait_ns"], 0)
        self.assertGreaterEqual(spin["wait_ns"], spin["wait_max_ns"])
        self.ctl("profile", "--off")
        self.work()
        self.assertEqual(self.rows()["work", "spin"]["calls"], 20)
        self.ctl("profile", "--reset")
        self.assertEqual(self.objects("profile"), [])

    def test_the_table(self):
        self.ctl("profile", "--on")
        self.work()
        lines = self.ctl("profile").decode().splitlines()
        self.assertEqual(lines[0].split(), ["%Time", "ExclSec", "CumulS",
                                            "#Calls", "sec/call", "Csec/c",
                                            "Name"])
        shares = [float(line.split()[0]) for line in lines[1:]]
        self.assertEqual(shares, sorted(shares, reverse=True))
        self.assertAlmostEqual(sum(shares), 100, delta=1)
        spin = [line.split() for line in lines
                if line.endswith(" work:spin")]
        self.assertEqual(len(spin), 1)
        self.assertEqual(spin[0][3], "20")
        self.ctl("post", "work", "quick", "--wait", "handled")
        wide = self.ctl("profile", "--waits", "--rows", "1").decode()
        self.assertEqual(len(wide.splitlines()), 3)
        self.assertIn("wait/c  maxwait    late/c  maxlate  Name", wide)
        self.assertTrue(wide.endswith("  (other)\n"))

    def test_what_is_waited_for_is_not_exclusive(self):
        self.ctl("profile", "--on")
        self.ctl("call", "other", "ask")
        row = self.rows()["other", "ask"]
        self.assertEqual(row["calls"], 1)
        self.assertGreaterEqual(row["cumulative_ns"], 50e6)
        self.assertLess(row["exclusive_ns"], row["cumulative_ns"] / 2)

    def test_lateness_of_timers(self):
        self.ctl("profile", "--on")
        self.ctl("post", "work", "quick", "--in", "5ms")
        row = harness.wait_for(lambda: self.rows().get(("work", "quick")))
        self.assertEqual(row["late"], 1)
        self.assertEqual(row["late_ns"], row["late_max_ns"])
        self.assertGreater(row["late_ns"], 0)

    def test_one_session(self):
        self.ctl("profile", "work", "--on")
        self.work()
        self.assertEqual(self.rows("work")["work", "spin"]["calls"], 20)
        self.assertNotIn(("other", "quick"), self.rows())
        self.ctl("profile", "work", "--off")
        self.work()
        self.assertEqual(self.rows("work")["work", "spin"]["calls"], 20)
        self.ctl("profile", "nobody", code=68)

    def test_mistakes(self):
        self.ctl("profile", "--on", "--off", code=64)
        self.ctl("profile", "--rows", "0", code=64)
        self.ctl("profile", "work", "--reset", code=64)
        self.ctl("profile", "--on")
        self.ctl("profile", "work", "--off", code=64)
        self.told("all sessions are profiled")

    def test_ages_and_loops(self):
        session = self.object("status", "work")
        self.assertLess(session["age_s"], 3600)
        self.assertIn(b"Age: ", self.ctl("status", "work"))
        daemon = self.object("status")
        self.assertEqual((daemon["budget"], daemon["turn_budget"]),
                         (50, 1000))
        self.assertEqual(len(daemon["loop"]), 2)
        for loop in daemon["loop"]:
            self.assertGreater(loop["turns"], 0)
        self.assertIn(b"Budget: 50 events, 1000 a turn",
                      self.ctl("status"))


class FromTheStart(ctl.TestCase):
    def test_by_configuration(self):
        self.daemon.session("work", script=WORK)
        self.daemon.configure("Profile=yes")
        self.start()
        self.ctl("post", "work", "quick", "--wait", "handled")
        rows = {row["event"]: row for row in self.objects("profile", "work")}
        self.assertEqual(rows["quick"]["calls"], 1)
        self.assertEqual(rows["_start"]["calls"], 1)


if __name__ == "__main__":
    harness.main()
