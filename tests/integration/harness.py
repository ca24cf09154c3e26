"""Starts the real daemon in a directory of its own, and speaks to it.

    import harness
    with harness.Daemon() as d:
        d.session("hello", "Kind=lua", script="return {...}")
        d.start()                       # waits for READY=1
        c = d.client()                  # greeted
        c.post("hello", "greet", b"x")  # status 0 when it is acked
        status, reply = c.call("hello", "greet", b"x")

Nothing sleeps for a fixed time: wait_for() polls a condition, with a deadline.
Programs are found by EVENTD and EVENTCTL in the environment, which ctest sets.
At the end the daemon is stopped and must have exited with 0: under a sanitizer
that says that nothing leaked.
"""
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
import unittest

EVENTD = os.environ.get("EVENTD", "eventd")
EVENTCTL = os.environ.get("EVENTCTL", "eventctl")
DEADLINE = float(os.environ.get("EVENTD_TEST_DEADLINE", "20"))  # seconds


def wait_for(condition, what="the condition", deadline=DEADLINE):
    """Polls until condition() is true, and returns what it returned."""
    end = time.monotonic() + deadline
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > end:
            raise AssertionError(f"not within {deadline} s: {what}")
        time.sleep(0.005)


# ---- the wire: just enough protobuf -----------------------------------------


def varint(value):
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
    return bytes(out)


def message(*fields):
    """Encodes (number, value) pairs: int as varint, str and bytes as bytes."""
    out = b""
    for number, value in fields:
        if isinstance(value, int):
            out += varint(number << 3) + varint(value)
        else:
            data = value.encode() if isinstance(value, str) else value
            out += varint(number << 3 | 2) + varint(len(data)) + data
    return out


def take_varint(data, at):
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 127) << shift
        shift += 7
        if byte < 128:
            return value, at


def fields(data):
    """Decodes one message: {number: [values in order]}."""
    out, at = {}, 0
    while at < len(data):
        key, at = take_varint(data, at)
        kind = key & 7
        if kind == 0:
            value, at = take_varint(data, at)
        elif kind == 2:
            size, at = take_varint(data, at)
            value, at = data[at:at + size], at + size
        else:
            size = 8 if kind == 1 else 4
            value, at = int.from_bytes(data[at:at + size], "little"), at + size
        out.setdefault(key >> 3, []).append(value)
    return out


def first(decoded, number, default=0):
    return decoded.get(number, [default])[0]


class Closed(Exception):
    """The daemon has closed the connection."""


class Client:
    """One connection. Not for speed."""

    VERBS = {"resolve": 2, "bind": 3, "unbind": 4, "delay": 5, "cancel": 6,
             "list": 7, "status": 8, "timers": 9, "reload": 10, "ping": 11,
             "restart": 12, "wait": 13, "watch": 14, "watch_names": 16,
             "will": 17}

    def __init__(self, path, hello=True):
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.socket.settimeout(DEADLINE)
        self.socket.connect(path)
        self.buffer = b""
        self.seq = self.number = 0
        self.acked = 0
        self.also = set()
        self.failures = {}    # seq: (status, text)
        self.replies = {}     # call: (status, payload)
        self.responses = {}   # id: decoded Response
        self.deliveries = []  # decoded Envelopes
        self.notices = []     # decoded Notices
        self.errors = []      # (status, text)
        self.welcome = None
        if hello:
            self.greet()

    def greet(self):
        self.send((5, message((1, 1), (2, "test"))))
        self.until(lambda: self.welcome is not None)

    def close(self):
        self.socket.close()

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        self.close()

    def send(self, *frame_fields):
        body = message(*frame_fields)
        self.socket.sendall(varint(len(body)) + body)

    def receive(self):
        """Waits for one frame and files its parts; raises Closed at the end."""
        while True:
            frame = self.take_frame()
            if frame is not None:
                self.file(fields(frame))
                return
            data = self.socket.recv(65536)
            if not data:
                raise Closed()
            self.buffer += data

    def take_frame(self):
        for size in range(1, 6):
            if len(self.buffer) < size:
                return None
            if self.buffer[size - 1] < 128:
                break
        length, at = take_varint(self.buffer, 0)
        if len(self.buffer) < at + length:
            return None
        frame = self.buffer[at:at + length]
        self.buffer = self.buffer[at + length:]
        return frame

    def file(self, frame):
        for envelope in map(fields, frame.get(1, [])):
            if 7 in envelope:
                self.replies[envelope[7][0]] = (
                    first(envelope, 8), first(envelope, 4, b""))
            else:
                self.deliveries.append(envelope)
        for ack in map(fields, frame.get(2, [])):
            self.acked = max(self.acked, first(ack, 1))
            self.also.update(numbers(ack.get(2, [])))
        for failure in map(fields, frame.get(4, [])):
            self.failures[first(failure, 1)] = (
                first(failure, 2), first(failure, 3, b"").decode())
        for welcome in frame.get(6, []):
            self.welcome = fields(welcome)
        for response in map(fields, frame.get(8, [])):
            self.responses[first(response, 1)] = response
        for error in map(fields, frame.get(9, [])):
            self.errors.append((first(error, 1), first(error, 2, b"").decode()))
        self.notices += map(fields, frame.get(10, []))

    def until(self, condition):
        while not condition():
            self.receive()

    def drain(self):
        """Everything until the daemon closes the connection."""
        try:
            while True:
                self.receive()
        except (Closed, ConnectionResetError):
            pass

    # -- what a program does

    def post_soon(self, alias, event, payload=b"", flags=0, level=0):
        """Sends a post and returns its number, see settled()."""
        self.seq += 1
        self.send((1, message((2, alias), (3, event), (4, payload),
                              (5, self.seq), (12, level), (13, flags))))
        return self.seq

    def settled(self, seq):
        return seq <= self.acked or seq in self.also or seq in self.failures

    def post(self, alias, event, payload=b"", flags=0, level=0):
        """Posts and waits; the status."""
        seq = self.post_soon(alias, event, payload, flags, level)
        self.until(lambda: self.settled(seq))
        return self.failures.get(seq, (0, ""))[0]

    def call_soon(self, alias, event, payload=b"", timeout_ms=0):
        self.number += 1
        self.send((1, message((2, alias), (3, event), (4, payload),
                              (6, self.number), (11, timeout_ms))))
        return self.number

    def call(self, alias, event, payload=b"", timeout_ms=0):
        """Calls and waits; status and payload."""
        number = self.call_soon(alias, event, payload, timeout_ms)
        self.until(lambda: number in self.replies)
        return self.replies.pop(number)

    def post_ref(self, ref, event, payload=b""):
        """Posts to a resolved alias and waits; the status."""
        self.seq += 1
        self.send((1, message((1, ref), (3, event), (4, payload),
                              (5, self.seq))))
        seq = self.seq
        self.until(lambda: self.settled(seq))
        return self.failures.get(seq, (0, ""))[0]

    def request(self, verb, *body):
        """One verb; the decoded Response: 2 status, 3 text, 4.. results."""
        return self.request_number(self.VERBS[verb], *body)

    def request_number(self, verb, *body):
        self.number += 1
        number = self.number
        self.send((7, message((1, number), (verb, message(*body)))))
        self.until(lambda: number in self.responses)
        return self.responses.pop(number)

    def states(self):
        """{alias: (state, reason)} of all sessions that have aliases."""
        out = {}
        response = self.request("list")
        for info in map(fields, fields(first(response, 7, b"")).get(1, [])):
            for alias in info.get(2, []):
                out[alias.decode()] = (first(info, 4, b"").decode(),
                                       first(info, 13, b"").decode())
        return out


def numbers(values):
    """A repeated integer: packed bytes, or one by one."""
    for value in values:
        if isinstance(value, int):
            yield value
            continue
        at = 0
        while at < len(value):
            number, at = take_varint(value, at)
            yield number


# ---- the daemon --------------------------------------------------------------


class Daemon:
    """A daemon with its own directory: etc/ for files, eventd.sock."""

    def __init__(self):
        self.root = tempfile.mkdtemp(prefix="eventd-test-")
        self.etc = os.path.join(self.root, "etc")
        self.socket = os.path.join(self.root, "eventd.sock")
        self.process = None
        self.clients = []
        self.notices = []  # what it told the service manager
        self.log = os.path.join(self.root, "log")
        os.makedirs(os.path.join(self.etc, "sessions.d"))
        self.notify_path = os.path.join(self.root, "notify")
        self.notify = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.notify.bind(self.notify_path)
        self.notify.setblocking(False)
        self.configure()

    def __enter__(self):
        return self

    def __exit__(self, kind, value, trace):
        try:
            if self.process and self.process.poll() is None:
                self.process.terminate()
                code = self.wait()
                if kind is None and code != 0:
                    raise AssertionError(f"exit status {code}:\n" + self.text())
        finally:
            if self.process and self.process.poll() is None:
                self.process.kill()
                self.process.wait()
            if kind is not None and os.path.exists(self.log):
                print(self.text())
            self.notify.close()
            for client in self.clients:
                client.close()
            shutil.rmtree(self.root, ignore_errors=True)

    # -- files

    def write(self, name, text):
        """Puts a file below etc/; its path."""
        path = os.path.join(self.etc, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "wb") as file:
            file.write(text if isinstance(text, bytes) else text.encode())
        os.chmod(path, 0o644)
        return path

    def remove(self, name):
        os.unlink(os.path.join(self.etc, name))

    def configure(self, *lines):
        """eventd.conf: [Daemon] with the socket and these lines."""
        return self.write("eventd.conf", "\n".join(
            ("[Daemon]", f"Socket={self.socket}") + lines) + "\n")

    def session(self, name, *lines, script=None, mailbox=()):
        """sessions.d/NAME.conf, for a Lua script if there is one."""
        text = ["[Session]"] + list(lines)
        if script is not None:
            self.write(f"scripts/{name}.lua", script)
            text += ["Kind=lua", f"Script=../scripts/{name}.lua"]
        text += ["[Mailbox]"] + list(mailbox)
        return self.write(f"sessions.d/{name}.conf", "\n".join(text) + "\n")

    # -- life

    def command(self, *arguments):
        return [EVENTD, "--config", os.path.join(self.etc, "eventd.conf"),
                *arguments]

    def run(self, *arguments):
        """To its end, for those that do not start; the completed process."""
        return subprocess.run(self.command(*arguments), timeout=DEADLINE,
                              capture_output=True, text=True,
                              env=self.environment())

    def environment(self, **more):
        return {**os.environ, "NOTIFY_SOCKET": self.notify_path, **more}

    def start(self, *arguments, wait=True, environment=None, **popen):
        with open(self.log, "ab") as log:
            self.process = subprocess.Popen(
                popen.pop("command", None) or self.command(*arguments),
                stderr=log, stdin=subprocess.DEVNULL,
                env=self.environment(**(environment or {})), **popen)
        if wait:
            self.told("READY=1")
        return self

    def told(self, line, count=1):
        """Waits until the service manager was told @line that often."""
        def enough():
            if self.hear().count(line) >= count:
                return True
            if self.process.poll() is not None:
                raise AssertionError("the daemon has ended:\n" + self.text())
            return False
        wait_for(enough, f"{line} {count} times")

    def hear(self):
        """All lines told so far."""
        while True:
            try:
                self.notices += self.notify.recv(65536).decode().split("\n")
            except BlockingIOError:
                return self.notices

    def wait(self):
        """The exit status, when it has ended."""
        return self.process.wait(timeout=DEADLINE)

    def stop(self):
        """SIGTERM, to the end; the exit status."""
        self.process.terminate()
        return self.wait()

    def hangup(self):
        """SIGHUP, until the reload is over."""
        before = self.hear().count("READY=1")
        self.process.send_signal(signal.SIGHUP)
        self.told("READY=1", before + 1)

    def text(self):
        """What it has logged."""
        with open(self.log, encoding="utf-8", errors="replace") as file:
            return file.read()

    def logged(self, part):
        wait_for(lambda: part in self.text(), f"'{part}' in the log")

    def client(self, hello=True):
        """A new connection, closed at the latest with the daemon."""
        self.clients.append(Client(self.socket, hello=False))
        if hello:
            self.clients[-1].greet()
        return self.clients[-1]

    def open_to_all(self, *lines):
        """Other users can connect; for tests that are run as root."""
        os.chmod(self.root, 0o755)
        return self.configure("SocketMode=0666", *lines)

    def client_as(self, uid, gid=None, groups=(), hello=True):
        """As client(), of another user; as root alone."""
        os.setgroups(list(groups))
        os.setegid(uid if gid is None else gid)
        os.seteuid(uid)
        try:
            return self.client(hello)
        finally:
            os.seteuid(0)
            os.setegid(0)
            os.setgroups([0])

    def eventctl(self, *arguments, **more):
        """Runs eventctl on this daemon; the completed process."""
        return subprocess.run(
            [EVENTCTL, "--socket", self.socket, *arguments],
            timeout=DEADLINE, capture_output=True, **more)


class TestCase(unittest.TestCase):
    """Gives each test a daemon that is not started yet: self.daemon."""

    def setUp(self):
        self.daemon = Daemon()
        self.daemon.__enter__()
        self.addCleanup(self.finish)

    def finish(self):
        outcome = self._outcome.result
        bad = outcome.failures + outcome.errors
        failed = any(test is self for test, _ in bad)
        self.daemon.__exit__(AssertionError if failed else None, None, None)


def main():
    unittest.main(verbosity=2)
