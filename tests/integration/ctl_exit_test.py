#!/usr/bin/env python3
"""eventctl: every exit status, and what it says then."""
import os
import pwd
import shutil
import signal
import socket
import unittest

import ctl
import harness

# Takes one event and does not come to an end with it.
STUCK = """
return {
    e = function(data) eventd.sleep(1000) end,
}
"""


class Exit(ctl.TestCase):
    """In the order of the table."""

    def test_0(self):
        self.start()
        self.ctl("post", "echo", "silent")

    def test_1_the_handlers_error(self):
        self.start()
        self.bind("sink", "--exec", "echo out of paper; exit 1")
        self.ctl("call", "sink", "print", code=1)
        self.assertEqual(self.err, "eventctl: call sink: out of paper\n")
        error = self.object("call", "sink", "print", code=1)["error"]
        self.assertEqual((error["status"], error["code"], error["text"]),
                         ("handler-error", 1, "out of paper"))

    def test_64_usage(self):
        self.start()
        self.ctl("post", "a b", "e", code=64)
        self.ctl("post", "x" * 256, "e", code=64)
        self.ctl("post", "a", "y" * 128, code=64)
        self.ctl("frobnicate", code=64)
        self.ctl("list", "--socket", "/" + "x" * 108, code=64)  # B67
        self.assertEqual(self.ctl(code=64), b"")

    def test_65_data(self):
        self.start()
        self.ctl("post", "echo", "e", "--hex", "xyz", code=65)
        self.ctl("post", "echo", "e", "a:=[", code=65)

    def test_66_input(self):
        self.start()
        self.ctl("post", "echo", "e", "--file", "/nonexistent", code=66)
        self.ctl("post", "echo", "e", "--file", "/", code=66)
        self.ctl("post", "echo", "e", "-", code=66,
                 preexec_fn=lambda: os.close(0))

    def test_68_no_alias(self):
        self.start()
        for words in (("post", "nobody", "e"), ("call", "nobody", "e"),
                      ("status", "nobody"), ("restart", "nobody")):
            self.ctl(*words, code=68)
            self.told("nobody", "eventctl list")

    def test_68_no_timer(self):
        self.start()
        self.ctl("cancel", "1", code=68)

    def test_69_no_daemon(self):
        for verb in (("list",), ("post", "a", "e"), ("call", "a", "e"),
                     ("bind", "a"), ("ping",), ("version",), ("reload",)):
            self.ctl(*verb, code=69)
            self.told(self.daemon.socket)
            self.assertEqual(self.err.count("\n"), 1)

    def test_69_the_socket_of_one_that_has_died(self):
        listener = socket.socket(socket.AF_UNIX)
        listener.bind(self.daemon.socket)
        listener.close()
        self.ctl("list", code=69)
        self.told(self.daemon.socket)

    def test_69_the_receiver_dies(self):
        self.start()
        process = self.bind("sink", "--exec", "echo >$MARK; sleep 100",
                            env=ctl.without(MARK=self.daemon.root + "/mark"))
        call = self.spawn("call", "sink", "e")
        harness.wait_for(lambda: os.path.exists(self.daemon.root + "/mark"))
        process.send_signal(signal.SIGTERM)
        self.ended(call, 69)

    def test_69_the_daemon_dies(self):
        self.start()
        call = self.spawn("call", "echo", "sleep", "1000")
        post = self.spawn("post", "echo", "silent", "--lines",
                          stdin=-1)
        post.stdin.write(b"x\n")
        post.stdin.flush()
        harness.wait_for(
            lambda: self.held("echo")["events"]["accepted"] == 2)
        self.daemon.process.kill()
        self.daemon.process.wait()
        self.ended(call, 69)
        post.wait(timeout=harness.DEADLINE)
        self.assertEqual(post.returncode, 69)

    def test_73_alias_taken(self):
        self.start()
        self.ctl("bind", "echo", code=73)

    def test_74_output(self):
        self.start()
        with open("/dev/full", "wb") as full:
            self.ctl("list", code=74, stdout=full)
            self.told("No space left on device")
            self.ctl("list", "--json", code=74, stdout=full)
            self.ctl("call", "echo", "hello", "x", code=74, stdout=full)
            self.ctl("help", code=74, stdout=full)

    def test_75_full(self):
        self.daemon.session("stuck", script=STUCK, mailbox=("MaxEvents=2",))
        self.start()
        client = self.daemon.client()
        while client.post("stuck", "e", flags=1) == 0:
            pass
        self.ctl("post", "stuck", "e", "--no-wait", code=75)
        self.told("eventctl: post stuck: ", "2")
        self.assertEqual(
            self.object("post", "stuck", "e", "--no-wait",
                        code=75)["error"]["status"], "full")
        self.ctl("post", "stuck", "e", "--timeout", "50ms", code=124)
        self.ctl("post", "stuck", "e", "--lines", "--no-wait", code=75,
                 input=b"a\nb\nc\n")
        self.told("event 1: ")

    def test_76_not_our_protocol(self):
        listener = socket.socket(socket.AF_UNIX)
        listener.bind(self.daemon.socket)
        listener.listen()
        process = self.spawn("list")
        peer, _ = listener.accept()
        peer.send(b"\x03\xff\xff\xff")
        self.ended(process, 76)
        self.told(self.daemon.socket)
        peer.close()
        listener.close()

    def test_76_unsupported(self):
        self.start()
        self.ctl("post", "echo", "silent", "--wait", "durable", code=76)

    @unittest.skipIf(os.geteuid() != 0, "needs root to be somebody else")
    def test_77_no_right_to_the_socket(self):
        self.start()
        nobody = pwd.getpwnam("nobody")
        # the build tree may lie where nobody may look, in /root say
        program = shutil.copy(harness.EVENTCTL, self.daemon.root)
        shutil.copy(os.path.dirname(harness.EVENTCTL) + "/../libevd.so.0",
                    self.daemon.root)
        env = {**os.environ, "LD_LIBRARY_PATH": self.daemon.root}
        os.chmod(self.daemon.root, 0o755)
        os.chmod(self.daemon.socket, 0o600)

        def become():
            os.setgroups([])
            os.setgid(nobody.pw_gid)
            os.setuid(nobody.pw_uid)
        saved, harness.EVENTCTL = harness.EVENTCTL, program
        try:
            self.ctl("list", code=77, preexec_fn=become, env=env)
            self.told(self.daemon.socket, "only its owner")
        finally:
            harness.EVENTCTL = saved

    def test_78_configuration(self):
        self.start()
        self.daemon.write("sessions.d/echo.conf", "[Session]\nKind\n")
        self.ctl("reload", code=78)
        self.told("echo.conf:2", "the old")

    def test_124_timeout(self):
        self.start()
        self.ctl("call", "echo", "sleep", "1000", "--timeout", "10ms",
                 code=124)

    def test_124_a_daemon_that_is_mute(self):
        listener = socket.socket(socket.AF_UNIX)
        listener.bind(self.daemon.socket)
        listener.listen()
        self.ctl("ping", "--timeout", "10ms", code=124)
        listener.close()

    def test_130_143_signals(self):
        self.start()
        for number in (signal.SIGINT, signal.SIGTERM):
            process = self.bind("sink")
            process.send_signal(number)
            self.ended(process, 128 + number)
            self.free("sink")

    def test_141_nobody_reads(self):
        self.start()
        process = self.bind("sink")
        process.stdout.close()
        self.assertIn(process.wait(timeout=harness.DEADLINE),
                      (141, -signal.SIGPIPE))

    def test_141_if_the_signal_is_ignored(self):
        self.start()
        process = self.spawn("ping", "-n", "1000", "--interval", "1ms",
                             preexec_fn=lambda: signal.signal(
                                 signal.SIGPIPE, signal.SIG_IGN))
        process.stdout.close()
        self.assertEqual(process.wait(timeout=harness.DEADLINE), 141)
        self.assertEqual(process.stderr.read(), b"")


class Hostile(ctl.TestCase):
    """Daemons that answer nonsense."""

    def answer(self, *parts, times=1):
        """A listener that greets, and answers requests with these fields."""
        listener = socket.socket(socket.AF_UNIX)
        listener.settimeout(harness.DEADLINE)
        listener.bind(self.daemon.socket)
        listener.listen()
        self.addCleanup(listener.close)
        process = self.spawn("list", "--timeout", "5s")
        peer, _ = listener.accept()
        peer.settimeout(harness.DEADLINE)
        self.addCleanup(peer.close)
        self.request(peer)
        welcome = harness.message((1, 1), (2, "eventd 0.1.0"), (4, 1),
                                  (5, 1 << 20), (6, 1 << 19), (7, 100),
                                  (8, 1 << 20), (9, 100))
        self.send(peer, (6, welcome))
        for _ in range(times):
            number = self.request(peer)
            self.send(peer, (8, harness.message((1, number), *parts)))
        return process, peer

    @staticmethod
    def send(peer, *parts):
        body = harness.message(*parts)
        peer.sendall(harness.varint(len(body)) + body)

    @staticmethod
    def request(peer):
        """Reads a frame of less than 128 bytes; the id of its request."""
        size = peer.recv(1)[0]
        frame = harness.fields(peer.recv(size, socket.MSG_WAITALL))
        request = harness.fields(harness.first(frame, 7, b""))
        return harness.first(request, 1)

    def test_pages_without_end(self):
        process, _ = self.answer((7, harness.message((2, 5))), times=2)
        self.ended(process, 76)
        self.told("do not come to an end")

    def test_an_answer_without_what_was_asked(self):
        process, _ = self.answer((2, 0))
        self.ended(process, 76)

    def test_an_unknown_status(self):
        process, _ = self.answer((2, 9999), (3, "what?"))
        self.ended(process, 70)
        self.told("what?")

    def test_names_of_sessions_cannot_command_the_terminal(self):
        info = harness.message((1, 7), (2, "a\x1b[2J"), (3, "k\x07"),
                               (4, "up"), (19, "/x\n/y"))
        process, _ = self.answer((7, harness.message((1, info))))
        out = self.ended(process)
        self.assertNotIn(b"\x1b", out)
        self.assertIn(b"a\\x1b[2J", out)
        self.assertIn(b"/x\\n/y", out)

    def test_it_hangs_up(self):
        process, peer = self.answer(times=0)
        peer.close()
        self.ended(process, 69)


if __name__ == "__main__":
    harness.main()
