#!/usr/bin/env python3
"""Very many sessions in one daemon: listed by pages, each found by its alias
as fast as if it were alone, and small. SESSIONS= says how many."""
import os
import subprocess
import time

import ctl
import harness

MANY = int(os.environ.get("SESSIONS", "50000"))
PLUGIN = os.path.join(os.environ.get("EVENTD_BUILD", "build/debug"),
                      "tests/unit/kind/plugins/many.so")


def mean(times):
    return sum(times) / len(times)


class Many(ctl.TestCase):
    def setUp(self):
        super().setUp()
        self.daemon.session("maker", "Alias=maker", "Kind=native",
                            f"Plugin={PLUGIN}")
        self.daemon.configure(f"MaxSessions={MANY + 10}")
        self.daemon.start()
        self.client = self.daemon.client()
        self.client.socket.settimeout(200)

    def rss(self):
        with open(f"/proc/{self.daemon.process.pid}/statm",
                  encoding="utf-8") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")

    def timed(self, alias):
        """Seconds of a call to that session."""
        start = time.monotonic()
        self.assertEqual(self.client.call(alias, "cancel", b"1"),
                         (0, b"-3"))
        return time.monotonic() - start

    def status(self, n):
        """Seconds of eventctl status, which is to tell of @n sessions; the
        best of five."""
        times = []
        for _ in range(5):
            start = time.monotonic()
            self.assertEqual(self.object("status")["sessions"], n)
            times.append(time.monotonic() - start)
        return min(times)

    def test_each_is_listed_and_found(self):
        alone = [self.timed("maker") for _ in range(200)]
        status_alone = self.status(3)  # the maker, this client and eventctl
        before = self.rss()
        start = time.monotonic()
        self.assertEqual(self.client.call("maker", "make", str(MANY).encode()),
                         (0, str(MANY).encode()))
        made = time.monotonic() - start
        each = (self.rss() - before) / MANY
        step = MANY // 200
        found = [self.timed(f"many/{i * step:07}") for i in range(200)]
        status = self.status(MANY + 3)
        start = time.monotonic()
        aliases = self.listed()
        listed = time.monotonic() - start
        print(f"{MANY} sessions: {each:.0f} B each, made in {made:.2f} s, "
              f"status {status * 1e3:.1f} ms ({status_alone * 1e3:.1f} "
              f"alone), listed in {listed:.2f} s, "
              f"a call {mean(found) * 1e6:.0f} us ({mean(alone) * 1e6:.0f} "
              f"alone)")
        self.assertEqual(aliases, {f"many/{i:07}" for i in range(MANY)})
        self.assertEqual([s["aliases"] for s in self.objects(
            "list", f"many/{MANY - 1:07}")], [[f"many/{MANY - 1:07}"]])
        if not os.environ.get("SANITIZE"):
            self.assertLess(each, 1500)  # with specification, parent

    def listed(self):
        """The aliases that eventctl lists, each once; it keeps no more than a
        page, whatever their number."""
        with subprocess.Popen(
                self.command("--json", "--timeout", "200", "list", "many/"),
                stdout=subprocess.PIPE) as process:
            lines = [line.split(b'"many/')[1][:7].decode()
                     for line in process.stdout]
            _, status, usage = os.wait4(process.pid, 0)
            process.returncode = status
        self.assertEqual(status, 0)
        self.assertEqual(len(lines), MANY)
        if not os.environ.get("SANITIZE"):
            self.assertLess(usage.ru_maxrss, 64 * 1024)
        return {f"many/{line}" for line in lines}


if __name__ == "__main__":
    harness.main()
