#!/usr/bin/env python3
"""docs/WORDS.md names what there is, and all of it.

Scripts are asked what `eventd` holds, plugins and clients by their headers,
eventctl by its help.
"""
import glob
import os
import re

import ctl
import harness

TREE = os.path.dirname(os.path.dirname(os.path.dirname(
    os.path.abspath(__file__))))
COLUMNS = ("lua", "plugin", "libevd", "eventctl")

NAMES = """
return {
    names = function()
        local found = {}
        for name, value in pairs(eventd) do
            if type(value) == "function" or type(value) == "userdata" then
                found[#found + 1] = name
            elseif type(value) == "table" and name ~= "params" then
                for inner in pairs(value) do
                    found[#found + 1] = name .. "." .. inner
                end
            end
        end
        return table.concat(found, " ")
    end,
}
"""


def read(*path):
    with open(os.path.join(TREE, *path), encoding="utf-8") as file:
        return file.read()


def page():
    """{column: the names in backticks}, but for those in brackets."""
    found = {column: set() for column in COLUMNS}
    for line in read("docs", "WORDS.md").splitlines():
        cells = [re.sub(r"\([^)]*\)", "", cell) for cell in line.split("|")]
        if len(cells) == len(COLUMNS) + 3:
            for column, cell in zip(COLUMNS, cells[2:]):
                found[column] |= set(re.findall(r"`([^`]+)`", cell))
    return found


def headers(pattern):
    paths = glob.glob(os.path.join(TREE, "include", "eventd", pattern))
    return "".join(read(path) for path in sorted(paths))


class Words(ctl.TestCase):
    def test_scripts(self):
        self.daemon.session("asked", script=NAMES)
        self.daemon.start()
        status, names = self.daemon.client().call("asked", "names", b"")
        self.assertEqual(status, 0)
        self.assertEqual(set(names.decode().split()), page()["lua"])

    def test_plugins(self):
        found = set(re.findall(r"^evd_(?:ctx)?(\w+)\(", headers("plugin*.h"),
                               re.M))
        named = {re.sub("^evd_", "", name) for name in page()["plugin"]}
        self.assertEqual(found, named)

    def test_clients(self):
        text = "".join(headers(name) for name in
                       ("[!p]*.h", "p[!l]*.h"))
        found = set(re.findall(r"\b(evd_\w+)\(", text))
        self.assertEqual(page()["libevd"] - found, set())

    def test_verbs_and_their_options(self):
        help_of = {verb["verb"]: {o["name"] for o in verb["options"]}
                   for verb in self.objects("help")}
        verbs = set()
        for name in page()["eventctl"]:
            verb, *rest = name.split()
            verbs.add(verb)
            for word in rest:
                if word.startswith("--"):
                    self.assertIn(word[2:], help_of[verb], name)
                else:
                    self.assertIn(
                        word, self.ctl("help", verb).decode(), name)
        self.assertEqual(set(help_of), verbs)


if __name__ == "__main__":
    harness.main()
