"""Tables of examples beside the tests that read them: lines of JSON, each with the name of its table."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any


@cache
def lines(file: Path) -> list[dict[str, Any]]:
    """Return the objects of a file with one JSON object a line."""
    return [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]


def table(test_file: str, name: str) -> list[Any]:
    """Return the rows of a table in the `.jsonl` file that is called as a test file is: values, or lists of them."""
    return [each["row"] for each in lines(Path(test_file).with_suffix(".jsonl")) if each["of"] == name]
