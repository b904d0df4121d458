"""The command line: what it prints, its exit codes, and what it leaves behind."""

from __future__ import annotations

import io
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from command_line import Epic, Result, jsonl, refused
from epic_apps.cli.main import main
from epic_memory import EpicMemory, SearchOptions, Settings
from tables import lines

PREFERENCES = ["I avoid hotels with on-site casinos.", "I follow a strict vegan diet."]
CASINO = "The Desert Inn is a hotel with an on-site casino."
VEGAN = "A strict vegan diet leaves out milk, eggs and honey."
NOISE = "The square root of two cannot be written as a fraction."

unprivileged = pytest.mark.skipif(
    not hasattr(os, "geteuid") or os.geteuid() == 0, reason="permissions do not stop this user"
)


@pytest.fixture
def epic(terminal: Epic) -> Epic:
    """Runs a command in a folder that holds prefs.txt, corpus.jsonl, chat.jsonl and notes/."""
    write_sources()
    return terminal


def write_sources() -> None:
    Path("prefs.txt").write_text("\n".join(PREFERENCES), encoding="utf-8")
    jsonl(Path("corpus.jsonl"), {"text": CASINO, "id": "casino"}, {"text": VEGAN, "id": "vegan"}, {"text": NOISE})
    jsonl(Path("chat.jsonl"), {"role": "user", "content": "Is there a vegan diet plan for hotels with a casino?"})
    Path("notes").mkdir()
    Path("notes/a.md").write_text("The Palms is a hotel with a casino on site.", encoding="utf-8")


@pytest.fixture(scope="module")
def memory_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A memory that the command line made of corpus.jsonl, for all tests to copy."""
    folder = tmp_path_factory.mktemp("built")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        write_sources()
        assert main(["build", "--preferences", "prefs.txt", "--out", "me.epic", "--quiet", "corpus.jsonl"]) == 0
    return folder / "me.epic"


@pytest.fixture
def built(epic: Epic, memory_file: Path) -> Epic:
    """As `epic`, with the memory me.epic made of corpus.jsonl."""
    shutil.copy(memory_file, "me.epic")
    return epic


def python(*arguments: str, cwd: Path, **options: str) -> Result:
    """Runs `python -m epic_apps.cli.main` as a process of its own."""
    done = subprocess.run(
        [sys.executable, "-m", "epic_apps.cli.main", *arguments],
        cwd=cwd,
        env={**os.environ, **options},
        capture_output=True,
        encoding="utf-8",
        check=False,
    )
    return Result(done.returncode, done.stdout, done.stderr)


def held(path: str = "me.epic") -> set[str]:
    """The ids of all items in a file that have entries."""
    with EpicMemory.open(path, settings=Settings(must_exist=True)) as memory:
        hits = memory.search("hotel", k=max(1, len(memory)), options=SearchOptions(keys="instruction", min_score=None))
        return {hit.item.id for hit in hits}


def listed(epic: Epic) -> list[str]:
    """The preferences, without what is said of each in a line of its own."""
    result = epic("preferences", "me.epic", "list")
    assert result.code == 0
    return [line.partition("  ")[2] for line in result.out.splitlines() if not line.startswith(" ")]


# one command

COMMANDS = lines(Path(__file__).with_name("commands.jsonl"))


@pytest.mark.parametrize("row", [row for row in COMMANDS if "refused" in row], ids=lambda row: " ".join(row["run"]))
def test_what_cannot_be_is_refused_and_changes_nothing(epic: Epic, memory_file: Path, row: dict[str, Any]) -> None:
    Path("empty.txt").touch()
    Path("twice.txt").write_text("I like tea.\nI like TEA.\n", encoding="utf-8")
    Path("latin1.txt").write_bytes("I like tea.\nI like cafés.\n".encode("latin-1"))
    Path("picture.png").touch()
    Path("nothing").mkdir()
    Path("bad.jsonl").write_bytes(b'{"text": "One."}\n{"text": "cut off\n')
    if not row.get("new"):
        shutil.copy(memory_file, "me.epic")
    before = {file: file.read_bytes() for file in Path().rglob("*") if file.is_file() and file.suffix != ".epic"}
    refused(epic(*row["run"]), *row["refused"])
    if row.get("new"):
        assert not [*Path().rglob("*.epic")] and not Path("nowhere").exists()
    else:
        assert (listed(epic), held()) == (PREFERENCES, {"casino", "vegan"})
    assert before == {file: file.read_bytes() for file in before}


@pytest.mark.parametrize("row", [row for row in COMMANDS if "shows" in row], ids=lambda row: " ".join(row["run"])[:99])
def test_what_a_command_shows_and_leaves(built: Epic, row: dict[str, Any]) -> None:
    result = built(*row["run"])
    assert result.code == 0
    assert all(part in result.out for part in row["shows"]) and not any(part in result.out for part in row["lacks"])
    assert (listed(built), held()) == (row["listed"], set(row["held"]))


# demo


@pytest.mark.slow
def test_the_demo_can_keep_its_memory_and_be_run_again(epic: Epic) -> None:
    first, second = epic("demo", "--out", "demo.epic"), epic("demo", "--out", "demo.epic")
    assert (first.code, second.code) == (0, 0)
    assert len(held("demo.epic")) > 0
    assert epic("stats", "demo.epic").code == 0


# build


def test_a_terminal_gets_a_progress_bar_unless_it_shall_be_quiet(epic: Epic, monkeypatch: pytest.MonkeyPatch) -> None:
    build = ("build", "--preferences", "prefs.txt", "corpus.jsonl", "--out")
    add = ("preferences", "a.epic", "add")
    assert epic(*build, "a.epic").err == epic(*add, "I love trains.").err == ""
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    assert "3 items [" in epic(*build, "b.epic").err
    assert epic(*build, "c.epic", "--quiet").err == ""
    assert "items/s" in epic(*add, "I avoid fish.").err


@unprivileged
def test_a_folder_without_permission_is_named(epic: Epic) -> None:
    Path("locked").mkdir(mode=0o555)
    refused(
        epic("build", "--preferences", "prefs.txt", "--out", "locked/me.epic", "--quiet", "corpus.jsonl"),
        "locked",
        "ermission",
    )
    assert list(Path("locked").iterdir()) == []


# add


def typed(monkeypatch: pytest.MonkeyPatch, content: bytes) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(content), encoding="utf-8"))


def test_add_reads_standard_input_and_cuts_it_as_a_note(built: Epic, monkeypatch: pytest.MonkeyPatch) -> None:
    typed(monkeypatch, (" ".join(f"The hotel {n} has an on-site casino." for n in range(40))).encode())
    added = built("add", "me.epic", "-", "A vegan diet needs beans.")
    assert re.search(r"^seen +4$", added.out, re.M), added.err
    assert len(held()) == 6
    typed(monkeypatch, b"I work night shifts.\n\nMy sister is called Ines.\n")
    assert built("note", "me.epic", "-").out.count("insert: ") == 2


@pytest.mark.parametrize(
    ("content", "part"), [(b"", "Nothing came in"), (b" \n", "Nothing"), (b"a\ncaf\xe9", "line 2")]
)
def test_standard_input_without_a_text_is_refused(
    built: Epic, monkeypatch: pytest.MonkeyPatch, content: bytes, part: str
) -> None:
    for command in ("add", "note"):
        typed(monkeypatch, content)
        refused(built(command, "me.epic", "-"), part)


# ask


def test_ask_shows_the_item_and_the_reason_and_with_verbose_the_figures_and_a_log(built: Epic) -> None:
    result = built("ask", "me.epic", "Which hotel should I book?", "-k", "1")
    reason = f'kept because it is about hotels and on-site casinos, and you said: "{PREFERENCES[0]}"'
    assert result == (0, f"1. casino\n   {CASINO}\n   ✗ {reason}; it goes against that\n\n", "")
    result = built("ask", "me.epic", "Which hotel should I book?", "-k", "1", "-v")
    assert re.search(r"^1\. casino  -?\d\.\d+$", result.out, re.M)
    assert f"[conflicts] {PREFERENCES[0]} (similarity 0." in result.out
    assert "search done in" in result.err


def test_ask_without_a_question_reads_some_until_an_empty_line(built: Epic, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("Which hotel should I book?\nA vegan diet?\n\nnever asked\n"))
    result = built("ask", "me.epic", "-k", "1")
    assert result.code == 0
    assert re.findall(r"^1\. (\w+)$", result.out, re.M) == ["casino", "vegan"]


# stats, explain, retry


def test_stats_counts_and_weighs_each_part(built: Epic) -> None:
    result = built("stats", "me.epic")
    sizes = {name: int(size) for name, size in re.findall(r"^(\w+) +(\d+) bytes +[\d.]+ MB", result.out, re.M)}
    assert re.search(r"^items +2$", result.out, re.M)
    assert json.loads(built("stats", "me.epic", "--json").out)["bytes"] == sizes
    parts = "documents index instructions preferences verdicts ledger graph rest total"
    assert set(sizes) == set(parts.split())
    assert sizes["total"] == sum(size for name, size in sizes.items() if name != "total")
    assert sizes["total"] == Path("me.epic").stat().st_size


# the file


@pytest.mark.parametrize("length", [0, 5000])
def test_a_damaged_file_is_refused_and_left_alone(built: Epic, length: int) -> None:
    Path("me.epic").write_bytes(Path("me.epic").read_bytes()[:length])
    refused(built("stats", "me.epic"), "me.epic")
    assert Path("me.epic").stat().st_size == length


# as a process


@pytest.mark.parametrize("context", [(), ("--context",)])
@pytest.mark.slow
def test_a_terminal_that_cannot_show_a_script_still_gets_an_answer(
    epic: Epic, tmp_path: Path, context: tuple[str, ...]
) -> None:
    jsonl(Path("corpus.jsonl"), {"id": "素食", "text": "A strict vegan diet: 素食主义 🙂."})
    build = ("build", "--preferences", "prefs.txt", "--out", "me.epic", "--quiet", "corpus.jsonl")
    assert epic(*build).code == 0
    done = python("ask", "me.epic", "vegan diet", *context, cwd=tmp_path, PYTHONIOENCODING="cp1252")
    assert (done.code, done.err) == (0, "") and "A strict vegan diet: ????" in done.out


@pytest.mark.parametrize("module", ["epic_apps", "epic_apps.cli.main"])
def test_a_module_ends_with_the_code_of_its_command(tmp_path: Path, module: str) -> None:
    done = subprocess.run([sys.executable, "-m", module, "fly"], cwd=tmp_path, capture_output=True, check=False)
    assert (done.returncode, done.stdout) == (2, b"")


@pytest.mark.skipif(os.name == "nt", reason="there are no POSIX pipes")
@pytest.mark.parametrize("command", [["demo"], ["--help"], ["eval", "--help"]])
def test_a_reader_that_goes_away_is_no_error(tmp_path: Path, command: list[str]) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    done = subprocess.run(
        [sys.executable, "-m", "epic_apps", *command],
        cwd=tmp_path,
        stdout=writing,
        stderr=subprocess.PIPE,
        encoding="utf-8",
        check=False,
    )
    os.close(writing)
    assert (done.returncode, done.stderr) == (0, "")
