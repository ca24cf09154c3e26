#!/usr/bin/env python3
"""eventctl bind: printing, commands, counts, signals, lost connections."""
import json
import os
import signal
import subprocess

import ctl
import harness


class Print(ctl.TestCase):
    def setUp(self):
        super().setUp()
        self.start()

    def test_a_line_for_each_event(self):
        process = self.bind("sink", "-n", "4")
        self.ctl("post", "sink", "one")
        self.ctl("post", "sink", "two", "a b")
        self.ctl("post", "sink", "three", "a\n\tb\\\x1b[2J")
        self.ctl("post", "sink", "four", "--hex", "00ff")
        self.assertEqual(self.ended(process),
                         b"one\n"
                         b"two a b\n"
                         b"three a\\n\\tb\\\\\\x1b[2J\n"
                         b"four \\x00\\xff\n")
        self.assertEqual(self.err, "")

    def test_aliases_are_told_apart(self):
        process = self.bind("a", "b", "-n", "2")
        self.held("b")
        self.ctl("post", "b", "x")
        self.ctl("post", "a", "y", "z")
        self.assertEqual(self.ended(process), b"b x\na y z\n")

    def test_raw_is_payloads_alone(self):
        process = self.bind("sink", "-n", "2", "--raw")
        self.ctl("post", "sink", "x", "--hex", "00 ff 0a")
        self.ctl("post", "sink", "x", "y")
        self.assertEqual(self.ended(process), b"\0\xff\n\ny\n")

    def test_raw_with_null_bytes(self):
        process = self.bind("sink", "-n", "2", "--raw", "--null")
        self.ctl("post", "sink", "x", "--null", input=b"a\nb\0\xff")
        self.assertEqual(self.ended(process), b"a\nb\0\xff\0")

    def test_json(self):
        process = self.bind("sink", "-n", "3", "--json")
        self.ctl("post", "sink", "one", "text", "-H", "who=me", "-H", "x=")
        self.ctl("call", "sink", "two", "--hex", "00ff")
        self.ctl("delay", "sink", "three", "--in", "1ms")
        one, two, three = map(json.loads, self.ended(process).splitlines())
        self.assertEqual((one["alias"], one["event"], one["data"]),
                         ("sink", "one", "text"))
        self.assertIsInstance(one["id"], str)
        self.assertNotIn("call", one)
        self.assertEqual([(h["name"], h["data"]) for h in one["headers"]],
                         [("who", "me"), ("x", "")])
        self.assertEqual((two["data"], two["encoding"]), ("AP8=", "base64"))
        self.assertIsInstance(two["call"], str)
        self.assertEqual(three["event"], "three")
        self.assertIsInstance(three["late_ns"], int)

    def test_each_line_shows_at_once(self):  # B128
        process = self.bind("sink")
        for n in range(3):
            self.ctl("post", "sink", "e", str(n))
            self.assertEqual(process.stdout.readline(), b"e %d\n" % n)

    def test_ends_when_nobody_reads(self):  # B128
        process = self.bind("sink")
        self.ctl("post", "sink", "e")
        process.stdout.readline()
        process.stdout.close()
        self.assertIn(process.wait(timeout=harness.DEADLINE),
                      (141, -signal.SIGPIPE))
        self.assertEqual(process.stderr.read(), b"")
        self.free("sink")

    def test_ends_with_head(self):
        process = subprocess.Popen(
            ["sh", "-c", '"$@" | head -n 1', "sh",
             *self.command("bind", "sink")], stdout=subprocess.PIPE)
        self.held("sink")
        self.ctl("post", "sink", "one")
        out, _ = process.communicate(timeout=harness.DEADLINE)
        self.assertEqual(out, b"one\n")
        self.free("sink")

    def test_many_events(self):
        lines = b"".join(b"%d\n" % n for n in range(20000))
        with open(self.daemon.root + "/out", "wb+") as out:
            process = self.bind("sink", "-n", "20000", "--raw", stdout=out)
            self.ctl("post", "sink", "e", "--lines", input=lines)
            self.ended(process)
            out.seek(0)
            self.assertEqual(out.read(), lines)

    def test_a_reader_that_does_not_read_holds_nobody_up(self):
        process = self.bind("sink", "--raw")
        self.ctl("post", "sink", "e", "-", input=bytes(200000))
        self.daemon.client().request("ping")
        process.send_signal(signal.SIGTERM)
        self.assertEqual(process.wait(timeout=harness.DEADLINE), 143)
        self.assertLess(len(process.stdout.read()), 200000)

    def test_what_it_counted_is_handled(self):
        process = self.bind("sink", "-n", "2")
        self.ctl("post", "sink", "e", "--lines", "--wait", "handled",
                 input=b"1\n2\n")
        self.assertEqual(self.ended(process), b"e 1\ne 2\n")

    def test_calls_get_an_empty_reply(self):
        self.bind("sink")
        self.assertEqual(self.ctl("call", "sink", "e"), b"")

    def test_reply_with(self):
        process = self.bind("sink", "-n", "2", "--reply-with", "-pong-")
        self.ctl("post", "sink", "a")
        self.assertEqual(self.ctl("call", "sink", "b"), b"-pong-")
        self.assertEqual(self.ended(process), b"a\nb\n")

    def test_a_large_reply(self):
        process = self.bind("sink", "-n", "1", "--exec",
                            "head -c 3000000 /dev/zero")
        self.assertEqual(self.ctl("call", "sink", "e"), bytes(3000000))
        self.ended(process)

    def test_name(self):
        self.bind("sink", "--name", "the sink")
        self.assertEqual(self.held("sink")["peer"]["name"], "the sink")

    def test_verbose_tells_what_it_has_bound(self):
        process = self.bind("a", "b", "-v", "-n", "1")
        self.held("b")
        self.ctl("post", "a", "x")
        self.ended(process)
        self.told("bound a\n", "bound b\n")

    def test_what_somebody_holds(self):
        self.bind("sink")
        self.ctl("bind", "sink", code=73)
        self.told("'sink' is held by")
        self.ctl("bind", "echo", code=73)

    def test_a_mistake_binds_nothing(self):
        self.ctl("bind", "free", "echo", code=73)
        self.free("free")


class Exec(ctl.TestCase):
    def setUp(self):
        super().setUp()
        self.start()

    def exec(self, command, *words, **popen):
        return self.bind("sink", "--exec", command, *words, **popen)

    def test_output_is_the_reply(self):
        self.exec("tr a-z A-Z")
        self.assertEqual(self.ctl("call", "sink", "e", "hello\n"), b"HELLO\n")
        self.assertEqual(self.ctl("call", "sink", "e"), b"")

    def test_binary_there_and_back(self):
        self.exec("cat")
        data = os.urandom(300000)
        self.assertEqual(self.ctl("call", "sink", "e", "-", input=data), data)

    def test_payload_may_stay_unread(self):
        self.exec("exec true")
        self.assertEqual(
            self.ctl("call", "sink", "e", "-", input=bytes(500000)), b"")

    def test_environment(self):
        self.exec('echo "$EVENTD_ALIAS $EVENTD_EVENT $EVENTD_ATTEMPT"; '
                  'test -n "$EVENTD_ID$EVENTD_FROM$EVENTD_CALL"; '
                  'echo "$EVENTD_SOCKET $LEFT"',
                  env=ctl.without("EVENTD_SOCKET", LEFT="over",
                                  EVENTD_ALIAS="wrong"))
        self.assertEqual(
            self.ctl("call", "sink", "e").decode(),
            f"sink e 0\n{self.daemon.socket} over\n")

    def test_posts_print_to_our_output(self):
        process = self.exec("cat; echo .", "-n", "2")
        self.ctl("post", "sink", "e", "one")
        self.ctl("post", "sink", "e", "two")
        self.assertEqual(self.ended(process), b"one.\ntwo.\n")

    def test_an_error_is_the_callers(self):
        process = self.exec('echo "no such thing"; exit 3', "-n", "1")
        self.ctl("call", "sink", "e", code=1)
        self.assertEqual(self.err, "eventctl: call sink: no such thing\n")
        self.ended(process)
        self.told("ended with status 3")

    def test_an_error_without_text(self):
        self.exec("kill -9 $$")
        self.ctl("call", "sink", "e", code=1)
        self.told("the command was killed by signal 9")

    def test_no_such_command(self):
        process = self.exec("/nonexistent/x", "-n", "2")
        self.ctl("post", "sink", "e")
        self.ctl("call", "sink", "e", code=1)
        self.ended(process)
        self.told("e: the command ended with status 127")

    def test_more_than_a_payload_may_hold(self):
        self.exec("yes | head -c 100000000")
        self.ctl("call", "sink", "e", code=1)

    # B25: no output is too much, no input too little read
    def test_a_command_that_prints_for_ever_ends(self):
        self.exec("yes")
        self.ctl("call", "sink", "e", code=1)
        self.told("the command printed more than a payload may hold")

    def test_a_command_prints_before_it_reads(self):  # B25
        self.exec("head -c 1000000 /dev/zero; wc -c")
        text = self.ctl("call", "sink", "e", "-", input=b"x" * 1000000)
        self.assertEqual(text[-8:], b"1000000\n")

    def test_a_command_never_reads(self):  # B25
        self.exec("echo done")
        self.assertEqual(
            self.ctl("call", "sink", "e", "-", input=b"x" * 1000000), b"done\n")

    def test_json_tells_how_it_ended(self):
        process = self.exec("cat; exit $EVENTD_EVENT", "-n", "2", "--json")
        self.ctl("post", "sink", "0", "x")
        self.ctl("post", "sink", "7", "y")
        found = [json.loads(line)
                 for line in self.ended(process).splitlines()]
        self.assertEqual([(e["data"], e["exit"], e["output"]["data"])
                          for e in found], [("x", 0, "x"), ("y", 7, "y")])

    def test_one_after_the_other(self):
        process = self.exec("echo begin; cat; echo end", "-n", "50")
        self.ctl("post", "sink", "e", "--lines",
                 input=b"".join(b"%d\n" % n for n in range(50)))
        self.assertEqual(
            self.ended(process).decode(),
            "".join(f"begin\n{n}end\n" for n in range(50)))

    def test_what_it_leaves_behind_does_not_hold_us(self):
        self.exec("sleep 100 & echo done; echo $! >$MARK",
                  env=ctl.without(MARK=self.daemon.root + "/pid"))
        self.assertEqual(self.ctl("call", "sink", "e"), b"done\n")
        with open(self.daemon.root + "/pid", encoding="ascii") as file:
            os.kill(int(file.read()), signal.SIGKILL)

    def test_it_can_use_eventctl(self):
        self.exec(f"{harness.EVENTCTL} call echo hello -")
        self.assertEqual(self.ctl("call", "sink", "e", "x"), b"x")


class End(ctl.TestCase):
    def setUp(self):
        super().setUp()
        self.start()

    def test_by_signal(self):
        for number, code in ((signal.SIGINT, 130), (signal.SIGTERM, 143),
                             (signal.SIGHUP, 129)):
            process = self.bind("sink")
            process.send_signal(number)
            self.ended(process, code)
            self.free("sink")

    def test_a_signal_that_is_ignored_stays_so(self):
        process = self.bind("sink", "-n", "1", preexec_fn=lambda: (
            signal.signal(signal.SIGHUP, signal.SIG_IGN)))
        process.send_signal(signal.SIGHUP)
        self.ctl("post", "sink", "x")
        self.assertEqual(self.ended(process), b"x\n")

    def test_what_was_printed_is_handled(self):
        process = self.bind("sink")
        self.ctl("post", "sink", "x", "--wait", "handled")
        process.send_signal(signal.SIGINT)
        self.assertEqual(self.ended(process, 130), b"x\n")

    def test_a_running_command_is_stopped_with_all_its_children(self):
        mark = self.daemon.root + "/pid"
        process = self.bind(
            "sink", "--exec", "echo $$ >$MARK.new; mv $MARK.new $MARK; "
            "sleep 100; true", env=ctl.without(MARK=mark))
        call = self.spawn("call", "sink", "e")
        harness.wait_for(lambda: os.path.exists(mark), "the command")
        with open(mark, encoding="ascii") as file:
            group = int(file.read())
        process.send_signal(signal.SIGTERM)
        self.ended(process, 143)
        self.ended(call, 69)  # not handled: the caller is told
        harness.wait_for(lambda: not group_is_there(group), "its end")

    def test_a_command_that_does_not_want_to_end(self):
        mark = self.daemon.root + "/pid"
        process = self.bind(
            "sink", "--exec", "trap '' TERM INT; echo >$MARK; "
            "while :; do sleep 0.01; done", env=ctl.without(MARK=mark))
        self.ctl("post", "sink", "e")
        harness.wait_for(lambda: os.path.exists(mark), "the command")
        process.send_signal(signal.SIGINT)
        process.send_signal(signal.SIGTERM)
        process.wait(timeout=harness.DEADLINE)
        self.assertIn(process.returncode, (130, 143))

    def test_the_daemon_is_killed(self):
        process = self.bind("sink")
        self.daemon.process.kill()
        self.daemon.process.wait()
        self.ended(process, 69)
        self.told("eventctl: bind sink: ", "--reconnect")

    def test_the_daemon_ends(self):
        process = self.bind("sink", "-v")
        self.assertEqual(self.daemon.stop(), 0)
        self.ended(process, 69)

    def test_goes_on_with_reconnect(self):
        process = self.bind("sink", "--reconnect", "-n", "2")
        self.ctl("post", "sink", "before")
        self.assertEqual(process.stdout.readline(), b"before\n")
        self.daemon.process.kill()
        self.daemon.process.wait()
        self.daemon.notices.clear()
        self.daemon.start()
        self.held("sink")
        self.ctl("post", "sink", "after")
        self.assertEqual(self.ended(process), b"after\n")
        self.told("connected again after")

    def test_a_full_disk(self):
        with open("/dev/full", "wb") as full:
            process = self.bind("sink", stdout=full)
            self.ctl("post", "sink", "x")
            process.wait(timeout=harness.DEADLINE)
        self.assertEqual(process.returncode, 74)
        self.assertIn(b"No space left", process.stderr.read())

    def test_closed_output_is_no_output(self):
        process = self.bind("sink", preexec_fn=lambda: os.close(1))
        self.ctl("post", "sink", "x")
        process.wait(timeout=harness.DEADLINE)
        self.assertEqual(process.returncode, 74)


def group_is_there(group):
    try:
        os.killpg(group, 0)
        return True
    except ProcessLookupError:
        return False


if __name__ == "__main__":
    harness.main()
