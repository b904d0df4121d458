"""Sessions at the command line: what a user types, one command after the other, and parts of what comes back.

Each file is one. Below a command, `$ epic ...`, stand parts of what it prints, whatever the spaces
between words; behind `!` what it does not print; `[2]` if it is refused, with a message on stderr; `NAME := REGEX`
gives a part of what it printed a name, to be typed later. `> FILE` writes a file of the lines below it; `$ mv FILE
FILE` and `$ rm FILE` do what they say, also to folders; `$ edit FILE OLD NEW` replaces
a text in a file, and `$ cat FILE` prints one.
"""

from __future__ import annotations

import re
import shlex
import shutil
from pathlib import Path

from command_line import Epic, Result, refused


def spaced(text: str) -> str:
    return " ".join(text.split())


def check(result: Result, below: list[str], names: dict[str, str]) -> None:
    printed = result.out + result.err
    if "[2]" in below:
        refused(result)
    assert result.code == (2 if "[2]" in below else 0), printed
    for line in below:
        named = re.fullmatch(r"(\w+) := (.*)", line)
        if named is not None:
            names[named[1]] = re.findall(named[2], printed)[0]
        elif line.startswith("! "):
            assert spaced(line[2:]) not in spaced(printed), printed
        elif line != "[2]":
            assert spaced(line) in spaced(printed), (line, printed)


def play(session: Path, epic: Epic) -> None:
    """Do what a session says, in the working directory."""
    names: dict[str, str] = {}
    for step in re.split(r"\n+(?=[$>] )", session.read_text(encoding="utf-8").strip()):
        head, *below = step.split("\n")
        if head.startswith("> "):
            (path := Path(head[2:])).parent.mkdir(parents=True, exist_ok=True)
            path.write_text("\n".join(below), encoding="utf-8")
            continue
        if head.startswith("#"):  # says what the session shows
            continue
        _, command, *words = shlex.split(head)
        if command == "epic":
            check(epic(*(names.get(word, word) for word in words)), below, names)
        elif command == "cat":
            check(Result(0, Path(words[0]).read_text(encoding="utf-8"), ""), below, names)
        elif command == "mv":
            Path(words[1]).parent.mkdir(parents=True, exist_ok=True)
            Path(words[0]).rename(words[1])
        elif command == "rm":
            shutil.rmtree(words[0]) if Path(words[0]).is_dir() else Path(words[0]).unlink()
        else:
            text = Path(words[0]).read_text(encoding="utf-8")
            assert command == "edit" and words[1] in text, head
            Path(words[0]).write_text(text.replace(*words[1:]), encoding="utf-8")
