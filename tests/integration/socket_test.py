#!/usr/bin/env python3
"""The daemon's socket: made, replaced, refused, passed by a supervisor."""
import os
import socket
import stat
import time

import harness


class Own(harness.TestCase):
    def refused(self, *parts, arguments=()):
        done = self.daemon.run(*arguments)
        self.assertEqual(done.returncode, 73, done.stderr)
        for part in parts:
            self.assertIn(part, done.stderr)
        lines = self.daemon.hear()
        self.assertNotIn("READY=1", lines)
        self.assertTrue(any(line.startswith("ERRNO=") for line in lines))

    def test_it_has_the_configured_mode_and_goes_away(self):
        self.daemon.configure("SocketMode=0600")
        self.daemon.start()
        mode = os.stat(self.daemon.socket).st_mode
        self.assertTrue(stat.S_ISSOCK(mode))
        self.assertEqual(stat.S_IMODE(mode), 0o600)
        self.assertEqual(self.daemon.stop(), 0)
        self.assertFalse(os.path.exists(self.daemon.socket))
        self.assertFalse(os.path.exists(self.daemon.socket + ".lock"))

    def test_a_dead_socket_is_replaced(self):  # B65
        self.daemon.start()
        self.daemon.process.kill()
        self.daemon.wait()
        self.assertTrue(os.path.exists(self.daemon.socket))
        self.daemon.notices.clear()
        self.daemon.start()
        self.daemon.client().close()

    def test_one_that_was_removed_is_made_again_by_a_reload(self):  # B65
        self.daemon.configure("SocketMode=0600")
        self.daemon.start()
        old = self.daemon.client()
        for _ in range(2):
            os.unlink(self.daemon.socket)
            self.daemon.hangup()
            mode = os.stat(self.daemon.socket).st_mode
            self.assertEqual(stat.S_IMODE(mode), 0o600)
            self.daemon.client().request("ping")
        old.request("ping")
        self.daemon.logged("listener.renewed")
        self.daemon.hangup()  # what is there stays
        self.assertEqual(self.daemon.text().count("listener.renewed"), 2)
        self.assertEqual(self.daemon.stop(), 0)
        self.assertFalse(os.path.exists(self.daemon.socket))

    def test_a_removed_one_is_not_taken_from_others(self):  # B65
        self.daemon.start()
        os.unlink(self.daemon.socket)
        with open(self.daemon.socket, "w", encoding="utf-8") as file:
            file.write("mine")
        self.daemon.hangup()
        self.assertEqual(self.daemon.stop(), 0)
        with open(self.daemon.socket, encoding="utf-8") as file:
            self.assertEqual(file.read(), "mine")

    def test_a_live_one_is_left_alone(self):
        self.daemon.start()
        self.daemon.hear()
        self.daemon.notices.clear()
        self.refused("another eventd holds", self.daemon.socket)
        self.daemon.client().close()  # the first still answers

    def test_a_strangers_live_one_is_left_alone(self):
        other = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        other.bind(self.daemon.socket)
        other.listen(1)
        self.refused("another eventd answers on", self.daemon.socket)
        other.close()

    def test_a_file_is_left_alone(self):  # B65
        with open(self.daemon.socket, "w", encoding="ascii") as file:
            file.write("precious")
        self.refused("there is a file at", self.daemon.socket)
        with open(self.daemon.socket, encoding="ascii") as file:
            self.assertEqual(file.read(), "precious")

    def test_a_directory_is_left_alone(self):  # B65
        os.mkdir(self.daemon.socket)
        self.refused("there is a directory at")
        self.assertTrue(os.path.isdir(self.daemon.socket))

    def test_a_symbolic_link_is_not_followed(self):  # B65
        os.symlink("/nowhere", self.daemon.socket)
        self.refused("there is a symbolic link at")
        self.assertTrue(os.path.islink(self.daemon.socket))

    def test_a_directory_that_is_not_there_is_told(self):
        self.refused("No such file or directory",
                     arguments=["--socket", self.daemon.root + "/no/x.sock"])

    def test_paths_up_to_107_bytes_work(self):  # B67
        base = self.daemon.root + "/"
        self.daemon.socket = base + "s" * (107 - len(base))
        self.daemon.configure()
        self.daemon.start()
        self.daemon.client().close()

    def test_longer_paths_are_refused(self):  # B67
        for size in (108, 200):
            path = self.daemon.root + "/" + "s" * 200
            done = self.daemon.run("--socket", path[:size])
            self.assertEqual(done.returncode, 78)
            self.assertIn(f"{size} bytes, of at most 107", done.stderr)
        self.assertFalse([name for name in os.listdir(self.daemon.root)
                          if name.startswith("s")])


class Passed(harness.TestCase):
    """As systemd does it: from descriptor 3 on, told by LISTEN_FDS."""

    def start(self, *sockets, **more):
        def place():
            for number, one in enumerate(sockets):
                os.dup2(one.fileno(), 100 + number)
            for number in range(len(sockets)):
                os.dup2(100 + number, 3 + number)

        command = ["/bin/sh", "-c", 'LISTEN_PID=$$ exec "$@"', "sh",
                   *self.daemon.command()]
        self.daemon.start(
            command=command, preexec_fn=place,
            pass_fds=[3 + number for number in range(len(sockets))],
            environment={"LISTEN_FDS": str(len(sockets))}, **more)

    def listener(self, name, kind=socket.SOCK_STREAM):
        one = socket.socket(socket.AF_UNIX, kind)
        one.bind(os.path.join(self.daemon.root, name))
        if kind == socket.SOCK_STREAM:
            one.listen(8)
        self.addCleanup(one.close)
        return one

    def test_those_that_wait_are_served(self):
        one = self.listener("a.sock")
        early = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        early.connect(one.getsockname())
        self.start(one)
        early.close()
        harness.Client(one.getsockname()).close()
        self.assertFalse(os.path.exists(self.daemon.socket))
        self.assertEqual(self.daemon.stop(), 0)
        self.assertTrue(os.path.exists(one.getsockname()))  # not ours

    def test_several_are_all_served(self):
        a, b = self.listener("a.sock"), self.listener("b.sock")
        self.start(a, b)
        harness.Client(a.getsockname()).close()
        harness.Client(b.getsockname()).close()

    def test_others_are_ignored_with_a_warning(self):
        a, b = self.listener("a.sock", socket.SOCK_DGRAM), \
            self.listener("b.sock")
        self.start(a, b)
        harness.Client(b.getsockname()).close()
        self.daemon.logged("socket.ignored")

    def test_none_that_fits_is_an_error(self):
        self.start(self.listener("a.sock", socket.SOCK_DGRAM), wait=False)
        self.assertEqual(self.daemon.wait(), 73)
        self.daemon.logged("ListenStream=")

    def test_those_of_another_process_are_not_taken(self):
        self.daemon.start(environment={"LISTEN_FDS": "1", "LISTEN_PID": "1"})
        self.daemon.client().close()


class Hello(harness.TestCase):
    def test_who_says_none_is_told_and_dropped(self):
        self.daemon.configure("HelloTimeout=200ms")
        self.daemon.start("--loops", "2")
        for _ in range(2):  # one on each loop
            silent = self.daemon.client(hello=False)
            began = time.monotonic()
            silent.drain()
            self.assertLess(time.monotonic() - began, 4)
            self.assertEqual(len(silent.errors), 1)
            self.assertIn("HelloTimeout=", silent.errors[0][1])
            silent.close()

    def test_over_the_limit_they_are_closed(self):
        self.daemon.configure("MaxConnections=2")
        self.daemon.start()
        a, b = self.daemon.client(), self.daemon.client()
        with self.assertRaises((harness.Closed, ConnectionError)):
            self.daemon.client()
        self.daemon.logged("MaxConnections=")
        a.close()
        b.close()

        def again():
            try:
                self.daemon.client().close()
                return True
            except (harness.Closed, ConnectionError):
                return False
        harness.wait_for(again, "room for another connection")

    def test_writing_to_a_closed_client_kills_nobody(self):
        self.daemon.start()
        client = self.daemon.client()
        for _ in range(100):
            client.call_soon("nobody", "x")
        client.close()
        self.daemon.client().close()
        self.assertIsNone(self.daemon.process.poll())


if __name__ == "__main__":
    harness.main()
