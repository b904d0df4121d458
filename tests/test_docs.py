"""The code in the README, the docs and the examples runs as it stands."""

from __future__ import annotations

import json
import os
import re
import runpy
import subprocess
import sys
import zipfile
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from epic_memory.encoders import default_encoder
from lm_servers import LMServer
from scripted import read_prompt

# As a user has it.
ROOT = Path(__file__).parents[1]
PAGES = [
    page for page in (ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))) if "```python" in page.read_text()
]
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))
NOTEBOOKS = sorted((ROOT / "examples").glob("*.ipynb"))
NUMBER = re.compile(r"\d+(?:\.\d+)?")
DAY = re.compile(r"\b\d{4}-\d\d-\d\d\b")  # what holds today ends with the day on which a notebook is run
# What a line says of itself that is to be changed.
ON_OLLAMA = re.compile(r"^.*# on Ollama: (.*)$", re.MULTILINE)


def judge(request: dict[str, Any]) -> str:
    """What a model answers on these pages: each chunk is about the first preference that it is to be judged under."""
    answers = [
        {
            "chunk": number,
            "decision": "Keep",
            "preferences": [
                {"preference": first, "stance": "neutral", "instruction": "Use what it says when it is asked for."}
            ],
            "evidence": "It is about it.",
        }
        for number, (first, *_) in enumerate(read_prompt(request["messages"]).under, start=1)
    ]
    return json.dumps({"answers": answers})


def ollama_at(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let clients of Ollama find a server elsewhere than at Ollama's usual address, which LlamaIndex's always name."""
    monkeypatch.setenv("OLLAMA_HOST", url)
    client = import_module("ollama._client")
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


@pytest.mark.slow
def test_the_code_of_the_pages_is_typed(tmp_path: Path) -> None:
    """As a user's type checker sees it, in strict mode."""
    pytest.importorskip("mypy", reason="needs the extra lint")
    for page in PAGES:
        # The names of one framework are taken anew by a section on the other.
        for part in re.split(r"(?m)^(?=## LlamaIndex$)", page.read_text(encoding="utf-8")):
            lines, inside = [], False
            for line in part.splitlines():
                fence = line.startswith("```")
                inside = line == "```python" if fence else inside
                lines.append(line if inside and not fence else "")
            if any(lines):
                heading = re.sub(r"\W", "", part.partition("\n")[0]).lower()
                (tmp_path / f"{page.stem.lower()}_{heading}.py").write_text("\n".join(lines) + "\n", encoding="utf-8")
    # By the project's own settings, which are strict: so what was found out of the packages before is not found anew.
    done = subprocess.run(
        [sys.executable, "-m", "mypy", *map(str, sorted(tmp_path.glob("*.py")))],
        cwd=ROOT,
        capture_output=True,
        encoding="utf-8",
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.slow
@pytest.mark.skipif(os.name == "nt", reason="the page's commands are for a POSIX shell")
def test_the_first_page_can_be_pasted_from_top_to_bottom_and_again(tmp_path: Path) -> None:
    page = (ROOT / "docs/index.md").read_text(encoding="utf-8")
    # What a user installs is installed here.
    (tmp_path / "epic").write_text(f'#!/bin/sh\nexec "{sys.executable}" -m epic_apps "$@"\n', encoding="utf-8")
    (tmp_path / "epic").chmod(0o755)
    environment = {**os.environ, "PATH": f"{tmp_path}{os.pathsep}{os.environ['PATH']}", "HOME": str(tmp_path)}
    said = {"author": {"role": "user"}, "content": {"content_type": "text", "parts": ["I'm allergic to peanuts."]}}
    talk = {"title": "Dinner", "mapping": {"a": {"parent": None, "message": said}}, "current_node": "a"}
    with zipfile.ZipFile(tmp_path / "chatgpt.zip", "w") as export:
        export.writestr("conversations.json", json.dumps([talk]))
    install = "python3 -m venv .venv && . .venv/bin/activate && pip install ."
    shell = re.findall(r"^ {4}(\S.*)$", re.sub(r"```.*?```", "", page, flags=re.DOTALL), re.MULTILINE)
    assert shell[0] == install
    blocks = re.findall(r"```python\n(.*?)```", page, re.DOTALL)

    def pasted(command: list[str], text: str) -> tuple[str, str]:
        done = subprocess.run(
            command, input=text, cwd=tmp_path, env=environment, capture_output=True, encoding="utf-8", check=False
        )
        assert done.returncode == 0, done.stderr
        return done.stdout, done.stderr

    for _ in range(2):
        printed, _ = pasted(["/bin/sh", "-e"], "\n".join(shell[1:]))
        assert "notes/bellmore.md" in printed and "✗ kept because" in printed
        assert "✓ kept because it is about hotels and casinos" in printed
        assert "allergic to peanuts" in printed and "claude-desktop: connected" in printed
        # Each block as it is pasted at the prompt, and Enter.
        printed, prompts = pasted([sys.executable, "-i", "-q"], "\n".join(f"{block}\n" for block in blocks))
        assert "Error" not in prompts, prompts
        assert "Steer clear" in printed and "Document 1:" in printed and "add_preference" in printed


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.name)
def test_an_example_runs(example: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    if example.name == "ray_build.py":
        pytest.importorskip("ray")
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
        written = "".join(line for out in cell["outputs"] for line in out["text"])
        printed, stored = (DAY.sub("DAY", text) for text in (capsys.readouterr().out, written))
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
    from epic_apps.cli.main import main

    assert main(["--help"]) == 0
    known = capsys.readouterr().out
    used = set(re.findall(r"(?:^ {4}|&& |`)epic (\w+)", (ROOT / page).read_text(encoding="utf-8"), re.MULTILINE))
    assert used
    assert all(command in known for command in used)


def test_the_figures_of_the_pages_name_commands_that_are_there(capsys: pytest.CaptureFixture[str]) -> None:
    from epic_apps.cli.main import main

    shared = (ROOT / "tests/benchmarks/common.py").read_text(encoding="utf-8")
    helped: dict[str, str] = {}
    for page in (ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))):
        text = page.read_text(encoding="utf-8")
        for name, given in re.findall(r"((?:bench|fit|make)_\w+\.py)([^`#\n]*)", text):
            (script,) = (*ROOT.glob(f"tests/benchmarks/{name}"), *ROOT.glob(f"shared/tools/{name}"))
            there = script.read_text(encoding="utf-8") + shared
            for option in re.findall(r"--([\w-]+)", given):  # an option of `script_options`, or of argparse
                assert f"{option.replace('-', '_')}=" in there or f'"--{option}"' in there, (page, name, option)
        for name, given in re.findall(r"epic eval ([a-z-]+)(?![.\w])([^`#\n]*)", text):
            if name not in helped:
                assert main(["eval", name, "-h"]) == 0, (page, name)
                helped[name] = capsys.readouterr().out
            assert not [one for one in re.findall(r"--[\w-]+", given) if one not in helped[name]], (page, name)
    assert len(helped) >= 8
