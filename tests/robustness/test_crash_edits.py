"""Kill -9 in an edit of facts or a decision about a proposal: what is left is the memory before it, or after it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import crashing_edits

pytestmark = pytest.mark.usefixtures("locking")


NAMES = list(crashing_edits.WRITES)
# Some at once, as each process takes its time to start. With a budget, a write may evict something first.
CALLS = [*((NAMES[start::4], "") for start in range(4))]
CALLS += [(["replace a fact", "accept add_preference", "undo a replacement"], "150 kB")]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs processes that can be forked and killed")
@pytest.mark.parametrize(("names", "budget"), CALLS, ids=lambda value: value if isinstance(value, str) else value[0])
def test_a_kill_at_any_statement_leaves_old_or_new(tmp_path: Path, names: list[str], budget: str) -> None:
    command = [sys.executable, crashing_edits.__file__, str(tmp_path), budget, *names]
    run = subprocess.run(command, check=False, capture_output=True, text=True, timeout=600)
    assert run.returncode == 0, run.stderr
    for name, left in json.loads(run.stdout).items():
        # It was killed both before the change was in force and, at the last, after it.
        assert left["before"] > 3 and left["after"] >= 1, name
