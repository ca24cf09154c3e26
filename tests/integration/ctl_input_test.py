#!/usr/bin/env python3
"""eventctl: payloads come through as they were given, or are refused."""
import base64
import os

import ctl
import harness


class Payload(ctl.TestCase):
    def setUp(self):
        super().setUp()
        self.start()

    def echo(self, *words, **more):
        return self.ctl("call", "echo", "hello", *words, **more)

    def test_words_stay_as_they_are(self):  # B133
        for word in ("a b", "$HOME", "'\"`\\", "a\nb\n", "é€😀", "=", "x",
                     " ", "{\"a\": 1}", "1=2", "-", "--", "-x", "--json"):
            with self.subTest(word=word):
                self.assertEqual(self.echo("--data", word), word.encode())
                self.assertEqual(self.echo("--data=" + word), word.encode())
                if word != "-":
                    self.assertEqual(self.echo("--", word), word.encode())

    def test_bytes_that_are_no_text(self):
        self.assertEqual(self.echo(b"\xff\xfe"), b"\xff\xfe")

    def test_nothing_is_empty(self):
        self.assertEqual(self.echo(), b"")
        self.assertEqual(self.echo(""), b"")
        self.assertEqual(self.echo("--data", ""), b"")

    def test_stdin_is_left_alone_unless_asked_for(self):
        self.assertEqual(self.echo(input=b"secret"), b"")

    def test_stdin_whole(self):  # B127
        for data in (b"", b"x", b"x\n", b"a\r\nb\0c", bytes(100000),
                     os.urandom(1 << 20)):
            self.assertEqual(self.echo("-", input=data), data)
            self.assertEqual(self.echo("--file", "-", input=data), data)

    def test_file(self):
        path = self.daemon.write("x", b"\0\n\xff")
        self.assertEqual(self.echo("--file", path), b"\0\n\xff")
        self.assertEqual(self.echo("-f", "/dev/null"), b"")

    def test_hex_and_base64(self):
        data = bytes(range(256))
        text = base64.b64encode(data).decode()
        self.assertEqual(self.echo("--hex", data.hex()), data)
        self.assertEqual(self.echo("--hex", data.hex(" ").upper()), data)
        self.assertEqual(self.echo("--base64", text), data)
        self.assertEqual(self.echo("--base64", "--data", text), data)
        self.assertEqual(
            self.echo("--base64", "-", input=base64.encodebytes(data)), data)

    def test_pairs(self):
        self.assertEqual(self.echo("a=1", "b:=[1, null]", "c="),
                         b'{"a":"1","b":[1, null],"c":""}')
        self.assertEqual(self.echo("q=\"\\\n"), b'{"q":"\\"\\\\\\n"}')

    def test_the_largest_that_the_daemon_takes(self):
        with self.daemon.client() as client:
            limit = harness.first(client.welcome, 6)
        size = self.ctl("call", "echo", "size", "-", input=bytes(limit))
        self.assertEqual(int(size), limit)
        size = self.ctl("call", "echo", "size", "-", input=bytes(limit + 1))
        self.assertEqual(int(size), limit + 1)  # by a memfd
        most = 32 << 20
        self.ctl("call", "echo", "size", "-", input=bytes(most + 1), code=65)
        self.told(f"over {most} bytes")
        self.ctl("post", "echo", "size", "--lines", input=bytes(limit + 1),
                 code=65)

    def test_endless_input_is_refused(self):
        self.ctl("post", "echo", "size", "--file", "/dev/zero", code=65)
        self.ctl("post", "echo", "size", "--file", "/dev/zero", "--lines",
                 code=65)

    def test_a_terminal_is_not_asked(self):
        ours, theirs = os.openpty()
        done = self.spawn("post", "echo", "hello", stdin=theirs)
        self.ended(done)
        os.close(ours)
        os.close(theirs)


class Records(ctl.TestCase):
    def post(self, data, *words, n, **more):
        """Posts the input to a bound alias that gets n events."""
        process = self.bind("sink", "--raw", "--null", "-n", str(n or 1))
        self.ctl("post", "sink", "e", *words, input=data, **more)
        if n == 0:
            self.ctl("post", "sink", "e", "none")
        return self.ended(process).split(b"\0")[:-1]

    def setUp(self):
        super().setUp()
        self.start()

    def test_lines(self):
        self.assertEqual(self.post(b"a\nb c\n", "--lines", n=2),
                         [b"a", b"b c"])

    def test_the_last_line_needs_no_end(self):
        self.assertEqual(self.post(b"a\nb", "--lines", "-", n=2),
                         [b"a", b"b"])

    def test_carriage_returns_stay(self):
        self.assertEqual(self.post(b"a\r\n\r\n", "--lines", n=2),
                         [b"a\r", b"\r"])

    def test_empty_lines_are_events(self):
        self.assertEqual(self.post(b"\n\na\n", "--lines", n=3),
                         [b"", b"", b"a"])

    def test_no_input_is_no_event(self):  # B127
        self.assertEqual(self.post(b"", "--lines", n=0), [b"none"])
        self.assertEqual(self.post(b"", "--null", n=0), [b"none"])

    def test_a_line_of_a_mebibyte(self):
        line = b"x" * (1 << 20)
        self.assertEqual(self.post(line + b"\ny\n", "--lines", n=2),
                         [line, b"y"])

    def test_null(self):
        self.assertEqual(self.post(b"a\nb\0\0c", "--null", n=3),
                         [b"a\nb", b"", b"c"])

    def test_of_a_file(self):
        path = self.daemon.write("x", b"1\n2\n")
        self.assertEqual(self.post(b"", "--lines", "--file", path, n=2),
                         [b"1", b"2"])

    def test_in_hex(self):
        self.assertEqual(self.post(b"61\n6262\n", "--lines", "--hex", n=2),
                         [b"a", b"bb"])

    def test_what_is_wrong_ends_it(self):
        process = self.bind("sink")
        self.ctl("post", "sink", "e", "--lines", "--hex",
                 input=b"61\nxx\n62\n", code=65)
        self.assertEqual(process.stdout.readline(), b"e a\n")


class Headers(ctl.TestCase):
    def test_arrive_in_order(self):
        self.start()
        process = self.bind("sink", "-n", "2", "--json")
        self.ctl("post", "sink", "e", "-H", "a=1", "-H", "b==", "-H", "a=2")
        self.ctl("post", "sink", "e", "--in", "0", "-H", "later=yes")
        out = self.ended(process)
        self.assertIn(b'"headers":[{"name":"a","data":"1","size":1},'
                      b'{"name":"b","data":"=","size":1},'
                      b'{"name":"a","data":"2","size":1}]', out)
        self.assertIn(b'{"name":"later","data":"yes","size":3}', out)

    def test_too_much_of_them(self):
        self.start()
        self.ctl("post", "echo", "e", "-H", "a=" + "x" * 20000, code=65)


if __name__ == "__main__":
    harness.main()
