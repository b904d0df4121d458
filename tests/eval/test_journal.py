"""Journal: what is written stays, a torn line goes, and anything else is refused."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from threading import Thread

import pytest
from hypothesis import given
from hypothesis import strategies as st

from epic_eval.journal import Journal, key_of, read_lines
from epic_memory.errors import InvalidInputError


@given(st.data())
def test_a_journal_cut_anywhere_keeps_every_whole_line(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    path = tmp_path_factory.mktemp("journal") / "j.jsonl"
    with Journal(path) as journal:
        for number in range(4):
            journal.add(str(number), {"text": "höhe\u2028" * number})
    content = path.read_bytes()
    cut = data.draw(st.integers(0, len(content)))
    path.write_bytes(content[:cut])
    with Journal(path) as journal:
        assert len(journal) == content[:cut].count(b"\n")
        journal.add("new", {})
    with Journal(path) as journal:
        assert "new" in journal
        assert len(journal) == content[:cut].count(b"\n") + 1


_WRITING = """
import sys
from epic_eval.journal import Journal, _alone
journal = Journal(sys.argv[1])
with _alone(journal._file):
    for half in '{"key": "theirs", ', '"text": "whole"}\\n':
        journal._file.write(half)
        journal._file.flush()
        print("written", flush=True)
        sys.stdin.read()
"""


@pytest.mark.skipif(sys.platform == "win32", reason="no lock there")
def test_what_another_process_is_writing_is_no_torn_line(tmp_path: Path) -> None:
    path, made = tmp_path / "j.jsonl", list[Journal]()
    writes = [sys.executable, "-c", _WRITING, str(path)]
    with subprocess.Popen(writes, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as other:
        assert other.stdin and other.stdout and other.stdout.readline()
        opening = Thread(target=lambda: made.append(Journal(path)))
        opening.start()
        opening.join(0.3)  # opened at once, it would cut the line off
        other.stdin.close()
        opening.join()
    made[0].add("ours", {})
    assert [record["key"] for record in read_lines(path)] == ["theirs", "ours"] == [each["key"] for each in made[0]]


def test_a_line_that_is_no_record_is_refused_by_its_number(tmp_path: Path) -> None:
    path = tmp_path / "j.jsonl"
    path.write_text('{"key": "a"}\n[1]\n{"key": "b"}\n', encoding="utf-8")
    with pytest.raises(InvalidInputError, match="line 2"):
        Journal(path)
    path.write_text('{"a": 1}\n', encoding="utf-8")
    with pytest.raises(InvalidInputError, match="without a key"):
        Journal(path)


def test_keys_tell_parts_apart() -> None:
    assert key_of("a", "b") == key_of("a", "b") != key_of("ab") != key_of("a", ["b"])
