"""Forms and reminders on the command line."""

from __future__ import annotations

import json
from datetime import date, timedelta
from pathlib import Path

import pytest

from epic_apps.cli.main import main
from epic_memory import EpicMemory
from lm_servers import LMServer


def test_a_form_is_filled_in_and_days_are_listed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, form = str(tmp_path / "me.epic"), tmp_path / "form.json"
    soon = date.today() + timedelta(days=5)
    with EpicMemory.open(path, ["I avoid hotels with casinos."]) as memory:
        memory.facts.add("I was born on 12 August 1986.")
        memory.facts.add(f"The exam is on {soon}.")
    form.write_text(json.dumps({"fields": [{"name": "born", "type": "date"}, {"name": "blood_type"}]}))
    assert main(["fill", path, str(form)]) == 0
    shown = capsys.readouterr().out
    assert "born: 1986-08-12" in shown and '"I was born on 12 August 1986."' in shown
    assert "blood_type: (nothing relevant is known)" in shown and "1 of 2 fields filled in." in shown
    assert main(["fill", path, str(form), "--json"]) == 0
    assert [each["value"] for each in json.loads(capsys.readouterr().out)] == ["1986-08-12", None]
    assert main(["fill", path, path]) == 2
    form.write_text("[" * 100_000)
    assert main(["fill", path, str(form)]) == 2
    capsys.readouterr()
    assert main(["due", path]) == 0
    assert f"{soon}  The exam" in capsys.readouterr().out
    assert main(["due", path, "--before", str(soon)]) == 0
    assert "No fact names a day" in capsys.readouterr().out
    assert main(["due", path, "--before", "soon"]) == 2


def test_a_model_reads_the_values(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, form = str(tmp_path / "me.epic"), tmp_path / "form.json"
    with EpicMemory.open(path, ["I avoid hotels with casinos."]) as memory:
        memory.facts.add("I was born on 12 August 1986.")
    form.write_text(json.dumps({"fields": [{"name": "born", "type": "date"}]}))
    said = {"number": 1, "quote": "born on 12 August 1986", "value": "1986-08-12"}
    with LMServer(lambda request: json.dumps(said)) as server:
        command = ["fill", path, str(form), "--llm", "openai:tiny", "--llm-url", server.base_url]
        assert main(command) == 0
    assert "born: 1986-08-12  [" in capsys.readouterr().out
