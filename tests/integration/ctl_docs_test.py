#!/usr/bin/env python3
"""eventctl: help, manual page and completions tell of the same things (B130).

Nothing here needs a daemon, but for the completion of aliases.
"""
import os
import re
import shutil
import subprocess
import unittest

import ctl
import harness

TREE = os.path.dirname(os.path.dirname(os.path.dirname(
    os.path.abspath(__file__))))
PAGE = os.path.join(TREE, "docs", "man", "eventctl.1")


def read(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


class Docs(ctl.TestCase):
    def verbs(self):
        """{verb: {its options}}, those of every verb under ""."""
        found = {}
        for verb in self.objects("help"):
            found[verb["verb"]] = {o["name"] for o in verb["options"]}
        shared = set.intersection(*found.values())
        found = {name: options - shared for name, options in found.items()}
        return {**found, "": shared}

    def section(self, name):
        match = re.search(rf"^\.Sh {name}$(.*?)(?=^\.Sh )", read(PAGE),
                          re.M | re.S)
        return match[1]

    def test_the_page_lists_every_verb_and_its_options(self):
        page = {}
        for part in re.split(r"^\.It Cm ", self.section("VERBS"),
                             flags=re.M)[1:]:
            name = part.split()[0]
            page[name] = set(re.findall(r"Fl Fl ([a-z0-9-]+)", part))
        verbs = self.verbs()
        shared = verbs.pop("")
        self.assertEqual(sorted(page), sorted(verbs))
        for name, options in verbs.items():
            self.assertEqual(page[name] - shared, options, name)

    def test_the_page_lists_the_options_of_every_verb(self):
        items = re.findall(r"^\.It.*", self.section("OPTIONS"), re.M)
        names = {re.search(r"Fl Fl ([a-z0-9-]+)", item)[1] for item in items}
        self.assertEqual(names, self.verbs()[""])

    def test_the_page_lists_the_letters(self):
        for verb in self.objects("help"):
            for option in verb["options"]:
                if "letter" in option:
                    self.assertIn(
                        f"Fl {option['letter']} , Fl Fl {option['name']}",
                        read(PAGE))

    def test_the_page_has_the_exit_codes_of_the_table(self):
        help_text = self.ctl("help").decode().split("Exit status:")[1]
        for code, word in re.findall(r"^ +(\d+)  ([a-z-]+) ", help_text,
                                     re.M):
            if word in ("ok", "cancelled"):
                continue
            item = re.search(rf"^\.It {code}$(.*?)(?=^\.(It|El))",
                             self.section("EXIT STATUS"), re.M | re.S)
            self.assertRegex(item[1], rf"[(\s]{word}[),]", code)

    @unittest.skipUnless(shutil.which("mandoc"), "no mandoc")
    def test_the_page_is_well_formed(self):
        done = subprocess.run(["mandoc", "-Tlint", "-Wwarning", PAGE],
                              capture_output=True, text=True, check=False)
        self.assertEqual((done.returncode, done.stdout), (0, ""))

    def test_the_help_fits_a_terminal(self):
        texts = [self.ctl("help")]
        texts += [self.ctl("help", verb) for verb in self.verbs() if verb]
        for line in b"".join(texts).decode().splitlines():
            self.assertLessEqual(len(line), 80, line)


class Completion(ctl.TestCase):
    def script(self, shell):
        path = os.path.join(self.daemon.root, "completion." + shell)
        with open(path, "wb") as file:
            file.write(self.ctl("completion", shell))
        return path

    def run_shell(self, *command, **env):
        path = os.path.dirname(harness.EVENTCTL) + ":" + os.environ["PATH"]
        done = subprocess.run(
            command, capture_output=True, text=True, check=False,
            timeout=harness.DEADLINE, stdin=subprocess.DEVNULL,
            env=ctl.without("EVENTD_SOCKET", PATH=path,
                            HOME=self.daemon.root, **env))
        self.assertEqual(done.stderr, "")
        return done.stdout.split("\n")[:-1]

    # -- bash

    def bash(self, *words):
        """What bash completes the last of these words to."""
        return self.run_shell("bash", "--norc", "-c", """
            . "$1"; shift
            compopt() { :; }
            COMP_WORDS=(eventctl "$@"); COMP_CWORD=$#
            _eventctl eventctl "${COMP_WORDS[COMP_CWORD]}" \
                "${COMP_WORDS[COMP_CWORD-1]}"
            printf '%s\\n' "${COMPREPLY[@]}"
            """, "bash", self.script("bash"), *words)

    def test_bash_verbs(self):
        self.assertEqual(self.bash("re"), ["reload", "restart"])
        self.assertEqual(self.bash("--json", "--timeout", "5s", "canc"),
                         ["cancel"])
        self.assertEqual(self.bash("help", "pin"), ["ping"])
        self.assertEqual(self.bash("completion", ""), ["bash", "zsh", "fish"])

    def test_bash_options(self):
        self.assertEqual(self.bash("post", "--wa"), ["--wait"])
        self.assertEqual(self.bash("post", "--no-"),
                         ["--no-legend", "--no-wait"])
        self.assertEqual(self.bash("list", "--no-"), ["--no-legend"])
        self.assertEqual(self.bash("post", "--wait", "d"),
                         ["durable", "delivered"])
        self.assertEqual(self.bash("post", "--wait", "=", "h"), ["handled"])
        self.assertEqual(self.bash("post", "--wait", "=")[0], "accepted")
        self.assertEqual(self.bash("--color", ""),
                         ["auto", "always", "never"])

    def test_bash_knows_the_options_of_each_verb(self):
        for verb in self.objects("help"):
            wanted = {"--" + o["name"] for o in verb["options"]}
            self.assertEqual(set(self.bash(verb["verb"], "--")), wanted,
                             verb["verb"])

    def test_bash_files(self):
        self.daemon.write("a file", "")
        self.assertEqual(
            self.bash("post", "--file", self.daemon.etc + "/a"),
            [self.daemon.etc + "/a file"])

    def test_bash_aliases(self):
        self.start()
        socket = ("--socket", self.daemon.socket)
        self.assertEqual(self.bash(*socket, "post", "e"), ["echo"])
        self.assertEqual(self.bash(*socket, "post", "echo", "e"), [""])
        self.assertEqual(self.bash(*socket, "restart", "x", "e"), ["echo"])
        self.assertEqual(
            self.bash("--socket", "=", self.daemon.socket, "call", ""),
            ["echo"])
        self.assertEqual(self.bash("call", ""), [""])  # no daemon: silence

    @unittest.skipUnless(shutil.which("shellcheck"), "no shellcheck")
    def test_bash_is_clean(self):
        self.run_shell("shellcheck", "-s", "bash", self.script("bash"))

    # -- fish

    def fish(self, line):
        return [found.split("\t")[0] for found in self.run_shell(
            "fish", "--no-config", "-c",
            'source $argv[1]; complete -C $argv[2]', self.script("fish"),
            line)]

    @unittest.skipUnless(shutil.which("fish"), "no fish")
    def test_fish(self):
        self.start()
        self.assertEqual(self.fish("eventctl re"), ["reload", "restart"])
        self.assertEqual(self.fish("eventctl --timeout 5s canc"), ["cancel"])
        self.assertEqual(self.fish("eventctl post --wa"), ["--wait"])
        self.assertEqual(self.fish("eventctl post --wait h"), ["handled"])
        self.assertEqual(self.fish("eventctl ping --wa"), [])
        self.assertEqual(self.fish("eventctl help pin"), ["ping"])
        self.assertEqual(
            self.fish(f"eventctl --socket {self.daemon.socket} post e"),
            ["echo"])

    # -- zsh

    def zsh(self, line):
        """Types the line and a tab in a zsh that shows what it lists. The
        marks are written in two halves, so that no echo of the command that
        prints them is taken for them."""
        out = self.run_shell("zsh", "-f", "-c", r"""
            zmodload zsh/zpty
            zpty z zsh -f -i
            zpty -w z "PS1= PS2= RPS1=; stty -echo; unsetopt zle_bracketed_paste 2>/dev/null"
            zpty -w z "autoload -Uz compinit; compinit -u -D; . '$1'"
            zpty -w z "zstyle ':completion:*' list-prompt ''"
            zpty -w z "
                comppostfuncs=(show)
                show() { print -r -- BEG''IN \$compstate[nmatches]; compstate[insert]='' compstate[list]='' }
                compadd() { builtin compadd -A hits \"\$@\"; print -rl -- HIT:\$^hits; builtin compadd \"\$@\" }
                bindkey '^I' complete-word
                print REA''DY"
            zpty -r -m z x '*READY*'
            zpty -w -n z "$2"$'\t'
            zpty -r -m z x '*BEGIN*'
            print -r -- "$x"
            zpty -d z
            """, "zsh", self.script("zsh"), line, TERM="dumb")
        return sorted({match for text in out
                       for match in re.findall(r"HIT:([^\s\r]+)", text)})

    @unittest.skipUnless(shutil.which("zsh"), "no zsh")
    def test_zsh(self):
        self.start()
        self.assertEqual(self.zsh("eventctl re"), ["reload", "restart"])
        self.assertEqual(self.zsh("eventctl --timeout 5s canc"), ["cancel"])
        self.assertEqual(self.zsh("eventctl post --wait=h"), ["handled"])
        self.assertIn("--no-wait", self.zsh("eventctl post --no-w"))
        self.assertEqual(
            self.zsh(f"eventctl --socket {self.daemon.socket} post e"),
            ["echo"])


if __name__ == "__main__":
    harness.main()
