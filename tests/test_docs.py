"""The code in the README, the docs and the examples runs as it stands."""

from __future__ import annotations

import json
import re
import runpy
import sys
from pathlib import Path
from typing import Any

import ollama  # noqa: F401  # its client is what the pages' models use
import pytest

from epic_core.encoders import default_encoder
from lm_servers import LMServer

# As a user has it.
pytestmark = pytest.mark.light_tier

ROOT = Path(__file__).parents[1]
PAGES = [
    page for page in (ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))) if "```python" in page.read_text()
]
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))
NOTEBOOKS = sorted((ROOT / "examples").glob("*.ipynb"))
NUMBER = re.compile(r"\d+(?:\.\d+)?")
# What a line says of itself that is to be changed.
ON_OLLAMA = re.compile(r"^.*# on Ollama: (.*)$", re.MULTILINE)


def judge(request: dict[str, Any]) -> str:
    """What a model answers on these pages: each chunk is about the first preference it is shown."""
    stated = [{"preference": 1, "stance": "neutral", "instruction": "Use what it says when it is asked for."}]
    return json.dumps({"decision": "Keep", "rationale": "It is about it.", "preferences": stated, "text": "A text."})


def ollama_at(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let clients of Ollama find a server elsewhere than at Ollama's usual address, which LlamaIndex's always name."""
    monkeypatch.setenv("OLLAMA_HOST", url)
    client = sys.modules["ollama._client"]
    parsed = client._parse_host
    usual = ("http://localhost:11434", "http://127.0.0.1:11434")
    monkeypatch.setattr(client, "_parse_host", lambda host: parsed(url if host in usual else host))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
@pytest.mark.slow
def test_the_code_of_a_page_runs(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    blocks = re.findall(r"```python\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL)
    encoder = default_encoder()
    models = ["qwen3:4b", "nomic-embed-text"]
    with LMServer(judge, models=models, embed=lambda text: encoder.encode([text])[0].tolist()) as server:
        ollama_at(server.url, monkeypatch)
        for block in blocks:
            exec(compile(block, str(page), "exec"), names)
    if any("LMVerifier(" in block for block in blocks):
        assert server.calls
        assert not names["report"].undecided


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.name)
def test_an_example_runs(example: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(sys, "argv", [str(example)])
    runpy.run_path(str(example), run_name="__main__")
    assert capsys.readouterr().out


def cells(notebook: Path) -> list[dict[str, Any]]:
    return [cell for cell in json.loads(notebook.read_text(encoding="utf-8"))["cells"] if cell["cell_type"] == "code"]


@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda notebook: notebook.name)
def test_a_notebook_runs_and_prints_what_is_stored_with_it(
    notebook: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {"__name__": "__main__"}
    for cell in cells(notebook):
        exec(compile("".join(cell["source"]), str(notebook), "exec"), names)
        printed, stored = capsys.readouterr().out, "".join(line for out in cell["outputs"] for line in out["text"])
        assert cell["execution_count"]
        assert NUMBER.sub("#", printed) == NUMBER.sub("#", stored)
        # Another processor may round otherwise.
        numbers = [float(number) for number in NUMBER.findall(stored)]
        assert [float(number) for number in NUMBER.findall(printed)] == pytest.approx(numbers, rel=0.05, abs=0.02)


def on_ollama() -> list[Any]:
    """The examples in which a line says how to run them on Ollama, with that line changed."""
    found = []
    for example in (*EXAMPLES, *NOTEBOOKS):
        code = example.read_text(encoding="utf-8")
        if example.suffix == ".ipynb":
            code = "\n".join("".join(cell["source"]) for cell in cells(example))
        if ON_OLLAMA.search(code):
            found.append(pytest.param(ON_OLLAMA.sub(r"\1", code, count=1), id=example.name))
    return found


@pytest.mark.parametrize("code", on_ollama())
@pytest.mark.slow
def test_an_example_runs_on_ollama_with_one_line_changed(
    code: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    with LMServer(judge, models=["qwen3:4b"]) as server:
        ollama_at(server.url, monkeypatch)
        exec(compile(code, "example", "exec"), {"__name__": "__main__"})
        assert server.calls
    assert capsys.readouterr().out


@pytest.mark.parametrize("page", ["README.md", "docs/index.md", "docs/command_line.md"])
def test_the_commands_of_a_page_exist(page: str, capsys: pytest.CaptureFixture[str]) -> None:
    from epic_core.cli.main import main

    assert main(["--help"]) == 0
    known = capsys.readouterr().out
    used = set(re.findall(r"(?:^ {4}|&& |`)epic (\w+)", (ROOT / page).read_text(encoding="utf-8"), re.MULTILINE))
    assert used
    assert all(command in known for command in used)
