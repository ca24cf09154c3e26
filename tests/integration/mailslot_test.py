"""Kind=client: a mailbox from a file, and the clients that consume it."""
import json
import os
import signal
import subprocess
import sys
import unittest

import harness
from harness import fields, first, wait_for

LOOPS = 4
TAKEN, NO_ALIAS, DIED = 8, 5, 20

# A consumer that can be killed: binds, says so, prints what it is given and
# settles nothing.
CONSUMER = """
import sys
import harness
c = harness.Client(sys.argv[1])
c.request("bind", (1, sys.argv[2]), (2, 1))
print("bound", flush=True)
while True:
    c.until(lambda: c.deliveries)
    print(harness.first(c.deliveries.pop(0), 4).decode(), flush=True)
"""


def payloads(client, n):
    """Waits for @n deliveries: [(payload, attempt)], and forgets them."""
    client.until(lambda: len(client.deliveries) >= n)
    taken, client.deliveries = client.deliveries[:n], client.deliveries[n:]
    return [(first(d, 4, b"").decode(), first(d, 14)) for d in taken]


class Mailslot(harness.TestCase):
    def setUp(self):
        super().setUp()
        self.daemon.configure(f"Loops={LOOPS}")

    def start(self, *lines, mailbox=()):
        self.daemon.session("jobs", "Kind=client", *lines, mailbox=mailbox)
        return self.daemon.start()

    def bind(self, alias="jobs", window=0, status=0, client=None):
        client = client or self.daemon.client()
        response = client.request("bind", (1, alias), (2, 1), (3, window))
        self.assertEqual(first(response, 2), status, response)
        return client if not status else first(response, 3).decode()

    def settle(self, client, upto):
        client.send((3, harness.message((1, 1), (2, upto))))

    def info(self, alias="jobs"):
        out = self.daemon.eventctl("status", alias, "--json", text=True)
        self.assertEqual(out.returncode, 0, out.stderr)
        return json.loads(out.stdout)

    def account(self):
        """The daemon's counters, when they balance."""
        c = self.daemon.client()
        report = fields(first(c.request("status", (1, "")), 8))
        counters = fields(first(fields(first(report, 2)), 8))
        ends = sum(first(counters, n) for n in (2, 3, 4, 5, 6, 7, 8, 9))
        self.assertEqual(first(counters, 1), ends)
        c.close()
        return {"accepted": first(counters, 1), "handled": first(counters, 2),
                "dead": first(counters, 6), "queued": first(counters, 7),
                "leased": first(counters, 8)}

    def settled_account(self, **want):
        def there():
            now = self.account()
            return all(now[key] == want[key] for key in want)
        wait_for(there, f"{want}, not {self.account()}")

    def consumer(self, alias="jobs"):
        process = subprocess.Popen(
            [sys.executable, "-c", CONSUMER, self.daemon.socket, alias],
            stdout=subprocess.PIPE, text=True,
            cwd=os.path.dirname(os.path.abspath(__file__)))
        self.addCleanup(process.stdout.close)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        self.assertEqual(process.stdout.readline(), "bound\n")
        return process

    def test_events_wait_for_the_first_consumer(self):
        self.start()
        poster = self.daemon.client()
        for i in range(300):
            self.assertEqual(poster.post("jobs", "job", str(i).encode()), 0)
        self.settled_account(accepted=300, queued=300)
        c = self.bind(window=7)
        for i in range(300):
            self.assertEqual(payloads(c, 1), [(str(i), 0)])
            self.settle(c, i + 1)
        self.settled_account(handled=300, queued=0, leased=0)

    def test_posts_park_while_nobody_is_bound(self):
        self.start(mailbox=["MaxEvents=2"])
        poster = self.daemon.client()
        soon = [poster.post_soon("jobs", "job", str(i).encode())
                for i in range(6)]
        poster.until(lambda: poster.settled(soon[1]))
        self.assertFalse(poster.settled(soon[2]))
        c = self.bind()
        self.assertEqual(payloads(c, 6), [(str(i), 0) for i in range(6)])
        poster.until(lambda: poster.settled(soon[5]))
        self.assertEqual(poster.failures, {})

    def test_the_next_gets_first_what_a_killed_one_held(self):
        """Whatever loops the two and the session live on."""
        for loop in range(LOOPS):
            self.daemon.session(f"jobs{loop}", "Kind=client", f"Loop={loop}")
        self.daemon.start()
        poster = self.daemon.client()
        for loop in range(LOOPS):
            alias = f"jobs{loop}"
            held = self.consumer(alias)
            for i in range(20):
                poster.post(alias, "job", str(i).encode())
            for i in range(20):
                self.assertEqual(held.stdout.readline(), f"{i}\n")
            held.send_signal(signal.SIGKILL)
            held.wait()
            wait_for(lambda: "peer" not in self.info(alias), "nobody is bound")
            poster.post(alias, "job", b"20")
            c = self.bind(alias)
            self.assertEqual(payloads(c, 21),
                             [(str(i), 1) for i in range(20)] + [("20", 0)])
            self.settle(c, 21)
        self.settled_account(accepted=21 * LOOPS, handled=21 * LOOPS,
                             queued=0, leased=0)

    def test_unbind_gives_back_what_is_not_settled(self):
        self.start()
        poster = self.daemon.client()
        c = self.bind()
        for i in range(4):
            poster.post("jobs", "job", str(i).encode())
        self.assertEqual(len(payloads(c, 4)), 4)
        self.settle(c, 1)
        self.assertEqual(first(c.request("unbind", (1, 1)), 2), 0)
        other = self.bind()
        self.assertEqual(payloads(other, 3),
                         [("1", 1), ("2", 1), ("3", 1)])
        self.bind(client=other, status=2)  # the number is in use

    def test_callers_are_told_that_the_consumer_died(self):
        self.start()
        caller = self.daemon.client()
        c = self.bind()
        number = caller.call_soon("jobs", "ask", b"?")
        payloads(c, 1)
        c.close()
        caller.until(lambda: number in caller.replies)
        self.assertEqual(caller.replies[number][0], DIED)
        self.assertEqual(payloads(self.bind(), 1), [("?", 1)])

    def test_a_consumer_answers_calls(self):
        self.start()
        caller, c = self.daemon.client(), self.bind()
        number = caller.call_soon("jobs", "ask", b"?")
        c.until(lambda: c.deliveries)
        c.send((1, harness.message((7, first(c.deliveries[0], 6)),
                                   (4, b"yes"))))
        self.settle(c, 1)
        caller.until(lambda: number in caller.replies)
        self.assertEqual(caller.replies[number], (0, b"yes"))
        self.settled_account(handled=1, leased=0)

    def test_a_second_consumer_is_told_who_is_there(self):
        self.start("Alias=jobs work")
        self.bind()
        text = self.bind("work", status=TAKEN)
        self.assertIn("'jobs'", text)
        self.assertIn(f"uid {os.getuid()} pid {os.getpid()}", text)

    def test_a_bound_alias_is_told_with_its_holder(self):
        self.start()
        self.bind("mine")
        self.assertIn(f"uid {os.getuid()} pid {os.getpid()}",
                      self.bind("mine", status=TAKEN))

    def test_status_tells_who_consumes(self):
        self.start()
        info = self.info()
        self.assertEqual((info["kind"], info["state"]), ("client", "up"))
        self.assertNotIn("peer", info)
        plain = self.daemon.eventctl("status", "jobs", text=True).stdout
        self.assertIn("nobody", plain)
        self.bind()
        info = self.info()
        self.assertEqual((info["kind"], info["state"]), ("client", "up"))
        self.assertEqual(info["peer"]["pid"], os.getpid())
        plain = self.daemon.eventctl("status", "jobs", text=True).stdout
        self.assertIn(str(os.getpid()), plain)
        self.assertNotIn("nobody", plain)

    def test_a_changed_file_keeps_the_consumer(self):
        self.start()
        poster, c = self.daemon.client(), self.bind()
        poster.post("jobs", "job", b"0")
        payloads(c, 1)
        self.daemon.session("jobs", "Kind=client", mailbox=["MaxEvents=5"])
        self.daemon.hangup()
        self.assertEqual(self.info()["peer"]["pid"], os.getpid())
        poster.post("jobs", "job", b"1")
        self.assertEqual(payloads(c, 1), [("1", 0)])
        out = self.daemon.eventctl("restart", "jobs", text=True)
        self.assertEqual(out.returncode, 0, out.stderr)
        self.settle(c, 2)
        self.settled_account(handled=2, leased=0)
        self.assertEqual(c.notices, [])

    def test_an_alias_that_goes_unbinds_its_consumer(self):
        self.start("Alias=jobs work")
        poster, c = self.daemon.client(), self.bind("work")
        poster.post("jobs", "job", b"0")
        payloads(c, 1)
        self.daemon.session("jobs", "Kind=client", "Alias=jobs")
        self.daemon.hangup()
        c.until(lambda: c.notices)
        unbound = fields(first(c.notices[0], 1))
        self.assertEqual((first(unbound, 1), first(unbound, 2)), (1, NO_ALIAS))
        self.assertEqual(payloads(self.bind("jobs"), 1), [("0", 1)])

    def test_a_removed_file_unbinds_the_consumer(self):
        self.start()
        poster, c = self.daemon.client(), self.bind()
        poster.post("jobs", "job", b"0")
        payloads(c, 1)
        self.daemon.remove("sessions.d/jobs.conf")
        self.daemon.hangup()
        c.until(lambda: c.notices)
        self.assertEqual(first(fields(first(c.notices[0], 1)), 2), DIED)
        self.settled_account(accepted=1, dead=1, queued=0, leased=0)
        self.bind(client=c)  # as an alias of its own now

    def test_binds_from_everywhere_at_once(self):
        """One of them has it at any time, and every event comes once."""
        self.start()
        poster = self.daemon.client()
        clients = [self.daemon.client() for _ in range(8)]
        seen = []
        for i in range(40):
            poster.post("jobs", "job", str(i).encode())
        while len(seen) < 40:
            for n, c in enumerate(clients):
                c.send((7, harness.message(
                    (1, 1000), (3, harness.message((1, "jobs"), (2, 1),
                                                   (3, 1))))))
            for c in clients:
                c.until(lambda: 1000 in c.responses)
            bound = [c for c in clients
                     if not first(c.responses.pop(1000), 2)]
            self.assertEqual(len(bound), 1)
            c = bound[0]
            seen.append(payloads(c, 1)[0][0])
            self.settle(c, 1)
            c.request("unbind", (1, 1))
            c.deliveries.clear()
        self.assertEqual(seen, [str(i) for i in range(40)])


if __name__ == "__main__":
    unittest.main(verbosity=2)
