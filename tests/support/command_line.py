"""The command line, run in this process: what a command ended with, and files for it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple, TypeAlias

import pytest

from epic_apps.cli.main import main


class Result(NamedTuple):
    """What a command ended with."""

    code: int
    out: str
    err: str


Epic: TypeAlias = Callable[..., Result]


def runner(capsys: pytest.CaptureFixture[str]) -> Epic:
    """Runs commands."""

    def run(*arguments: str) -> Result:
        try:
            code = main(arguments)
        except SystemExit as stop:
            code = int(stop.code or 0)
        return Result(code, *capsys.readouterr())

    return run


def refused(result: Result, *parts: str) -> None:
    """It ended with 2, and one clear message on stderr that holds the parts."""
    assert result.code == 2
    assert "Traceback" not in result.err
    assert result.err.strip()
    assert [part for part in parts if part not in result.err] == []


def jsonl(path: Path, *records: object) -> Path:
    """A file with a record a line."""
    path.write_text("".join(json.dumps(record, ensure_ascii=False) + "\n" for record in records), encoding="utf-8")
    return path
