#!/usr/bin/env python3
"""Faults in the real daemon: accept() without descriptors, memory that is not
there, charges that fail, again and again while clients work. What fails fails
alone and is told; others are served; nothing is left behind."""
import json
import os
import signal
import socket
import unittest

import harness
from harness import first, message, wait_for

SINK = """
return {
    keep = function() end,
    hello = function(data) eventd.reply(data) end,
}
"""
FAULTS = {"accept": 5, "conn_admit": 7, "charge": 6, "landing_new": 2,
          "msg_region_new": 3, "memfd_region": 2, "lease_reserve": 5,
          "msg_body_new": 9, "user_place": 50, "rights_new": 50}


@unittest.skipUnless(os.environ.get("FAULTS") == "1", "no fault points")
class Faults(harness.TestCase):
    def go(self, faults, **more):
        text = ",".join(f"{k}:{v}" for k, v in faults.items())
        self.daemon.session("sink", script=SINK)
        self.daemon.session("box", "Kind=client")
        self.daemon.session("news", "Kind=client", "Mode=fanout")
        self.daemon.configure("Loops=2")
        self.daemon.start(environment={"EVENTD_FAULTS": text}, **more)

    def come_in(self):
        """A client, however often it is turned away."""
        def try_once():
            client = harness.Client(self.daemon.socket, hello=False)
            try:
                client.greet()
                self.daemon.clients.append(client)
                return client
            except (harness.Closed, ConnectionError):
                client.close()
                return None
        return wait_for(try_once, "a connection")

    def charged(self):
        """What is charged, once eventctl has got in."""
        out = wait_for(lambda: self.daemon.eventctl(
            "--json", "limits", str(os.geteuid())).stdout, "eventctl")
        try:
            limits = json.loads(out)["limits"]
        except (ValueError, KeyError):
            return None
        return {k for k, v in limits.items() if v["used"]} - {"Connections"}

    def balanced(self, client):
        report = harness.fields(first(client.request("status", (1, "")), 8))
        info = harness.fields(first(harness.fields(first(report, 2)), 8))
        self.assertEqual(first(info, 1), sum(
            first(info, n) for n in range(2, 10)), info)

    def test_what_fails_fails_alone_and_is_told(self):
        self.go(FAULTS)
        statuses = set()
        judge = self.come_in()
        for i in range(30):
            client = self.come_in()
            client.request("bind", (1, ("box", "news", f"own{i}")[i % 3]),
                           (2, 1), (3, 1 + i % 5),
                           (11, 2 if i % 3 == 1 else 0))
            for size in (0, 100, 70000, 300000, 900000):
                for alias in ("sink", "box", "news", "nobody"):
                    client.post_soon(alias, "keep", bytes(size), flags=1)
            client.until(lambda: client.settled(client.seq))
            statuses |= {s for s, _ in client.failures.values()}
            statuses.add(client.call("sink", "hello", b"x" * 1000)[0])
            self.balanced(judge)
            client.close()
        # no memory, a limit, nobody there, and a full mailbox; no others
        self.assertTrue({24, 11, 5} <= statuses, statuses)
        self.assertTrue(statuses <= {0, 24, 11, 5, 10, 20}, statuses)
        judge.request_number(38, (1, "box"))
        wait_for(lambda: self.charged() == set(),
                 f"nothing to be charged: {self.charged()}")
        self.balanced(judge)

    def test_a_listener_that_fails_rests_and_comes_back(self):
        self.go({"accept": 2})
        clients = [self.come_in() for _ in range(10)]
        for client in clients:
            self.assertEqual(client.call("sink", "hello", b"x"), (0, b"x"))
        self.daemon.logged("listener.paused")
        self.assertLess(self.daemon.text().count("listener.paused"), 5)

    # a storm of signals in every system call
    def test_signals_interrupt_nothing(self):
        self.go({"lease_reserve": 3})
        client = self.come_in()
        client.request("bind", (1, "box"), (2, 1))
        for i in range(100):
            self.daemon.process.send_signal(signal.SIGWINCH)
            self.daemon.process.send_signal(signal.SIGSTOP)
            self.daemon.process.send_signal(signal.SIGCONT)
            self.assertEqual(client.post("box", "e", b"%d" % i), 0)
        client.until(lambda: len(client.deliveries) == 100)
        self.assertEqual([d[4][0] for d in client.deliveries],
                         [b"%d" % i for i in range(100)])

    def test_half_closed_peers_leave_nothing(self):
        self.go({"lease_reserve": 1000})
        judge = self.come_in()
        before = len(os.listdir(f"/proc/{self.daemon.process.pid}/fd"))
        for how in (socket.SHUT_WR, socket.SHUT_RD, socket.SHUT_RDWR):
            for cut in range(0, 40, 3):
                client = self.come_in()
                body = message((1, message((2, "sink"), (3, "keep"),
                                           (4, bytes(20)), (5, 1))))
                client.socket.sendall((harness.varint(len(body)) + body)[:cut])
                client.socket.shutdown(how)
                if how == socket.SHUT_RD:
                    client.close()
        wait_for(lambda: len(os.listdir(
            f"/proc/{self.daemon.process.pid}/fd")) <= before,
            "those of half-closed peers to be closed")
        self.assertEqual(judge.call("sink", "hello", b"x"), (0, b"x"))
        wait_for(lambda: self.charged() == set(), "nothing to be charged")


if __name__ == "__main__":
    harness.main()
