#!/usr/bin/env python3
"""eventd's command line and --check-config: what is printed and the status."""
import errno
import os
import re
import subprocess

import harness

GOOD = "[Session]\nKind=client\nAlias=jobs\n"


class CheckConfig(harness.TestCase):
    def check(self, *arguments):
        return self.daemon.run("--check-config", *arguments)

    def test_good_says_ok(self):
        self.daemon.write("sessions.d/jobs.conf", GOOD)
        done = self.check()
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertRegex(done.stdout, r"^ok: .*/eventd\.conf, 1 sessions, ")

    def test_bad_says_where_what_and_a_hint(self):
        path = self.daemon.write("sessions.d/jobs.conf",
                                 "[Session]\nKind=client\nAlais=jobs\n")
        done = self.check()
        self.assertEqual((done.returncode, done.stdout), (78, ""))
        self.assertEqual(done.stderr, f"{path}:3:1: unknown key Alais= in "
                                      "[Session]; did you mean Alias=?\n")

    def test_a_file_that_cannot_be_read_is_named(self):
        path = self.daemon.write("sessions.d/jobs.conf", GOOD)
        os.unlink(path)
        os.symlink(path, path)  # a loop: root cannot read it either
        done = self.check()
        self.assertEqual((done.returncode, done.stdout), (78, ""))
        self.assertEqual(done.stderr, f"{path}:1:1: cannot be read: "
                                      f"{os.strerror(errno.ELOOP)}\n")

    def test_every_error_is_told(self):
        self.daemon.configure("Loops=many", "Sokcet=/x")
        self.daemon.write("sessions.d/a.conf", "[Session]\nKind=perl\n")
        self.daemon.write("sessions.d/b.conf", "[Session]\nScript=x.lua\n")
        lines = self.check().stderr.splitlines()
        self.assertEqual(len(lines), 5, lines)
        for line, part in zip(lines, (
                "eventd.conf:3:7: Loops= needs a number, from 1 to 64",
                "eventd.conf:4:1: unknown key Sokcet= in [Daemon]; did you "
                "mean Socket=?",
                "a.conf:2:6: there is no kind 'perl'; there are lua, native, "
                "group, client",
                "b.conf:1:1: [Session] needs Kind=",
                "b.conf:2:8: Script=")):
            self.assertIn(part, line)

    def test_garbage_is_an_error_and_no_crash(self):
        self.daemon.write("sessions.d/a.conf", os.urandom(4096))
        self.daemon.write("sessions.d/b.conf", b"\0" * 65536)
        self.daemon.write("sessions.d/c.conf", b"[Session]\nx" * 9)
        self.daemon.write("sessions.d/d.conf", b"[" * 900000)
        done = self.check()
        self.assertEqual(done.returncode, 78)
        self.assertIn("byte 0x00 is not text", done.stderr)
        self.assertIn("at most 4096 are read", done.stderr)

    def test_a_script_with_a_syntax_error_is_no_error_of_the_file(self):
        self.daemon.session("s", script="this is no Lua")
        self.assertEqual(self.check().returncode, 0)

    def test_a_given_file_must_be_there(self):
        done = subprocess.run(
            [harness.EVENTD, "--check-config", "--config", "/nowhere/x.conf"],
            capture_output=True, text=True, timeout=harness.DEADLINE)
        self.assertEqual(done.returncode, 78)
        self.assertIn("/nowhere/x.conf: cannot be read: No such file",
                      done.stderr)


class Start(harness.TestCase):
    def test_a_wrong_configuration_is_refused(self):
        self.daemon.configure("Loops=0")
        done = self.daemon.run()
        self.assertEqual(done.returncode, 78)
        self.assertIn("eventd.conf:3:7: Loops= is out of range", done.stderr)
        self.assertFalse(os.path.exists(self.daemon.socket))


class CommandLine(harness.TestCase):
    def run_plain(self, *arguments):
        return subprocess.run([harness.EVENTD, *arguments], text=True,
                              capture_output=True, timeout=harness.DEADLINE)

    def test_version_and_help_go_to_stdout(self):
        done = self.run_plain("--version")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertRegex(done.stdout, r"^eventd \d+\.\d+\.\d+\n$")
        done = self.run_plain("--help")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        for option in ("--config", "--check-config", "--user", "--socket",
                       "--loops", "--log-level", "--foreground", "--version",
                       "--help"):
            self.assertIn(option, done.stdout)

    def test_usage_errors_exit_64_on_stderr(self):
        for arguments in (["--nonsense"], ["extra"], ["--loops", "0"],
                          ["--loops", "many"], ["--config"]):
            done = self.run_plain(*arguments)
            self.assertEqual((done.returncode, done.stdout), (64, ""),
                             arguments)
            self.assertIn("--help", done.stderr)

    def test_a_wrong_log_level_is_told(self):
        done = self.daemon.run("--log-level", "loud")
        self.assertEqual(done.returncode, 78)
        self.assertIn("error, warning, info or debug", done.stderr)


class Manual(harness.unittest.TestCase):
    """Every key of the tables is in its page, and no other."""

    def check(self, page, *sources):
        tree = os.path.join(os.path.dirname(__file__), "../..")
        keys = []
        for source in sources:
            with open(f"{tree}/daemon/{source}", encoding="utf-8") as file:
                text = file.read()
            keys += re.findall(
                r'\b(?:KEY|COUNT|SIZE|SPAN)\((?:"[A-Z]\w+",\s*)?"(\w+)",',
                text) + re.findall(r'strcmp\(key, "([A-Z]\w+)"\)', text)
            keys += re.findall(r'\bKEY_IN\("[A-Z]\w+", "(\w+)"', text)
            keys += re.findall(
                r'\[(?:RIGHT|CHARGE)_\w+\] = "([A-Z]\w+)"', text)
        with open(f"{tree}/docs/man/{page}", encoding="utf-8") as file:
            told = re.findall(r"^\.It Cm (\w+)=", file.read(), re.M)
        self.assertGreater(len(keys), 10)
        self.assertEqual(sorted(keys), sorted(told))

    def test_eventd_conf_tells_all_keys(self):
        self.check("eventd.conf.5", "config.c", "config_access.c",
                   "config_pool.c", "kernel/users.c")

    def test_eventd_session_tells_all_keys(self):
        self.check("eventd.session.5", "config_session.c",
                   "config_schedule.c")


if __name__ == "__main__":
    harness.main()
