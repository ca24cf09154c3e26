"""Exactly once in: a client that names itself sends again what was not settled,
and each post is accepted once, whatever cuts the connection or ends the
daemon."""
import ctypes
import glob
import os
import random
import select
import socket
import threading
import time
import unittest

import ctl
from harness import wait_for

COUNT = """
local seen, twice = {}, 0
local n = 0
return {
    add = function(data)
        if seen[data] then twice = twice + 1 end
        seen[data] = true
        n = n + 1
        if data:find("bad") then eventd.reply_error("no") end
    end,
    told = function() return n .. " " .. twice end,
}
"""


def library():
    found = glob.glob(os.path.join(os.environ["EVENTD_BUILD"], "client",
                                   "libevd.so"))
    lib = ctypes.CDLL(found[0])
    lib.evd_new.restype = ctypes.c_void_p
    for name in ("evd_free", "evd_close", "evd_set_socket", "evd_post", "evd_drain",
                 "evd_set_reconnect", "evd_set_client_id", "evd_set_timeout",
                 "evd_last_error", "evd_posts_failed", "evd_client_sequence"):
        getattr(lib, name).argtypes = [ctypes.c_void_p] + {
            "evd_set_socket": [ctypes.c_char_p],
            "evd_post": [ctypes.c_char_p, ctypes.c_char_p, ctypes.c_char_p,
                         ctypes.c_size_t],
            "evd_drain": [ctypes.c_int],
            "evd_set_reconnect": [ctypes.c_int, ctypes.c_int],
            "evd_set_client_id": [ctypes.c_char_p, ctypes.c_uint64],
            "evd_set_timeout": [ctypes.c_int],
        }.get(name, [])
    lib.evd_last_error.restype = ctypes.c_char_p
    lib.evd_posts_failed.restype = ctypes.c_uint64
    lib.evd_client_sequence.restype = ctypes.c_uint64
    return lib


class Proxy(threading.Thread):
    """Between a client and the daemon; cuts after so many bytes."""

    def __init__(self, path, target, dice):
        super().__init__(daemon=True)
        self.target, self.dice, self.cuts, self.ends = target, dice, 0, False
        self.calm = False
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.bind(path)
        self.listener.listen(16)

    def run(self):
        while not self.ends:
            if select.select([self.listener], [], [], 0.05)[0]:
                try:
                    self.carry(self.listener.accept()[0])
                except OSError:
                    pass

    def carry(self, near):
        with near, socket.socket(socket.AF_UNIX) as far:
            far.connect(self.target)
            left = {near: self.dice.randrange(200, 20000),
                    far: self.dice.randrange(100, 2000)}
            while not self.ends:
                for one in select.select([near, far], [], [], 0.05)[0]:
                    most = 65536 if self.calm else left[one]
                    data = one.recv(min(65536, most))
                    if not data:
                        return
                    (far if one is near else near).sendall(data)
                    left[one] -= len(data)
                    if left[one] <= 0 and not self.calm:
                        self.cuts += 1
                        return


@unittest.skipIf(os.environ.get("SANITIZE"), "the library has no sanitizer")
class Once(ctl.TestCase):
    def setUp(self):
        super().setUp()
        self.daemon.configure(
            "[Store]", f"Path={os.path.join(self.daemon.root, 'store')}")
        self.lib = library()
        self.evd = self.lib.evd_new()
        self.addCleanup(self.lib.evd_free, self.evd)
        self.ok(self.lib.evd_set_reconnect(self.evd, 1, 20))
        self.ok(self.lib.evd_set_timeout(self.evd, 20000))

    def ok(self, r):
        self.assertGreaterEqual(r, 0, self.lib.evd_last_error(self.evd))

    def count(self, *mailbox):
        self.daemon.session("count", "Alias=count", script=COUNT,
                            mailbox=mailbox)

    def socket_path(self):
        return os.path.join(self.daemon.root, "eventd.sock")

    def connect(self, path):
        self.ok(self.lib.evd_set_socket(self.evd, path.encode()))
        self.ok(self.lib.evd_connect(ctypes.c_void_p(self.evd), 20000))

    def post(self, alias, data):
        self.ok(self.lib.evd_post(self.evd, alias, b"add", data, len(data)))

    def test_a_connection_that_is_cut_at_any_byte(self):
        self.count()
        self.start()
        path = os.path.join(self.daemon.root, "proxy.sock")
        proxy = Proxy(path, self.socket_path(), random.Random(3))
        proxy.start()
        self.ok(self.lib.evd_set_client_id(self.evd, b"proxied", 0))
        self.connect(path)
        n = 0
        deadline = time.monotonic() + 60
        while proxy.cuts < 25 and time.monotonic() < deadline:
            self.post(b"count", f"{n}:{'x' * (n % 300)}".encode())
            n += 1
            if n % 50 == 0:
                self.ok(self.lib.evd_drain(self.evd, 20000))
        proxy.calm = True
        self.ok(self.lib.evd_drain(self.evd, 20000))
        proxy.ends = True
        self.assertGreaterEqual(proxy.cuts, 25)
        self.assertEqual(self.lib.evd_posts_failed(self.evd), 0)
        self.assertEqual(self.ctl("call", "count", "told").decode(),
                         f"{n} 0")

    def test_a_daemon_that_is_killed(self):
        self.daemon.session("jobs", "Alias=jobs", "Kind=client",
                            mailbox=("Durable=yes",))
        self.start()
        self.ok(self.lib.evd_set_client_id(self.evd, b"killer", 1))
        self.connect(self.socket_path())
        dice, n = random.Random(5), 0
        for _ in range(6):
            for _ in range(dice.randrange(50, 400)):
                self.post(b"jobs", str(n).encode())
                n += 1
            until = time.monotonic() + dice.random() * 0.01
            wait_for(lambda: time.monotonic() > until, "some moment")
            self.daemon.process.kill()
            self.daemon.wait()
            self.daemon.hear()
            self.daemon.notices.clear()
            self.daemon.start()
        self.ok(self.lib.evd_drain(self.evd, 20000))
        self.assertEqual(self.lib.evd_client_sequence(self.evd), n + 1)
        self.assertEqual(self.lib.evd_posts_failed(self.evd), 0)
        self.assertEqual(
            self.object("status", "jobs")["events"]["queued"], n)
        # the order as well
        with self.daemon.client() as c:
            c.request("bind", (1, "jobs"), (2, 1))
            c.until(lambda: len(c.deliveries) >= 20)
        events = self.objects("queue", "peek", "jobs", "-n", "20")
        self.assertEqual([e.get("data") for e in events],
                         [str(i) for i in range(20)])

    def test_who_counts_himself_may_post_again(self):
        self.count()
        self.start()
        path = self.socket_path()
        for _ in range(2):
            self.ok(self.lib.evd_set_client_id(self.evd, b"mine", 100))
            self.connect(path)
            for i in range(5):
                self.post(b"count", f"bad{i}".encode())
            self.ok(self.lib.evd_drain(self.evd, 20000))
            self.lib.evd_close(self.evd)
        self.assertEqual(self.ctl("call", "count", "told").decode(), "5 0")


if __name__ == "__main__":
    unittest.main()
