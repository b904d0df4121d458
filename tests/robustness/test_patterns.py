"""Regular expressions: each one that sees a user's text is done with it in a moment, whatever the text."""

from __future__ import annotations

import ast
import importlib
import pkgutil
import re
import signal
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator
from functools import cache
from itertools import islice
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import pytest

import epic_apps
import epic_graph
import epic_langchain
import epic_learn
import epic_llamaindex
import epic_memory
import epic_scale

try:
    from re import _parser as grammar
except ImportError:  # Python 3.10
    import sre_parse as grammar

PACKAGES = (epic_memory, epic_learn, epic_graph, epic_apps, epic_scale, epic_langchain, epic_llamaindex)
# What is tried at a glance, and what it becomes where the glance took long: a pattern that is done in time for the
# longer one is linear, or nearly so.
GLANCE, LONG = 2_000, 32_000
NOTICED, MOST = 0.005, 0.5
# Modules that read no more characters, or words, at once: the others are given all of the longer text.
BOUNDS = {
    "epic_memory.preferences.": (1_000, 1_000),
    "epic_learn.forms.": (1_000, 1_000),
    # One sentence of a turn.
    **dict.fromkeys(("epic_learn.times.", "epic_learn.durations.", "epic_learn.cues."), (4_000, 120)),
}
SHAPES = (
    *"1aA \n\"'.,-_/(<[{#*`\\|@é字。\u0301",
    *(
        "A1 ",
        "1a",
        "A.",
        "a.",
        "a-",
        "a ",
        "A ",
        "Ab ",
        "1 ",
        "1.",
        "1,",
        "1-",
        " \n",
        "a, ",
        "and ",
        "not ",
        "I ",
        "my ",
    ),
    *("<a ", '"a ', "a@a.", "+1 ", "A1B2", "2020-01-01 ", ": ", "now ", "so "),
)
FLAGS = {"I": re.I, "M": re.M, "S": re.S, "X": re.X, "A": re.A, "IGNORECASE": re.I, "DOTALL": re.S, "ASCII": re.A}


class Used(NamedTuple):
    """A pattern, where it is held, and the calls that it is used by."""

    pattern: re.Pattern[str]
    where: str
    calls: frozenset[str]


@cache
def used() -> tuple[Used, ...]:
    """All patterns of the packages: in the names of modules, in what these hold, and written into calls."""
    found: dict[tuple[str, int], tuple[re.Pattern[str], str]] = {}
    calls: dict[tuple[str, int], set[str]] = defaultdict(set)
    for module in modules():
        tree = ast.parse(Path(str(module.__file__)).read_text(encoding="utf-8"))
        parents = {child: node for node in ast.walk(tree) for child in ast.iter_child_nodes(node)}
        for node in ast.walk(tree):
            if (call := re_call(node)) and (pattern := written(node)):
                found.setdefault((pattern.pattern, pattern.flags), (pattern, f"{module.__name__}:{node.lineno}"))
                calls[pattern.pattern, pattern.flags].add(call)
            elif (pattern := meant(node, module)) and (call := call_of(node, parents)):
                calls[pattern.pattern, pattern.flags].add(call)
        for name, held in vars(module).items():
            for pattern in patterns_in(held):
                found.setdefault((pattern.pattern, pattern.flags), (pattern, f"{module.__name__}.{name}"))
                if held is not pattern:  # part of a table, it may be used in any way
                    calls[pattern.pattern, pattern.flags].add("search")
    return tuple(Used(*found[key], frozenset(calls[key])) for key in sorted(found, key=lambda key: found[key][1]))


def meant(node: ast.AST, module: ModuleType) -> re.Pattern[str] | None:
    """The pattern that a name means in a module, or one behind the name of another module."""
    held: object = None
    if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
        held = vars(module).get(node.id)
    elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
        other = vars(module).get(node.value.id)
        held = getattr(other, node.attr, None) if isinstance(other, ModuleType) else None
    return held if isinstance(held, re.Pattern) and isinstance(held.pattern, str) else None


def call_of(node: ast.AST, parents: dict[ast.AST, ast.AST]) -> str:
    """The method by which a pattern is used at a place; "search" if it is passed on, "" if only its text is read."""
    above = parents[node]
    if not isinstance(above, ast.Attribute):
        return "search"
    return "" if above.attr in ("pattern", "flags") else above.attr


def modules() -> Iterator[Any]:
    for package in PACKAGES:
        yield package
        for info in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            if not info.name.endswith("__main__"):
                yield importlib.import_module(info.name)


def re_call(node: ast.AST) -> str:
    """The name of a function of `re` that is called with a pattern to be used at once."""
    if not (
        isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and ast.unparse(node.func.value) == "re"
    ):
        return ""
    return "" if node.func.attr in ("compile", "escape") else node.func.attr


def written(call: Any) -> re.Pattern[str] | None:
    """The pattern in re.sub(r"...", ...), with its flags."""
    first = call.args[0] if call.args else None
    if not isinstance(first, ast.Constant) or not isinstance(first.value, str):
        return None
    named = [
        node.attr
        for each in (*call.args[1:], *call.keywords)
        for node in ast.walk(each)
        if isinstance(node, ast.Attribute)
    ]
    flags = re.NOFLAG if hasattr(re, "NOFLAG") else re.RegexFlag(0)
    for name in named:
        flags |= FLAGS.get(name, 0)
    return re.compile(first.value, flags)


def patterns_in(held: object, depth: int = 0) -> Iterator[re.Pattern[str]]:
    if isinstance(held, re.Pattern):
        if isinstance(held.pattern, str):
            yield held
    elif depth < 4 and isinstance(held, (tuple, list, set, frozenset, dict)):
        for each in [*held, *(held.values() if isinstance(held, dict) else ())]:
            yield from patterns_in(each, depth + 1)


def bounded(one: Used, length: int) -> Iterator[str]:
    """Texts that hurt a pattern, of this length, or shorter if it never sees so long ones."""
    characters, words = next((most for begin, most in BOUNDS.items() if one.where.startswith(begin)), (length, length))
    for text in texts(one.pattern, min(length, characters)):
        over = list(islice(re.finditer(r"\S+", text), words, words + 1))
        within = text[: over[0].start()] if over else text
        # The parser of preferences puts one space for several.
        yield " ".join(within.split()) if one.where.startswith("epic_memory.preferences.") else within


def texts(pattern: re.Pattern[str], length: int) -> Iterator[str]:
    """Texts that hurt: runs of what hurts many patterns, and of what this one repeats, behind what stands before it."""
    for shape in SHAPES:
        yield shape * (length // len(shape))
    repeated: list[tuple[str, str]] = []
    whole = example(grammar.parse(pattern.pattern, pattern.flags), repeated)
    for before, body in dict.fromkeys(repeated[-12:]):
        run = before + body * ((length - len(before)) // len(body))
        yield run
        yield f"{run}\x00"
        yield f"{run}a"
        yield f"\x00{before}" + f"{body} " * ((length - len(before)) // (len(body) + 1))
        if before:
            yield (before + body) * (length // len(before + body)) + "\x00"
    if whole:
        yield whole * (length // len(whole))


def example(parsed: Iterable[Any], repeated: list[tuple[str, str]], before: str = "") -> str:
    """A text that fits a parsed pattern, more or less; on the way, what it may repeat and what stands before that."""
    text = ""
    for kind, value in parsed:
        match str(kind):
            case "LITERAL":
                text += chr(value)
            case "NOT_LITERAL":
                text += "b" if chr(value) == "a" else "a"
            case "ANY":
                text += "a"
            case "IN":
                text += members(value)[0]
            case "BRANCH":
                branches = [example(branch, repeated, before + text) for branch in value[1]]
                text += branches[0]
            case "SUBPATTERN":
                text += example(value[-1], repeated, before + text)
            case "ATOMIC_GROUP":
                text += example(value, repeated, before + text)
            case "ASSERT":
                example(value[1], repeated, before + text)
            case "MAX_REPEAT" | "MIN_REPEAT" | "POSSESSIVE_REPEAT":
                least, most, inner = value
                body = example(inner, repeated, before + text)
                if int(most) > 60:
                    only = inner[0] if len(inner) == 1 else (None, None)
                    bodies = members(only[1])[:4] if str(only[0]) == "IN" else [body]
                    repeated += [(before + text, each) for each in bodies if each]
                text += body * int(least)
    return text


CATEGORIES = {"DIGIT": "1", "SPACE": " \n", "WORD": "a1", "NOT_SPACE": "a", "NOT_WORD": " ,", "NOT_DIGIT": "a"}


def members(parsed: Iterable[Any]) -> list[str]:
    """Some characters of a set."""
    listed = [(str(kind), value) for kind, value in parsed]
    chosen = ""
    for kind, value in listed:
        if kind == "LITERAL":
            chosen += chr(value)
        elif kind == "RANGE":
            chosen += chr(value[0])
        elif kind == "CATEGORY":
            chosen += CATEGORIES[str(value).removeprefix("CATEGORY_")]
    if listed[0][0] == "NEGATE":
        return [each for each in "aA1 .,-'\"_" if each not in chosen] or ["é"]
    return list(chosen)


class SlowError(Exception):
    pass


def seconds(one: Used, text: str) -> float:
    """The processor's time that a pattern takes for a text; it is ended when that is more than `MOST`."""

    def ended(*_: object) -> None:
        raise SlowError

    before = signal.signal(signal.SIGVTALRM, ended)
    started = time.process_time()
    signal.setitimer(signal.ITIMER_VIRTUAL, MOST)
    try:
        read(one, text)
    except SlowError:
        return MOST
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)
    return time.process_time() - started


def read(one: Used, text: str) -> None:
    """Use a pattern as the packages use it."""
    if one.calls & {"match", "fullmatch"}:
        one.pattern.match(text)
    if "fullmatch" in one.calls:
        one.pattern.fullmatch(text)
    if one.calls - {"match", "fullmatch"}:
        for _ in one.pattern.finditer(text):
            pass


ROOMS = ("context", "lm", "preferences", "text", "types", "verification")
BESIDE = ("epic_learn", "epic_graph")


def room(one: Used) -> str:
    package, _, rest = one.where.replace(":", ".").partition(".")
    name = rest.partition(".")[0]
    if package in BESIDE:
        return package
    return name if package == "epic_memory" and name in ROOMS else "others"


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="needs signals that end a call")
@pytest.mark.parametrize("name", [*ROOMS, *BESIDE, "others"])
def test_a_pattern_is_done_with_any_text_in_a_moment(name: str) -> None:
    slow, tried = [], 0
    for one in used():
        if room(one) != name:
            continue
        tried += 1
        for short, long in zip(bounded(one, GLANCE), bounded(one, LONG), strict=True):
            if seconds(one, short) >= NOTICED and (taken := seconds(one, long)) >= MOST:
                shown = f"{long[:30]!r}...{long[-9:]!r} ({len(long)} characters)"
                slow.append(f"{one.where} {sorted(one.calls)}: {taken:.2f} s for {shown}")
                break
    assert not slow, "\n".join(slow)
    assert tried


def test_all_patterns_are_collected() -> None:
    held = {one.where for one in used()}
    assert len(held) > 200
    assert {"epic_learn.forms.values._CODE", "epic_memory.text.statement_pairs._DENIAL"} <= held
    # Each is read in the way in which the packages use it, also from another module.
    assert [one.where for one in used() if not one.calls] == []
    calls = {one.where: one.calls for one in used()}
    assert calls["epic_learn.boundaries.QUESTION"] == {"match"}
    assert calls["epic_learn.boundaries.NOT_MEANT"] == {"search"}


@pytest.mark.parametrize("pattern", [r"(a+)+$", r"(?:a|aa)*b", r"\d+(?: ?[A-Z\d]*\d[A-Z\d]*)*(?!\w)"])
def test_what_collects_them_finds_patterns_that_hurt(pattern: str) -> None:
    one = Used(re.compile(pattern), "", frozenset({"search"}))
    assert any(seconds(one, text) >= MOST for text in texts(one.pattern, LONG))
