#!/usr/bin/env python3
"""Reload: what changes is changed, the rest is left alone, and an error
leaves everything as it was."""
import signal
import threading

import harness

# A counter tells whether a session was started anew.
COUNTER = """
local n = 0
return {
    count = function() n = n + 1; eventd.reply(tostring(n)) end,
    word = function() eventd.reply("%s") end,
}
"""


class Reload(harness.TestCase):
    def setUp(self):
        super().setUp()
        for name in "abc":
            self.daemon.session(name, script=COUNTER % "old")

    def start(self, loops):
        self.daemon.start("--loops", loops)
        self.client = self.daemon.client()
        for name in "abc":
            self.assertEqual(self.count(name), "1")

    def count(self, alias):
        status, text = self.client.call(alias, "count")
        return text.decode() if status == 0 else status

    def word(self, alias):
        return self.client.call(alias, "word")[1].decode()

    def reload(self, *body):
        """The verb: status, text, and the four lists."""
        response = self.client.request("reload", *body)
        result = harness.fields(harness.first(response, 10, b""))
        names = [[name.decode() for name in result.get(i, [])]
                 for i in (1, 2, 3)]
        return (harness.first(response, 2),
                harness.first(response, 3, b"").decode(), *names,
                harness.first(result, 4))

    def test_only_what_changed_changes(self):
        for loops in ("1", "3"):
            with self.subTest(loops=loops):
                self.only_what_changed_changes(loops)

    def only_what_changed_changes(self, loops):
        self.daemon.notices.clear()
        for name in "abc":
            self.daemon.session(name, script=COUNTER % "old")
        self.start(loops)
        self.daemon.session("b", script=COUNTER % "new")  # the script alone
        self.daemon.remove("sessions.d/c.conf")
        self.daemon.session("d", "Alias=d1 d2", script=COUNTER % "new")
        self.daemon.hangup()
        self.assertEqual(self.count("a"), "2")  # untouched
        self.assertEqual((self.count("b"), self.word("b")), ("1", "new"))
        self.assertEqual(self.count("c"), 5)  # NO_ALIAS
        self.assertEqual((self.count("d1"), self.count("d2")), ("1", "2"))
        self.daemon.logged("reload.done added=1 changed=1 removed=1 "
                           "unchanged=1")
        self.daemon.told("STATUS=3 sessions, 0 failed")
        self.client.close()
        self.assertEqual(self.daemon.stop(), 0)
        self.daemon.remove("sessions.d/d.conf")

    def test_the_verb_tells_what_it_did(self):
        self.start("2")
        self.daemon.session("b", "Restart=no", script=COUNTER % "old")
        self.daemon.remove("sessions.d/c.conf")
        self.daemon.session("d", script=COUNTER % "new")
        self.assertEqual(self.reload((1, 1)),
                         (0, "", ["d"], ["b"], ["c"], 1))  # preview
        self.assertEqual(self.count("c"), "2")
        self.assertEqual(self.reload(), (0, "", ["d"], ["b"], ["c"], 1))
        self.assertEqual(self.reload(), (0, "", [], [], [], 3))

    def test_an_error_keeps_the_old(self):
        self.start("2")
        self.daemon.session("b", script=COUNTER % "new")
        path = self.daemon.write("sessions.d/c.conf",
                                 "[Session]\nKind=lua\nSkript=x\n")
        status, text, *lists = self.reload()
        self.assertEqual((status, lists), (15, [[], [], [], 0]))
        self.assertIn(f"{path}:3:1: unknown key Skript= in [Session]; did you "
                      "mean Script=?", text)
        self.daemon.hangup()  # READY=1 follows RELOADING=1 all the same, B61
        self.daemon.logged("reload.failed")
        for name in "abc":
            self.assertEqual(self.count(name), "2")
        self.assertEqual(self.word("b"), "old")
        self.daemon.session("c", script=COUNTER % "new")
        self.daemon.hangup()
        self.assertEqual((self.word("b"), self.word("c")), ("new", "new"))

    def test_the_manager_is_told_when_it_began(self):  # B61
        self.start("1")
        self.daemon.hangup()
        lines = self.daemon.hear()
        at = lines.index("RELOADING=1")
        self.assertRegex(lines[at + 1], r"^MONOTONIC_USEC=\d+$")
        self.assertIn("READY=1", lines[at:])

    def test_the_mailbox_is_kept(self):
        self.daemon.session("slow", script="""
            return {
                work = function()
                    eventd.sleep(3600)
                end,
            }""")
        self.start("2")
        first = self.client.post_soon("slow", "work", "0")
        last = [self.client.post_soon("slow", "work", str(i))
                for i in range(1, 20)][-1]
        self.client.until(lambda: self.client.settled(last))
        self.assertNotIn(first, self.client.failures)
        response = self.client.request("bind", (1, "sink"), (2, 1))
        self.assertEqual(harness.first(response, 2), 0)
        self.daemon.session("slow", script="""
            return {
                work = function(data) eventd.post("sink", "done", data) end,
            }""")
        self.daemon.hangup()
        self.client.until(lambda: len(self.client.deliveries) >= 19)
        self.assertEqual([e[4][0].decode() for e in self.client.deliveries],
                         [str(i) for i in range(1, 20)])

    def test_two_sessions_can_swap_aliases(self):
        for loops in ("1", "2"):
            with self.subTest(loops=loops):
                self.swap(loops)

    def swap(self, loops):
        self.daemon.notices.clear()
        last = int(loops) - 1
        self.daemon.session("a", "Alias=x", "Loop=0", script=COUNTER % "A")
        self.daemon.session("b", "Alias=y", f"Loop={last}",
                            script=COUNTER % "B")
        self.daemon.start("--loops", loops)
        self.client = self.daemon.client()
        self.assertEqual((self.word("x"), self.word("y")), ("A", "B"))
        self.daemon.session("a", "Alias=y", "Loop=0", script=COUNTER % "A")
        self.daemon.session("b", "Alias=x", f"Loop={last}",
                            script=COUNTER % "B")
        self.daemon.hangup()
        self.assertEqual((self.word("x"), self.word("y")), ("B", "A"))
        self.client.close()
        self.assertEqual(self.daemon.stop(), 0)

    def test_a_session_can_move_to_another_loop_or_kind(self):
        self.start("2")
        self.daemon.session("a", "Loop=0", script=COUNTER % "moved")
        self.daemon.hangup()
        self.daemon.session("a", "Loop=1", script=COUNTER % "moved")
        self.daemon.write("sessions.d/b.conf", "[Session]\nKind=client\n")
        self.daemon.hangup()
        self.assertEqual((self.count("a"), self.word("a")), ("1", "moved"))
        self.assertEqual(self.client.post("b", "x"), 0)

    def test_a_failed_session_is_mended(self):
        self.daemon.session("broken", "Restart=no", script="return {")
        self.start("2")
        self.assertEqual(self.client.states()["broken"][0], "failed")
        self.daemon.session("broken", "Restart=no", script=COUNTER % "well")
        self.daemon.hangup()
        self.assertEqual(self.word("broken"), "well")

    def test_an_alias_that_a_client_holds_fails_that_session(self):
        self.start("2")
        response = self.client.request("bind", (1, "mine"), (2, 1))
        self.assertEqual(harness.first(response, 2), 0)
        self.daemon.session("d", "Alias=d mine", script=COUNTER % "new")
        self.assertEqual(self.reload(), (0, "", ["d"], [], [], 3))
        state, reason = self.client.states()["d"]
        self.assertEqual(state, "failed")
        self.assertIn("'mine' is held by another session", reason)

    def test_keys_that_need_a_restart_are_named(self):
        self.start("1")
        self.daemon.configure("SocketMode=0600", "MaxPayload=2K")
        self.daemon.hangup()
        self.daemon.logged('reload.needs-restart keys="SocketMode=, MaxPayload="')

    def test_many_at_once_are_done_one_by_one(self):
        self.start("3")
        clients = [self.daemon.client() for _ in range(6)]
        statuses = []

        def ask(client):
            for _ in range(10):
                response = client.request("reload")
                statuses.append(harness.first(response, 2))

        threads = [threading.Thread(target=ask, args=(c,)) for c in clients]
        for thread in threads:
            thread.start()
        for number in range(10):
            self.daemon.session("b", f"Alias=b b{number}",
                                script=COUNTER % number)
            self.daemon.process.send_signal(signal.SIGHUP)
        for thread in threads:
            thread.join()
        self.daemon.hangup()
        # a file may be read half-written, and then is refused
        self.assertLessEqual(set(statuses), {0, 15})
        self.assertEqual(self.word("b9"), "9")
        self.assertEqual(self.count("a"), "2")

    def test_stop_during_reload_is_clean(self):
        self.start("2")
        for number in range(20):
            self.daemon.session(f"n{number}", script=COUNTER % "new")
        self.daemon.process.send_signal(signal.SIGHUP)
        self.daemon.process.terminate()
        self.assertEqual(self.daemon.wait(), 0)


class EarlyHangup(harness.TestCase):
    # B61: as a reload it is not lost, and it does not end the daemon,
    # which a service manager would take for a clean exit
    def test_a_hangup_at_the_start_is_a_reload(self):
        self.daemon.session("a", script=COUNTER % "old")
        self.daemon.start(
            wait=False, preexec_fn=lambda: signal.pthread_sigmask(
                signal.SIG_BLOCK, [signal.SIGHUP]))
        self.daemon.process.send_signal(signal.SIGHUP)
        self.daemon.told("READY=1", 2)
        self.daemon.logged("reload.done")


if __name__ == "__main__":
    harness.main()
