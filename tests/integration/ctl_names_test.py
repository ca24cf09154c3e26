"""eventctl wait, watch, names, and bind's --if-taken, --allow-replace and
--will, by the real daemon with two loops."""
import json
import os
import signal
import subprocess
import unittest

import ctl
import harness
from harness import fields, first

WATCHER = """
local downs = {}
return {
    watch = function(alias) return tostring(eventd.watch(alias)) end,
    _down = function(d) downs[#downs + 1] = d.alias .. " " .. d.reason end,
    downs = function() return table.concat(downs, ";") end,
}
"""


class Names(ctl.TestCase):
    def setUp(self):
        super().setUp()
        self.daemon.configure("Loops=2")
        self.daemon.session("watcher", script=WATCHER)
        self.start()
        self.running = []

    def tearDown(self):
        for process in self.running:
            if process.poll() is None:
                process.kill()
            process.communicate()
        super().tearDown()

    def run_ctl(self, *words):
        process = subprocess.Popen(
            self.command(*words), stdout=subprocess.PIPE,
            stderr=subprocess.PIPE)
        self.running.append(process)
        return process

    def bound(self, *words):
        process = self.run_ctl("bind", *words)
        self.ctl("wait", words[0])
        return process

    def ended(self, process, code=0):
        out, err = process.communicate(timeout=harness.DEADLINE)
        self.assertEqual(process.returncode, code, err)
        return out.decode()

    def test_wait(self):
        found = self.object("wait", "echo")
        self.assertEqual(found["alias"], "echo")
        self.ctl("wait", "never", "--timeout", "20ms", code=124)
        waiting = self.run_ctl("wait", "late")
        self.bound("late")
        self.assertEqual(self.ended(waiting), "")

    def test_watch_tells_why(self):
        job = self.bound("job")
        watch = self.run_ctl("--json", "watch", "job", "nobody")
        self.assertEqual(json.loads(watch.stdout.readline())["reason"],
                         "no such session")
        self.ctl("call", "watcher", "watch", "job")
        job.kill()
        down = json.loads(self.ended(watch))
        self.assertEqual((down["alias"], down["reason"]),
                         ("job", "connection lost"))
        harness.wait_for(lambda: self.ctl("call", "watcher", "downs") ==
                         b"job connection lost")
        job = self.bound("job")
        watch = self.run_ctl("watch", "job", "nobody")
        self.assertEqual(watch.stdout.readline(),
                         b"nobody no such session\n")
        job.terminate()
        self.assertEqual(self.ended(watch), "job normal\n")
        self.ctl("watch", "echo", "--timeout", "20ms", code=124)

    def test_a_failed_session_is_told(self):
        watch = self.run_ctl("--json", "watch", "echo", "nobody")
        watch.stdout.readline()
        self.ctl("post", "echo", "boom")
        down = json.loads(self.ended(watch))
        self.assertEqual(down["reason"], "failed")
        self.assertIn("kaputt", down["text"])

    def test_names(self):
        self.bound("dev/1")
        names = self.run_ctl("--json", "names", "dev/*", "--count", "3")
        first = json.loads(names.stdout.readline())
        self.assertEqual((first["alias"], first["change"]), ("dev/1", "up"))
        second = self.bound("dev/2")
        second.terminate()
        changes = [json.loads(line) for line in
                   self.ended(names).splitlines()]
        self.assertEqual([(c["alias"], c["change"]) for c in changes],
                         [("dev/2", "up"), ("dev/2", "down")])
        self.assertEqual(
            self.ctl("names", "watch*", "--count", "1")[:11], b"up   watche")

    def test_a_pattern_is_checked_and_keeps_to_itself(self):
        self.bound("dev/1.log")
        self.bound("dev/1")
        names = self.ctl("names", "dev/*.log", "--count", "1")
        self.assertEqual(names[:14], b"up   dev/1.log")
        self.assertEqual(self.ctl("names", "dev/1", "-n1")[:11],
                         b"up   dev/1 ")
        for pattern in ("", "a b", "**", "a.*.*", "a" * 65536):
            self.ctl("names", pattern, code=64)

    def test_taken(self):
        first = self.bound("job", "--allow-replace")
        self.assertIn("is held by", self.failed("bind", "job"))
        queued = self.run_ctl("bind", "job", "--if-taken", "queue", "-n1")
        taken = self.bound("other")
        self.assertIn("does not let itself", self.failed(
            "bind", "other", "--if-taken", "replace"))
        replacing = self.run_ctl(
            "bind", "job", "--if-taken", "replace", "-n1")
        self.ended(first, 73)
        self.ctl("post", "job", "one", "--wait", "handled")
        self.assertIn("one", self.ended(replacing))
        self.ctl("post", "job", "two", "--wait", "handled")
        self.assertIn("two", self.ended(queued))
        taken.send_signal(signal.SIGINT)
        self.ended(taken, 130)

    def test_a_link_takes_down(self):
        before = self.session("watcher")["restarts"]
        link = self.run_ctl("watch", "--link", "watcher")
        harness.wait_for(lambda: self.session("watcher")["links"] == 1)
        link.kill()
        harness.wait_for(lambda: "connection lost" in
                         self.session("watcher")["reason"])
        harness.wait_for(lambda: self.session("watcher")["restarts"] > before)

    def test_a_tied_session_ends_with_its_client(self):
        script = self.daemon.write("scripts/tied.lua", "return {"
                                   "done = function() eventd.exit() end}")
        words = ("spawn", "--script", script, "--alias", "tied", "--tie")
        tied = self.run_ctl(*words)
        self.ctl("wait", "tied")
        self.ctl("post", "tied", "done")
        self.assertIn("normal", self.ended(tied))
        for signal_ in (signal.SIGKILL, signal.SIGINT):
            tied = self.run_ctl(*words)
            self.ctl("wait", "tied")
            tied.send_signal(signal_)
            harness.wait_for(lambda: self.run_status("tied") == 68)

    def test_a_client_is_told_of_its_tied_sessions(self):
        script = self.daemon.write("scripts/kid.lua", "return {"
                                   "done = function() eventd.exit('bye') end}")
        client = self.daemon.client()
        made = client.request_number(30, (2, script), (4, "kid"), (6, 1))
        kid = fields(first(made, 25))[1][0]
        client.post("kid", "done")

        def changes():
            return [fields(child) for notice in client.notices
                    for child in notice.get(8, [])]
        client.until(lambda: len(changes()) == 2)
        self.assertEqual(
            [(first(c, 1), first(c, 2, b""), first(c, 3), first(c, 4, b""))
             for c in changes()],
            [(kid, b"kid", b"gained", b""), (kid, b"kid", b"lost", b"normal")])
        client.request_number(30, (2, script), (4, "kid"))  # not tied
        self.ctl("stop", "kid")
        client.request("ping")
        self.assertEqual(len(changes()), 2)

    def test_a_spawned_session_stands_in_line(self):
        script = self.daemon.write("scripts/stand.lua", "return {"
                                   "who = function() return eventd.params.n "
                                   "end}")
        def spawn(name, *more, code=0):
            self.ctl("spawn", "--script", script, "--alias", "stand",
                     "--param", "n=" + name, *more, code=code)
        who = lambda: self.ctl("call", "stand", "who")
        spawn("first", "--allow-replace")
        spawn("refused", code=73)
        spawn("queued", "--if-taken", "queue")
        self.assertEqual(who(), b"first")
        spawn("new", "--if-taken", "replace")
        self.assertEqual(who(), b"new")
        spawn("refused", "--if-taken", "replace", code=73)
        self.ctl("stop", "stand")
        self.assertEqual(who(), b"queued")
        self.ctl("spawn", self.daemon.write("x.conf", ""),
                 "--if-taken", "queue", code=64)

    def run_status(self, alias):
        status = subprocess.run(self.command("status", alias),
                                capture_output=True)
        return status.returncode

    def test_status_counts_ties(self):
        self.bound("job")
        self.ctl("call", "watcher", "watch", "job")
        self.run_ctl("watch", "watcher")
        self.run_ctl("bind", "job", "--if-taken", "queue")
        harness.wait_for(lambda: self.session("watcher")["watchers"] == 1)
        self.assertEqual(self.session("watcher")["watches"], 1)
        self.assertEqual(self.session("job")["watchers"], 1)
        self.assertEqual(self.session("job")["links"], 0)
        text = self.ctl("status", "watcher").decode()
        self.assertIn("Ties: watches 1, watched by 1",
                      " ".join(text.split()))

    def session(self, alias):
        return self.object("status", alias)

    def test_each_consumer_has_its_own_overflow(self):
        """B2: fast ones get all, slow ones what their policy leaves."""
        slow, fast = {}, {}
        for policy in ("drop-oldest", "drop-newest", "block"):
            slow[policy] = self.bound(
                policy, "--json", "--overflow", policy, "--max-events", "5",
                "--exec", "cat >%s/%s; read _ <%s/go.%s" % (
                    self.daemon.etc, policy, self.daemon.etc, policy))
            os.mkfifo("%s/go.%s" % (self.daemon.etc, policy))
            fast[policy] = self.bound("fast." + policy, "-n", "21")
        for i in range(21):
            for policy in slow:
                self.ctl("post", policy, "e", str(i), "--no-wait",
                         code=0 if policy != "block" or i < 6 else 75)
                self.ctl("post", "fast." + policy, "e", str(i))
            if not i:  # the commands are busy from now on
                harness.wait_for(lambda: all(
                    os.path.exists(self.daemon.etc + "/" + p) for p in slow))
        for process in fast.values():
            self.assertEqual(self.ended(process).split()[1::2],
                             [str(i) for i in range(21)])
        for policy, want in (("drop-oldest", [0, 16, 17, 18, 19, 20]),
                             ("drop-newest", [0, 1, 2, 3, 4, 5]),
                             ("block", [0, 1, 2, 3, 4, 5])):
            got, dropped = [], 0
            while len(got) < 6:
                with open("%s/go.%s" % (self.daemon.etc, policy), "w") as go:
                    go.write("\n")
                line = json.loads(slow[policy].stdout.readline())
                if "dropped" in line:
                    dropped += line["dropped"]
                    self.assertLess(int(line["first"]), int(line["last"]))
                    line = json.loads(slow[policy].stdout.readline())
                got.append(int(line["data"]))
            self.assertEqual(got, want, policy)
            self.assertEqual(dropped, 0 if policy == "block" else 15)
        self.ctl("bind", "x", "--overflow", "maybe", code=64)
        self.ctl("bind", "x", "--max-events", "1000000", code=75)

    def test_a_file_may_stand_by(self):
        for name, word in (("a", "refuse"), ("b", "queue"), ("c", "queue")):
            self.daemon.session(name, "Alias=job", "IfTaken=" + word,
                                script="return { who = function() "
                                "return '%s' end }" % name)
        self.ctl("reload")
        self.assertEqual(self.ctl("call", "job", "who"), b"a")
        self.ctl("stop", "job")
        first = self.ctl("call", "job", "who")
        self.ctl("stop", "job")
        self.assertEqual({first, self.ctl("call", "job", "who")},
                         {b"b", b"c"})

    def failed(self, *words):
        self.ctl(*words, code=73)
        return self.err

    def test_the_will(self):
        heir = self.bound("heir", "--raw")
        mortal = self.bound("job", "--will", "heir died with data")
        mortal.terminate()
        mortal.wait()
        mortal = self.bound("job", "--will", "heir killed with data")
        mortal.kill()
        self.assertEqual(heir.stdout.readline(), b"with data\n")
        self.ctl("bind", "x", "--will", "nothing", code=64)


if __name__ == "__main__":
    unittest.main()
