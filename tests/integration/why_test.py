"""eventctl why: what became of an event, also across the end of the daemon."""
import os
import subprocess
import unittest

import ctl
import harness
from harness import wait_for

WORK = """
return {
    ok = function() end,
    bad = function() error("no such thing") end,
    slow = function() eventd.sleep(0.05) end,
}
"""


class Why(ctl.TestCase):
    def setUp(self):
        super().setUp()
        self.daemon.configure("[Store]",
                              f"Path={os.path.join(self.daemon.root, 's')}")

    def work(self, *mailbox):
        self.daemon.session("work", "Alias=work", "Restart=always",
                            "RestartSec=1ms", script=WORK, mailbox=mailbox)

    def post(self, alias, event, *more, code=0):
        return self.ctl("post", alias, event, "--print-id", *more,
                        code=code).decode().strip()

    def why(self, number):
        return self.objects("why", number)

    def knows(self, number, steps):
        """It is about to be read back from the store."""
        done = subprocess.run(self.command("why", number), timeout=20,
                              capture_output=True)
        return done.returncode == 0 and self.steps(number) == steps

    def steps(self, number):
        return [line["step"] + (":" + line["end"] if "end" in line else "")
                for line in self.why(number)]

    def test_a_post_that_asks_is_told_of(self):
        self.work()
        self.start()
        number = self.post("work", "ok", "--wait", "handled")
        lines = self.why(number)
        self.assertEqual([line["step"] for line in lines],
                         ["accepted", "ended"])
        self.assertEqual([line["alias"] for line in lines], ["work"] * 2)
        self.assertEqual(lines[1]["end"], "handled")
        self.assertEqual(lines[1]["session"],
                         self.object("status", "work")["id"])
        number = self.post("work", "slow", "--wait", "handled")
        lines = self.why(number)
        self.assertEqual(self.steps(number),
                         ["accepted", "delivered", "ended:handled"])
        self.assertGreaterEqual(lines[2]["took_ns"], 50_000_000)
        self.assertIn(b"handled by session", self.ctl("why", number))

    def test_a_script_has_its_post_traced(self):
        self.work()
        self.daemon.session("poster", "Alias=poster", "Loop=1", script='''
            return {post = function(event)
                local _, first = eventd.post("work", event, "",
                                             {trace = true})
                local ok, id = eventd.post("work", event, "",
                    {trace = true, wait = "handled"})
                assert(ok and not select(2, eventd.post("work", event)))
                return first .. " " .. id
            end}''')
        self.start("--loops", "2")
        for number in self.ctl("call", "poster", "post", "ok").split():
            self.assertEqual(self.steps(number.decode()),
                             ["accepted", "ended:handled"])

    def test_a_plain_post_leaves_no_trace(self):
        self.work()
        self.daemon.session("slot", "Alias=slot", "Kind=client")
        self.start()
        self.ctl("post", "slot", "e")
        number = self.object("queue", "peek", "slot")["id"]
        self.ctl("why", str(number), code=68)
        self.assertIn("nothing is known", self.err)
        self.ctl("why", "0", code=64)

    def test_a_bad_end_is_told_without_asking(self):
        self.work()
        self.start()
        self.ctl("post", "work", "bad")
        letter = wait_for(lambda: self.objects("dead", "list"), "a letter")[0]
        lines = self.why(str(letter["id"]))
        self.assertEqual([line["step"] for line in lines],
                         ["ended", "dead-letter"])
        self.assertIn("no such thing", lines[0]["text"])
        self.assertEqual(lines[1]["letter"], letter["letter"])
        self.ctl("post", "nobody", "e", code=68)
        letter = self.objects("dead", "list", "--alias", "nobody")[0]
        self.assertEqual(self.steps(str(letter["id"])),
                         ["ended:refused", "dead-letter:no-alias"])

    def test_many_posts_tell_their_ids(self):
        self.work()
        self.start()
        out = self.ctl("post", "--lines", "--print-id", "work", "ok", "-",
                       input=b"a\nb\nc\n").split()
        self.assertEqual(len(set(out)), 3)
        for number in out:
            wait_for(lambda n=number.decode(): "ended:handled" in
                     self.steps(n), "handled")

    def test_a_repetition_names_the_event_that_was_accepted(self):
        self.work()
        self.start()
        first = self.post("work", "ok", "--key", "k1")
        again = self.post("work", "ok", "--key", "k1", "--wait", "handled")
        self.assertNotEqual(first, again)
        lines = self.why(again)
        self.assertEqual([line["step"] for line in lines], ["repeated"])
        self.assertEqual(lines[0]["text"], f"as event {first}")
        self.assertIn(b"not accepted again", self.ctl("why", again))

    def test_a_client_and_its_attempts_are_told(self):
        self.daemon.session("jobs", "Alias=jobs", "Kind=client",
                            mailbox=("Durable=yes",))
        self.start()
        number = self.post("jobs", "e")
        for _ in range(2):
            with self.daemon.client() as c:
                response = c.request("bind", (1, "jobs"), (2, 1))
                self.assertEqual(harness.first(response, 2), 0)
                c.until(lambda: c.deliveries)
            wait_for(lambda: self.object("status", "jobs")["events"]["queued"],
                     "it is back")
        lines = self.why(number)
        self.assertEqual([line["step"] for line in lines],
                         ["accepted"] + ["delivered", "returned"] * 2)
        self.assertEqual([line["attempt"] for line in lines],
                         [0, 0, 1, 1, 2])
        self.assertIn("uid", lines[1]["text"])
        self.assertIn(b"delivered, attempt 2", self.ctl("why", number))

    def test_durable_history_survives(self):
        self.work("Durable=yes")
        self.daemon.session("jobs", "Alias=jobs", "Kind=client",
                            mailbox=("Durable=yes",))
        self.start("--loops", "2")
        number = self.post("work", "ok", "--wait", "handled")
        waits = self.post("jobs", "e")
        self.assertEqual(self.daemon.stop(), 0)
        self.daemon.hear()
        self.daemon.notices.clear()
        self.daemon.start("--loops", "2")
        wait_for(lambda: self.knows(number, ["accepted", "ended:handled"]),
                 "the same history")
        wait_for(lambda: self.knows(waits, ["accepted", "restored"]),
                 "it is there")

    def test_what_is_killed_knows_what_waits(self):
        self.daemon.session("jobs", "Alias=jobs", "Kind=client",
                            mailbox=("Durable=yes",))
        self.start()
        number = self.post("jobs", "e", "--wait", "durable")
        self.daemon.process.kill()
        self.daemon.wait()
        self.daemon.hear()
        self.daemon.notices.clear()
        self.daemon.start()
        wait_for(lambda: self.knows(number, ["restored"]) or
                 self.knows(number, ["accepted", "restored"]), "it is found")


if __name__ == "__main__":
    unittest.main()
