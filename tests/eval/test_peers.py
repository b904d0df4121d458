"""Peers: what is measured of each, and what is said of those that are not there."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from evaluation_data import tiny_data

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "benchmarks"))

import bench_peers
from bench_peers import measure_all, peers_report, texts_of
from stores import OURS, PEERS, measure


@pytest.fixture
def data(tmp_path: Path) -> Path:
    folder = tiny_data(tmp_path / "data")
    turns = [{"id": f"D{n}", "speaker": "Ann", "text": f"I bought {n} kites in May."} for n in range(10)]
    questions = [{"question": "Who bought 7 kites?", "evidence": ["D7"], "category": 1}]
    questions += [{"question": "Who bought a car?", "evidence": ["D1"], "category": 5}]
    conversations = [{"id": "c", "turns": turns, "questions": questions}]
    (folder / "locomo_conversations.json").write_text(json.dumps(conversations), encoding="utf-8")
    return folder


@pytest.mark.parametrize("name", [OURS, "EPIC, ten preferences", "FAISS flat"])
def test_bytes_are_those_on_disk_and_the_evidence_is_found(data: Path, tmp_path: Path, name: str) -> None:
    given = texts_of(data, 20)
    assert len(set(given["texts"])) == 20
    assert given["queries"] == [("Who bought 7 kites?", ["Ann: I bought 7 kites in May."])]
    texts, store = tmp_path / "texts.json", tmp_path / "store"
    (tmp_path / "preferences.txt").write_text("I like kites.\nI like trains.", encoding="utf-8")
    texts.write_text(json.dumps(given), encoding="utf-8")
    store.mkdir()
    made = measure(name, texts, store)
    assert made["bytes"] == sum(path.stat().st_size for path in store.rglob("*") if path.is_file()) > 20 * 4
    assert made["found"] == 1.0 and min(made[key] for key in ("add", "search")) > 0


@pytest.mark.slow
def test_ratios_are_printed_and_what_is_not_installed_or_fails_is_said(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    given = (str(data), "--out", str(tmp_path / "out"), "--sizes", "20", "--only", OURS, "FAISS flat")
    monkeypatch.setattr(sys, "argv", ["bench_peers.py", *given])
    bench_peers.main()
    printed = capsys.readouterr().out
    assert "(1.00)" in printed and "FAISS flat" in printed
    absent = PEERS["FAISS flat"]._replace(package="no-such-package-here")
    monkeypatch.setitem(PEERS, "absent", absent)
    monkeypatch.setitem(PEERS, "broken", PEERS["FAISS flat"])  # the process that measures does not know this name
    made = measure_all(data, tmp_path / "work", [10], names=["absent", "broken"], seconds=60, say=print)
    assert made["absent", 10] == "not installed" and "KeyError" in str(made["broken", 10])
    assert next(row[2] for row in peers_report(made)[1].rows) == "not installed"  # type: ignore[union-attr]
