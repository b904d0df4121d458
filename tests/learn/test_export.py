"""Exports: what is wrong with a line is said without the user's words."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from epic_memory import EpicMemory
from epic_memory.errors import InvalidInputError

NOTE = "The Golden Ace is a hotel with a casino."


@pytest.mark.parametrize(
    ("changed", "named"),
    [({"rationale": None}, "rationale"), ({"confidence": True}, "confidence"), ({"similarity": "0.5"}, "similarity")],
)
def test_a_wrong_entry_is_named_by_its_line_and_field(tmp_path: Path, changed: dict[str, Any], named: str) -> None:
    with EpicMemory(["I avoid hotels with casinos."]) as memory:
        memory.add([NOTE])
        memory.file.export(tmp_path / "all.jsonl")
    lines = (tmp_path / "all.jsonl").read_text("utf-8").splitlines()
    item = json.loads(lines[2])
    item["entries"][0] |= changed
    lines[2] = json.dumps(item)
    (tmp_path / "all.jsonl").write_text("\n".join(lines) + "\n", "utf-8")
    with pytest.raises(InvalidInputError, match=f"line 3: {named}: ") as caught:
        EpicMemory.restore(tmp_path / "all.jsonl", tmp_path / "me.epic")
    assert "Golden Ace" not in str(caught.value) and not (tmp_path / "me.epic").exists()


def test_facts_without_a_model_meet_nothing_of_it() -> None:
    script = """
import sys
from epic_memory import EpicMemory
EpicMemory().facts.add("My cat is called Miso.")
print([name for name in sys.modules if name.startswith(("epic_memory.lm", "httpx", "ollama"))])
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, encoding="utf-8", check=True)
    assert done.stdout.strip() == "[]"
