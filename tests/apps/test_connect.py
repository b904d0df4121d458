"""Connecting assistants: their settings before, with our entry, and undone; and what the doctor says of it."""

from __future__ import annotations

import json
import os
from importlib.metadata import PackageNotFoundError
from importlib.resources import files
from pathlib import Path
from typing import Any, get_args
from unittest.mock import Mock

import pytest

from command_line import Epic, refused
from epic_apps.connect import CLIENTS, Client, connect, disconnect, settings_path
from epic_apps.doctor import examine
from epic_apps.sizes import sizes
from epic_memory import EpicMemory
from epic_memory.errors import InvalidInputError
from tables import table

WRITTEN = [client for client in get_args(Client) if CLIENTS[client].path]
OTHER = {"command": "npx", "args": ["-y", "another"]}


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    made = tmp_path / "home"
    made.mkdir()
    for name in ("HOME", "USERPROFILE"):
        monkeypatch.setenv(name, str(made))
    return made


@pytest.fixture
def memory(tmp_path: Path) -> Path:
    with EpicMemory.open(tmp_path / "me.epic", ["I avoid casinos."]):
        pass
    return tmp_path / "me.epic"


def before(client: Any) -> str:
    """Settings as a user may have them: of other things, another server, indented by four, letters of all kinds."""
    settings = {"theme": "dunkel \u2014 ja", "size": 1.50, CLIENTS[client].key: {"another": OTHER}, "last": [1, 2]}
    return json.dumps(settings, indent=4, ensure_ascii=False)


@pytest.mark.parametrize("client", WRITTEN)
def test_settings_before_with_our_entry_and_undone(client: Any, home: Path, memory: Path, epic: Epic) -> None:
    path = settings_path(client)
    assert path is not None and path.is_relative_to(home)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(before(client), encoding="utf-8")
    path.chmod(0o640)
    done = epic("connect", client, str(memory), "--read-only")
    assert done.code == 0 and "connected" in done.out, done.err
    text = path.read_text(encoding="utf-8")
    settings = json.loads(text)
    servers = settings[CLIENTS[client].key]
    entry = servers.pop("epic-memory")
    assert settings == json.loads(before(client)), "nothing else changed"
    assert '\n    "theme": "dunkel \u2014 ja"' in text
    assert Path(entry["command"]).is_absolute() and entry["args"][-3:] == ["mcp", str(memory), "--read-only"]
    assert (entry.get("type") == "stdio") is (client in ("vscode", "claude-code"))
    assert os.name == "nt" or path.stat().st_mode & 0o777 == 0o640
    assert "connected already" in epic("connect", client, str(memory), "--read-only").out
    assert "disconnected" in epic("connect", client, "--undo").out
    assert path.read_text(encoding="utf-8") == before(client)
    assert [each.name for each in path.parent.iterdir()] == [path.name]
    assert "not connected" in epic("connect", client, "--undo").out


@pytest.mark.parametrize(("platform", "places"), table(__file__, "where_settings_are"))
def test_where_settings_are(home: Path, monkeypatch: pytest.MonkeyPatch, platform: str, places: list[str]) -> None:
    monkeypatch.setattr("sys.platform", platform)
    assert [settings_path(client) for client in ("claude-desktop", "vscode", "zed")] == [home / each for each in places]
    assert settings_path("lm-studio") == home / ".lmstudio/mcp.json"


@pytest.mark.parametrize("client", WRITTEN)
def test_settings_that_were_not_there_go_again_also_after_two_connections(
    client: Any, home: Path, memory: Path
) -> None:
    for more in ([], ["--read-only"]):
        done = connect(client, ["mcp", str(memory), *more])
        assert done.backup is None and list(json.loads(done.path.read_text())) == [CLIENTS[client].key]
    disconnect(client)
    assert not [each for each in done.path.parent.iterdir() if each.is_file()]


def test_what_changed_since_stays_when_it_is_undone(tmp_path: Path) -> None:
    path = tmp_path / "mcp.json"
    path.write_text(before("cursor"), encoding="utf-8")
    connect("cursor", ["mcp", "/me.epic"], path=path)
    connect("cursor", ["mcp", "/other.epic"], path=path)
    settings = json.loads(path.read_text(encoding="utf-8"))
    settings["new"] = True
    path.write_text(json.dumps(settings), encoding="utf-8")
    disconnect("cursor", path=path)
    assert json.loads(path.read_text(encoding="utf-8")) == {**json.loads(before("cursor")), "new": True}


@pytest.mark.parametrize("text", table(__file__, "settings_that_would_lose_something"))
def test_settings_that_would_lose_something_are_not_touched(tmp_path: Path, text: str) -> None:
    path = tmp_path / "mcp.json"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(InvalidInputError) as refused:
        connect("cursor", ["mcp", "/me.epic"], path=path)
    assert any(part in str(refused.value) for part in ('"epic-memory"', "Mend it", "surrogate"))
    assert path.read_text(encoding="utf-8") == text and len(list(tmp_path.iterdir())) == 1


@pytest.mark.skipif(os.name == "nt", reason="links need a right on Windows")
def test_a_link_stays_a_link(tmp_path: Path) -> None:
    (tmp_path / "dotfiles.json").write_text("{}", encoding="utf-8")
    (tmp_path / "mcp.json").symlink_to(tmp_path / "dotfiles.json")
    connect("cursor", ["mcp", "/me.epic"], path=tmp_path / "mcp.json")
    assert (tmp_path / "mcp.json").is_symlink()
    assert "epic-memory" in (tmp_path / "dotfiles.json").read_text(encoding="utf-8")


def states(*arguments: Any) -> dict[str, str]:
    return {check.about: check.state for check in examine(*arguments)}


@pytest.mark.skipif(os.name == "nt", reason="rights are other ones on Windows")
def test_the_doctor_on_files(home: Path, memory: Path, epic: Epic, tmp_path: Path) -> None:
    memory.chmod(0o644)
    (rights,) = [check for check in examine(memory) if check.about == "rights"]
    assert rights.state == "note" and f"chmod 600 {memory}" in str(rights)
    assert states(tmp_path / "none.epic")["file"] == "problem"
    memory.write_bytes(memory.read_bytes()[:-3000] + b"x" * 3000)
    assert states(memory)["file"] == "problem"
    refused(epic("doctor", str(memory)), "does not work yet")


def test_an_entry_by_hand_comes_back(tmp_path: Path) -> None:
    path = tmp_path / "mcp.json"
    by_hand = {"command": "/usr/bin/epic", "args": ["mcp", "/mine.epic"]}
    text = json.dumps({"mcpServers": {"epic-memory": by_hand, "another": OTHER}}, indent=2)
    path.write_text(text, encoding="utf-8")
    connect("cursor", ["mcp", "/me.epic"], path=path)
    connect("cursor", ["mcp", "/other.epic"], path=path)
    assert disconnect("cursor", path=path).status == "disconnected"
    assert path.read_text(encoding="utf-8") == text and len(list(tmp_path.iterdir())) == 1
    with pytest.raises(InvalidInputError, match="by hand"):
        disconnect("cursor", path=path)
    assert path.read_text(encoding="utf-8") == text
    connect("cursor", ["mcp", "/me.epic"], path=path)
    settings = json.loads(path.read_text(encoding="utf-8"))
    path.write_text(json.dumps({**settings, "new": True}), encoding="utf-8")
    disconnect("cursor", path=path)
    assert json.loads(path.read_text(encoding="utf-8")) == {**json.loads(text), "new": True}


@pytest.mark.parametrize(
    ("args", "state"),
    [
        *((options, "ok") for options in (["--read-only"], ["--namespace", "ann", "--any-user"], ["--encoder=static"])),
        *((args, "problem") for args in ([5], ["/gone/me.epic", "--encoder", __file__])),
    ],
)
def test_the_doctor_finds_the_memory_behind_options_or_misses_it(
    home: Path, memory: Path, args: list[Any], state: str
) -> None:
    connect("cursor", ["mcp", *args, *([str(memory)] if state == "ok" else [])])
    assert states()["cursor"] == state


def test_the_doctor_says_what_is_installed_because_of_us(epic: Epic, monkeypatch: pytest.MonkeyPatch) -> None:
    measured = sizes()
    monkeypatch.setattr("epic_apps.sizes.sizes", lambda: measured)
    found = {one["part"]: one for one in json.loads(epic("doctor", "--sizes", "--json").out)}
    encoder = files("epic_memory") / "data" / "static_encoder"
    weight = sum(Path(str(each)).stat().st_size for each in encoder.iterdir())
    assert found["epic_memory/data/static_encoder"] == {
        "part": "epic_memory/data/static_encoder", "bytes": weight, "kind": "ours",
    }  # fmt: skip
    assert found["numpy"]["kind"] == found["httpcore"]["kind"] == "needed" and found["numpy"]["bytes"] > 10_000_000
    assert not found.keys() & {"pip", "epic-memory", "jinja2", "hypothesis", "mkdocs", "ruff"}
    light = sum(one["bytes"] for one in found.values())
    assert epic("doctor", "--sizes").out.splitlines()[-1] == f"{light / 1e6:7.1f} MB  the light install"
    monkeypatch.setattr("importlib.metadata.distribution", Mock(side_effect=PackageNotFoundError))
    assert {one.kind for one in sizes()} == {"ours"}, "a clone that is not installed"
