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


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs processes that can be forked and killed")
@pytest.mark.parametrize(
    ("name", "budget"),
    [
        *((name, None) for name in crashing_edits.WRITES),
        # With a budget, a write may evict something first.
        *((name, "150 kB") for name in ("replace a fact", "accept add_preference", "undo a replacement")),
    ],
)
def test_a_kill_at_any_statement_leaves_old_or_new(tmp_path: Path, name: str, budget: str | None) -> None:
    command = [sys.executable, crashing_edits.__file__, str(tmp_path), name, *([budget] if budget else [])]
    run = subprocess.run(command, check=False, capture_output=True, text=True, timeout=300)
    assert run.returncode == 0, run.stderr
    left = json.loads(run.stdout)
    # It was killed both before the change was in force and, at the last, after it.
    assert left["before"] > 3 and left["after"] >= 1
