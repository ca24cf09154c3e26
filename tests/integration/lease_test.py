"""Leases: what a consumer holds, gives back, or keeps for too long."""
import unittest

import ctl
import harness
from harness import wait_for


class Lease(ctl.TestCase):
    def slot(self, *mailbox):
        self.daemon.session("jobs", "Alias=jobs", "Kind=client",
                            mailbox=mailbox)
        self.start()

    def consumer(self):
        c = self.daemon.client()
        c.VERBS = {**c.VERBS, "give_back": 55, "extend": 56}
        response = c.request("bind", (1, "jobs"), (2, 1))
        self.assertEqual(harness.first(response, 2), 0)
        return c

    def settle(self, client, upto):
        client.send((3, harness.message((1, 1), (2, upto))))

    def give_back(self, client, delivery, delay_ms=None):
        more = () if delay_ms is None else ((3, 1), (4, delay_ms))
        return harness.first(client.request(
            "give_back", (1, 1), (2, delivery), *more), 2)

    def got(self, client):
        return [(harness.first(d, 3, b"").decode(), harness.first(d, 14))
                for d in client.deliveries]

    def accounts(self):
        c = self.object("status")["events"]
        self.assertEqual(c["accepted"], sum(c[k] for k in (
            "handled", "queued", "leased", "delayed", "expired", "cancelled",
            "dropped", "dead_lettered")))
        return c

    def test_what_is_given_back_comes_again(self):
        self.slot()
        c = self.consumer()
        for name in "abc":
            self.ctl("post", "jobs", name)
        c.until(lambda: len(c.deliveries) == 3)
        self.assertEqual(self.give_back(c, 2), 0)
        c.until(lambda: len(c.deliveries) == 4)
        self.assertEqual(self.got(c)[3], ("b", 1))
        self.assertEqual(self.give_back(c, 2), 18)  # not held any more
        self.settle(c, 4)
        wait_for(lambda: self.accounts()["handled"] == 3, "all handled")

    def test_it_rests_for_a_while(self):
        self.slot()
        c = self.consumer()
        self.ctl("post", "jobs", "a")
        c.until(lambda: len(c.deliveries) == 1)
        self.assertEqual(self.give_back(c, 1, 300), 0)
        self.ctl("post", "jobs", "b")
        c.until(lambda: len(c.deliveries) == 3)
        self.assertEqual(self.got(c), [("a", 0), ("b", 0), ("a", 1)])
        self.settle(c, 3)
        wait_for(lambda: self.accounts()["handled"] == 2, "both handled")

    def test_a_lease_ends(self):
        self.slot("Lease=200ms")
        # B34: it begins with the delivery, not while the event waits
        self.ctl("post", "jobs", "a")
        c = self.consumer()
        c.until(lambda: len(c.deliveries) == 2)
        self.assertEqual(self.got(c), [("a", 0), ("a", 1)])
        self.settle(c, 2)
        wait_for(lambda: self.accounts()["handled"] == 1, "handled once")
        self.assertEqual(self.accounts()["queued"], 0)

    def test_a_lease_that_is_extended_does_not_end(self):
        self.slot("Lease=200ms")
        c = self.consumer()
        self.ctl("post", "jobs", "a")
        c.until(lambda: len(c.deliveries) == 1)
        response = c.request("extend", (1, 1), (2, 1), (3, 60000))
        self.assertEqual(harness.first(response, 2), 0)
        self.ctl("post", "jobs", "b")  # whose lease ends meanwhile
        c.until(lambda: len(c.deliveries) == 3)
        self.assertEqual(self.got(c), [("a", 0), ("b", 0), ("b", 1)])
        self.settle(c, 3)
        response = c.request("extend", (1, 1), (2, 1), (3, 60000))
        self.assertEqual(harness.first(response, 2), 18)

    def test_too_many_tries_make_a_dead_letter(self):
        self.slot("MaxAttempts=3", "RetryDelay=1ms")
        c = self.consumer()
        self.ctl("post", "jobs", "a")
        for n in range(3):
            c.until(lambda: len(c.deliveries) == n + 1)
            self.assertEqual(self.give_back(c, n + 1), 0)
        wait_for(lambda: self.accounts()["dead_lettered"] == 1, "a dead letter")
        self.assertEqual([a for _, a in self.got(c)], [0, 1, 2])
        letter, = self.objects("dead", "list")
        self.assertEqual(letter["reason"], "attempts")

    def test_nothing_is_lost_when_it_rests_and_the_consumer_dies(self):
        self.slot()
        c = self.consumer()
        self.ctl("post", "jobs", "a")
        c.until(lambda: len(c.deliveries) == 1)
        self.assertEqual(self.give_back(c, 1, 300), 0)
        c.close()
        c = self.consumer()
        c.until(lambda: len(c.deliveries) == 1)
        self.assertEqual(self.got(c), [("a", 1)])

    def test_a_mailbox_of_ones_own_has_no_rests(self):
        self.start()
        c = self.daemon.client()
        c.VERBS = {**c.VERBS, "give_back": 55}
        c.request("bind", (1, "mine"), (2, 1))
        self.ctl("post", "mine", "a")
        c.until(lambda: len(c.deliveries) == 1)
        self.assertEqual(self.give_back(c, 1, 300), 13)
        self.assertEqual(self.give_back(c, 1), 0)
        c.until(lambda: len(c.deliveries) == 2)
        self.assertEqual(self.got(c), [("a", 0), ("a", 1)])


if __name__ == "__main__":
    unittest.main()
