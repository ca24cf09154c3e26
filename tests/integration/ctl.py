"""What the tests of eventctl share: a daemon with some sessions, and eventctl.

Not a test itself. Every program is given a deadline, nothing sleeps.
"""
import json
import os
import signal
import subprocess

import harness

ECHO = """
return {
    hello = function(data) eventd.reply(data) end,
    empty = function() eventd.reply("") end,
    silent = function() end,
    binary = function() eventd.reply("\\0\\255\\27[2J\\n") end,
    size = function(data) eventd.reply(tostring(#data)) end,
    boom = function() error("kaputt") end,
    sleep = function(data)
        eventd.sleep(tonumber(data))
        eventd.reply("awake")
    end,
    headers = function(data, event) eventd.reply("x") end,
}
"""


class TestCase(harness.TestCase):
    """self.ctl() runs eventctl on self.daemon, which has the session echo."""

    def start(self, *arguments):
        self.daemon.session("echo", script=ECHO)
        self.daemon.start(*arguments)

    def command(self, *words):
        return [harness.EVENTCTL, "--socket", self.daemon.socket, *words]

    def ctl(self, *words, code=0, input=b"", **popen):
        """Runs to the end, with that exit status; what it printed. What it
        told on stderr is self.err."""
        done = subprocess.run(
            self.command(*words), input=input, timeout=harness.DEADLINE,
            stdout=popen.pop("stdout", subprocess.PIPE),
            stderr=subprocess.PIPE, **popen)
        self.err = done.stderr.decode()
        self.assertEqual(done.returncode, code, (words, self.err, done.stdout))
        return done.stdout

    def objects(self, *words, **more):
        """The JSON objects that it printed, each checked by jq as well."""
        out = self.ctl("--json", *words, **more)
        if out:
            subprocess.run(["jq", "-e", "."], input=out, check=True,
                           stdout=subprocess.DEVNULL)
        return [json.loads(line) for line in out.splitlines()]

    def object(self, *words, **more):
        found = self.objects(*words, **more)
        self.assertEqual(len(found), 1, found)
        return found[0]

    def held(self, alias, deadline=harness.DEADLINE):
        """Waits until somebody holds the alias; the session."""
        def session():
            for found in self.objects("list", alias):
                if alias in found["aliases"]:
                    return found
            return None
        return harness.wait_for(session, f"{alias} held", deadline)

    def free(self, alias):
        """Waits until nobody holds the alias."""
        harness.wait_for(lambda: not self.objects("list", alias),
                         f"{alias} free")

    def spawn(self, *words, **popen):
        """Starts eventctl; killed at the end of the test if need be."""
        popen.setdefault("stdout", subprocess.PIPE)
        popen.setdefault("stderr", subprocess.PIPE)
        then = popen.pop("preexec_fn", lambda: None)

        def prepare():
            default_signals()
            then()
        process = subprocess.Popen(
            self.command(*words), preexec_fn=prepare, **popen)
        self.addCleanup(end, process)
        return process

    def bind(self, *words, **popen):
        """Starts eventctl bind and waits until it holds its first alias."""
        process = self.spawn("bind", *words, **popen)
        self.held(words[0])
        return process

    def ended(self, process, code=0):
        """Waits for its end; what it printed. self.err is its stderr."""
        out, err = process.communicate(timeout=harness.DEADLINE)
        self.err = (err or b"").decode()
        self.assertEqual(process.returncode, code, self.err)
        return out

    def told(self, *parts):
        for part in parts:
            self.assertIn(part, self.err)


def default_signals():
    """As a shell starts a program: who runs the tests may ignore some."""
    for number in (signal.SIGINT, signal.SIGPIPE, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)


def end(process):
    if process.poll() is None:
        process.kill()
    process.wait()
    for stream in (process.stdout, process.stderr, process.stdin):
        if stream:
            stream.close()


def without(*names, **more):
    """The environment without these names, and with some more."""
    kept = {key: value for key, value in os.environ.items()
            if key not in names}
    return {**kept, **more}
