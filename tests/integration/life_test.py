#!/usr/bin/env python3
"""Start, readiness, watchdog and the end of the daemon."""
import fcntl
import os
import signal

import harness

ECHO = """
return {
    hello = function(data) eventd.reply(data) end,
}
"""

# Handles each event slowly, then tells whoever is called "sink".
SLOW = """
return {
    work = function(data)
        eventd.sleep(0.002)
        eventd.post("sink", "done", data)
        eventd.reply("worked")
    end,
}
"""

STUCK = """
return {
    spin = function() while true do end end,
}
"""


# ThreadSanitizer holds a signal back until its thread makes a call that it
# intercepts: a handler that spins makes none.
HEARS_SIGNALS = harness.unittest.skipIf(
    os.environ.get("SANITIZE") == "thread", "TSan holds signals back")


class Start(harness.TestCase):
    def test_ready_with_a_status(self):
        self.daemon.session("echo", script=ECHO)
        self.daemon.start()
        self.assertIn("STATUS=1 sessions, 0 failed", self.daemon.hear())
        self.daemon.logged("daemon.ready")
        self.assertEqual(self.daemon.client().call("echo", "hello", b"x"),
                         (0, b"x"))
        self.assertEqual(self.daemon.stop(), 0)
        self.assertIn("STOPPING=1", self.daemon.hear())
        self.daemon.logged("daemon.stopped")

    def test_sessions_are_up_before_ready(self):
        for number in range(50):
            self.daemon.session(f"s{number}", script=ECHO)
        self.daemon.start("--loops", "4")
        self.assertIn("STATUS=50 sessions, 0 failed", self.daemon.hear())
        states = self.daemon.client().states()
        self.assertEqual(len(states), 50)
        self.assertEqual({state for state, _ in states.values()}, {"up"})

    def test_no_configuration_is_no_error(self):
        self.daemon.start(command=[
            harness.EVENTD, "--user", "--socket", self.daemon.socket,
        ], environment={"XDG_CONFIG_HOME": self.daemon.root + "/none"})
        self.daemon.client().close()

    def test_a_users_instance_makes_its_directory(self):
        self.daemon.start(command=[harness.EVENTD, "--user"], environment={
            "XDG_CONFIG_HOME": self.daemon.root + "/none",
            "XDG_RUNTIME_DIR": self.daemon.root})
        harness.Client(self.daemon.root + "/eventd/eventd.sock").close()

    def test_a_script_with_a_syntax_error_fails_alone(self):
        self.daemon.session("bad", script="return {", *["Restart=no"])
        self.daemon.session("echo", script=ECHO)
        self.daemon.start()
        self.assertIn("STATUS=2 sessions, 1 failed", self.daemon.hear())
        client = self.daemon.client()
        state, reason = client.states()["bad"]
        self.assertEqual(state, "failed")
        self.assertIn("bad.lua:1:", reason)
        self.assertEqual(client.call("echo", "hello", b"x"), (0, b"x"))

    def test_a_plugin_of_another_abi_fails_alone(self):
        plugin = os.path.join(os.environ.get("EVENTD_BUILD", "build/debug"),
                              "tests/unit/kind/plugins/wrong_abi.so")
        self.daemon.session("old", "Kind=native", "Restart=no",
                            f"Plugin={plugin}")
        self.daemon.session("echo", script=ECHO)
        self.daemon.start()
        client = self.daemon.client()
        state, reason = client.states()["old"]
        self.assertEqual(state, "failed")
        self.assertRegex(reason, r"wrong_abi\.so.* ABI ")
        self.assertEqual(client.post("old", "x"), 21)  # FAILED
        self.assertEqual(client.call("echo", "hello", b"x"), (0, b"x"))

    def test_status_tells_of_a_later_failure(self):
        self.daemon.session("flaky", "Restart=no",
                            script='return {die = function() error("x") end}')
        self.daemon.start()
        self.assertIn("STATUS=1 sessions, 0 failed", self.daemon.hear())
        self.daemon.client().post("flaky", "die")
        self.daemon.told("STATUS=1 sessions, 1 failed")


class Loops(harness.TestCase):
    def test_every_loop_hosts_and_serves(self):
        for number in range(4):
            self.daemon.session(f"on{number}", f"Loop={number}", script=ECHO)
        self.daemon.configure("Loops=4")
        self.daemon.start()
        clients = [self.daemon.client() for _ in range(8)]
        for client in clients:
            for number in range(4):
                self.assertEqual(client.call(f"on{number}", "hello", b"x"),
                                 (0, b"x"))

    def test_loops_can_be_as_many_as_cpus(self):
        self.daemon.start("--loops", "auto")
        self.daemon.client().close()


class Surroundings(harness.TestCase):
    def test_standard_files_that_are_closed(self):
        self.daemon.session("echo", script=ECHO)

        def close_all():
            for number in range(3):
                os.close(number)
        # not by Popen's means, which would open them
        self.daemon.start(preexec_fn=close_all)
        self.assertEqual(self.daemon.client().call("echo", "hello", b"x"),
                         (0, b"x"))
        for number in range(3):
            self.assertEqual(os.readlink(
                f"/proc/{self.daemon.process.pid}/fd/{number}"), "/dev/null")
        self.assertEqual(self.daemon.stop(), 0)

    def test_a_log_that_nobody_reads_holds_nothing_up(self):
        self.daemon.session("talker", script="""
            return {talk = function()
                for i = 1, 1000 do eventd.log(("x"):rep(1000)) end
                eventd.reply("said")
            end}""")
        read, write = os.pipe()
        fcntl.fcntl(write, 1031, 4096)  # F_SETPIPE_SZ
        command = self.daemon.command()
        self.daemon.start(command=["sh", "-c", 'exec "$@" 2>&%d' % write, "sh",
                                   *command], pass_fds=[write])
        os.close(write)
        client = self.daemon.client()
        for _ in range(3):
            self.assertEqual(client.call("talker", "talk"), (0, b"said"))
        self.assertEqual(self.daemon.stop(), 0)
        os.close(read)

    def test_a_log_on_a_full_disk_harms_nothing(self):
        self.daemon.session("echo", script=ECHO)
        self.daemon.start(command=["sh", "-c", 'exec "$@" 2>/dev/full', "sh",
                                   *self.daemon.command()])
        self.assertEqual(self.daemon.client().call("echo", "hello", b"x"),
                         (0, b"x"))
        self.assertEqual(self.daemon.stop(), 0)

    def test_every_descriptor_is_closed_on_exec(self):  # B80
        self.daemon.configure("Loops=2")
        self.daemon.start()
        self.daemon.client()
        root = f"/proc/{self.daemon.process.pid}/fdinfo"
        numbers = [int(name) for name in os.listdir(root) if int(name) > 2]
        self.assertGreater(len(numbers), 5)
        for number in numbers:
            with open(f"{root}/{number}", encoding="ascii") as file:
                flags = int(file.read().split("flags:")[1].split()[0], 8)
            self.assertTrue(flags & os.O_CLOEXEC, number)


class Watchdog(harness.TestCase):
    def test_pings_while_all_loops_turn(self):
        self.daemon.start("--loops", "3",
                          environment={"WATCHDOG_USEC": "200000"})
        self.daemon.told("WATCHDOG=1", 5)

    def test_another_processes_watchdog_is_not_fed(self):  # B62
        self.daemon.start(environment={"WATCHDOG_USEC": "20000",
                                       "WATCHDOG_PID": "1"})
        # far longer than a watchdog of 20 ms would leave between pings
        self.daemon.client().request("ping")
        self.daemon.hangup()
        self.assertNotIn("WATCHDOG=1", self.daemon.hear())

    @HEARS_SIGNALS
    def test_a_stuck_loop_is_named_and_ends_the_pings(self):  # B62
        self.daemon.session("stuck", "Loop=1", "HandlerTimeout=0",
                            script=STUCK)
        self.daemon.start("--loops", "2",
                          environment={"WATCHDOG_USEC": "400000"})
        self.daemon.told("WATCHDOG=1", 2)
        client = self.daemon.client()
        client.post_soon("stuck", "spin")
        self.daemon.logged('loop.stuck loop=1 session="stuck"')
        pings = self.daemon.hear().count("WATCHDOG=1")
        with self.assertRaises(AssertionError):
            self.daemon_pings_again(pings)
        self.daemon.process.kill()
        self.daemon.wait()

    def daemon_pings_again(self, pings):
        harness.wait_for(
            lambda: self.daemon.hear().count("WATCHDOG=1") > pings,
            "one more ping", deadline=1)


class Stop(harness.TestCase):
    def bind(self, client, alias):
        response = client.request("bind", (1, alias), (2, 1), (3, 1000))
        self.assertEqual(harness.first(response, 2), 0)

    def test_both_signals_end_it_well(self):
        for number in (signal.SIGTERM, signal.SIGINT):
            self.daemon.notices.clear()
            self.daemon.start()
            self.daemon.process.send_signal(number)
            self.assertEqual(self.daemon.wait(), 0)

    def test_queued_events_are_handled_and_calls_answered(self):
        for loops in ("1", "3"):
            with self.subTest(loops=loops):
                self.daemon.session("slow", f"Loop={int(loops) - 1}",
                                    script=SLOW)
                self.daemon.notices.clear()
                self.daemon.start("--loops", loops)
                client = self.daemon.client()
                self.bind(client, "sink")
                last = [client.post_soon("slow", "work", str(i))
                        for i in range(100)][-1]
                client.until(lambda: client.settled(last))
                number = client.call_soon("slow", "work")
                # the call has been read once a later request is answered
                client.request("ping")
                self.daemon.process.terminate()
                client.drain()
                self.assertEqual(self.daemon.wait(), 0)
                self.assertEqual(client.replies[number], (0, b"worked"))
                done = [harness.first(e, 4, b"").decode()
                        for e in client.deliveries]
                self.assertEqual(done[:100], [str(i) for i in range(100)])
                self.assertTrue(client.notices)  # Closing

    def test_stop_timeout_bounds_the_wait(self):
        self.daemon.configure("StopTimeout=100ms")
        self.daemon.session(
            "sleeper", script="return {nap = function() eventd.sleep(3600) "
                              "end}")
        self.daemon.start()
        client = self.daemon.client()
        number = client.call_soon("sleeper", "nap")
        client.request("ping")
        self.assertEqual(self.daemon.stop(), 0)
        self.daemon.logged("daemon.undelivered events=1")
        client.drain()
        self.assertEqual(client.replies[number][0], 20)  # DIED

    # B44: whoever thought that it was kept reads which mailbox it was not in
    def test_the_log_names_what_ends_with_the_daemon(self):
        self.daemon.write("eventd.conf", "[Daemon]\nSocket="
                          f"{self.daemon.socket}\n[Store]\nPath="
                          f"{self.daemon.root}/store\n")
        self.daemon.session("waits", "Kind=client")
        self.daemon.session("mixed", "Kind=client")
        self.daemon.session("kept", "Kind=client", mailbox=["Durable=yes"])
        self.daemon.session("empty", "Kind=client")
        self.daemon.start()
        client = self.daemon.client()
        for alias in ("waits", "kept", "mixed"):
            for _ in range(3):
                self.assertEqual(client.post(alias, "tick"), 0)
        for _ in range(2):
            self.assertEqual(client.post("mixed", "tick", level=1), 0)
        self.assertEqual(self.daemon.stop(), 0)
        lost = [line for line in self.daemon.text().split("\n")
                if "mailbox.lost" in line]
        self.assertEqual(len(lost), 2, lost)
        for alias in ("waits", "mixed"):
            self.assertTrue(any(f'session="{alias}" events=3' in line
                                for line in lost), lost)

    def test_a_second_signal_does_not_wait(self):
        self.daemon.configure("StopTimeout=1h")
        self.daemon.session(
            "sleeper", script="return {nap = function() eventd.sleep(3600) "
                              "end}")
        self.daemon.start()
        self.daemon.client().post("sleeper", "nap")
        self.daemon.process.terminate()
        self.daemon.logged("daemon.stopping")
        self.daemon.process.terminate()
        self.assertEqual(self.daemon.wait(), 0)

    def test_a_handler_that_never_returns_does_not_hold_it(self):
        self.daemon.session("stuck", "Loop=1", "HandlerTimeout=0",
                            script=STUCK)
        self.daemon.start("--loops", "2")
        client = self.daemon.client()
        client.post_soon("stuck", "spin")
        client.request("ping")  # so the post has been read
        self.daemon.process.terminate()
        self.daemon.logged("daemon.stopping")
        self.daemon.process.terminate()
        self.assertEqual(self.daemon.wait(), 70)
        self.daemon.logged("daemon.stuck")

    @HEARS_SIGNALS
    def test_not_even_on_the_first_loop(self):
        self.daemon.session("stuck", "HandlerTimeout=0", script=STUCK)
        self.daemon.start()
        client = self.daemon.client()
        client.request("ping")
        client.post_soon("stuck", "spin")
        # without a service manager's watchdog a stuck loop is told, too
        self.daemon.logged('loop.stuck loop=0 session="stuck"')
        self.daemon.process.terminate()
        self.daemon.process.send_signal(signal.SIGINT)
        self.assertEqual(self.daemon.wait(), 70)
        self.daemon.logged("daemon.stuck")

    def test_what_waits_for_a_client_holds_nothing_up(self):
        self.daemon.configure("StopTimeout=1h")
        self.daemon.write("sessions.d/jobs.conf", "[Session]\nKind=client\n")
        self.daemon.start()
        self.assertEqual(self.daemon.client().post("jobs", "x"), 0)
        self.assertEqual(self.daemon.stop(), 0)

    def test_stop_handlers_run(self):
        self.daemon.session("polite", script="""
            return {
                _stop = function() eventd.post("sink", "bye") end,
            }""")
        self.daemon.start("--loops", "2")
        client = self.daemon.client()
        self.bind(client, "sink")
        self.daemon.process.terminate()
        client.drain()
        self.assertEqual(self.daemon.wait(), 0)
        self.assertEqual([e[3] for e in client.deliveries], [[b"bye"]])

    def test_clients_that_do_not_read_are_dropped(self):
        self.daemon.session("echo", script=ECHO)
        self.daemon.start()
        client = self.daemon.client()
        for _ in range(6):  # more than fits its socket
            client.call_soon("echo", "hello", b"x" * 60000)
        self.assertEqual(self.daemon.stop(), 0)

    def test_a_signal_during_the_start_is_kept(self):
        for _ in range(5):
            self.daemon.start(wait=False)
            harness.wait_for(lambda: self.is_past_exec(), "the program")
            self.daemon.process.terminate()
            self.assertIn(self.daemon.wait(), (0, -signal.SIGTERM))

    def is_past_exec(self):
        with open(f"/proc/{self.daemon.process.pid}/comm",
                  encoding="ascii") as file:
            return file.read() == "eventd\n"


if __name__ == "__main__":
    harness.main()
