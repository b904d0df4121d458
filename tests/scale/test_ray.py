"""Building with Ray Data, with two workers of this machine: the same memories as by `add`, whatever is killed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from dying import DyingEncoder, SentEncoder
from epic_memory import EpicMemory, Item, Settings
from epic_memory.encoders import encoder_of
from epic_memory.errors import InvalidInputError
from epic_scale import EpicProcessorConfig, LeaseError, MemoryPool, ScaleReport, build, build_processor
from epic_scale.work import Work
from helpers import HashEncoder

ray = pytest.importorskip("ray")
pytest.importorskip("ray.data")

SETTINGS = Settings(reserve=0)
SUPPORT = Path(__file__).parents[1] / "support"
TOPICS = ("wine", "sea", "trains", "chess")
PEOPLE = {"ann": ["I like wine", "I like the sea"], "ben": ["I like trains"], "../cas": ["I like chess", "I like wine"]}
Content = dict[tuple[str, str], tuple[object, ...]]


@pytest.fixture(scope="module", autouse=True)
def cluster() -> Iterator[None]:
    # Workers unpickle what is in the folder of the tests' fakes.
    found = os.environ.get("PYTHONPATH", "")
    os.environ["PYTHONPATH"] = os.pathsep.join([str(SUPPORT), *sys.path])
    ray.init(num_cpus=2, include_dashboard=False, logging_level="ERROR", log_to_driver=False)
    ray.data.DataContext.get_current().enable_progress_bars = False
    yield
    ray.shutdown()
    os.environ["PYTHONPATH"] = found


def chunks(first: int, last: int) -> list[dict[str, Any]]:
    return [
        {"id": f"c{n}", "text": f"{TOPICS[n % 4]} t{n}", "metadata": {"source": f"about {n % 3}"}}
        for n in range(first, last)
    ]


def written(rows: list[dict[str, Any]], path: Path) -> str:
    path.write_text("\n".join(map(json.dumps, rows)))
    return str(path)


def people_file(folder: Path) -> str:
    rows = [{"user": user, "preference": text} for user, texts in PEOPLE.items() for text in texts]
    return written(rows, folder / "people.jsonl")


def content(memory: EpicMemory) -> Content:
    """The entries, by item and preference."""
    entries = memory.file.entries([item.id for item in memory.items()])
    return {
        (item, one.preference or ""): (
            one.instruction,
            one.stance,
            one.rationale,
            pytest.approx(one.confidence),
            pytest.approx(one.similarity, abs=1e-5),
        )
        for item, found in entries.items()
        for one in found
    }


def by_add(people: Mapping[str, list[str]], rows: list[dict[str, Any]], encoder: Any) -> dict[str, Content]:
    """What `EpicMemory.add` keeps, one user after the other."""
    items, found = [Item(**row) for row in rows], {}
    for user, preferences in people.items():
        with EpicMemory(preferences, encoder=encoder, settings=SETTINGS) as memory:
            memory.add(items)
            found[user] = content(memory)
    assert any(found.values())
    return found


def by_build(sink: Path, encoder: Any) -> dict[str, Content]:
    found: dict[str, Content] = {}
    with MemoryPool(sink / "users", encoder=encoder, settings=SETTINGS) as pool:
        pool.for_each(lambda memory: found.update({memory.namespace: content(memory)}), read_only=True)
    return found


def built(rows: list[dict[str, Any]], people: Any, folder: Path, encoder: Any) -> ScaleReport:
    corpus = written(rows, folder / "corpus.jsonl")
    return build(corpus, people, str(folder / "sink"), encoder=encoder, concurrency=2, batch_size=16)


def test_rows_keep_their_columns_and_an_error_is_one() -> None:
    config = EpicProcessorConfig(preferences=PEOPLE, encoder=SentEncoder(), concurrency=2, batch_size=8)
    named = {"preprocess": lambda row: {**row, "text": row["body"]}, "postprocess": lambda row: {**row, "seen": True}}
    processor = build_processor(config, **named)  # type: ignore[arg-type]
    rows = [{"body": f"{TOPICS[n % 4]} t{n}", "n": n} for n in range(12)]
    rows += [{"body": "", "n": 12}, {"body": "x", "n": 13}]
    found = processor(ray.data.from_items(rows)).take_all()
    assert {row["n"] for row in found} == set(range(14)) and all(row["seen"] for row in found)
    kept = {(row["n"], row["user"], row["preference"]) for row in found if row["keep"]}
    assert kept == {
        (n, user, text) for user, texts in PEOPLE.items() for text in texts for n in range(12) if TOPICS[n % 4] in text
    }
    one = next(row for row in found if row["keep"])
    assert one["stance"] and one["instruction"] and one["score"] > 0
    assert 0 <= one["confidence"] <= 1 and not one["error"]
    (broken,) = [row for row in found if row["error"]]
    assert broken["n"] == 12 and "empty" in broken["error"] and broken["user"] is None and not broken["keep"]
    (nobodys,) = [row for row in found if row["n"] == 13]
    assert nobodys["user"] is None and not nobodys["keep"] and not nobodys["error"]


def test_a_build_is_what_add_makes_and_a_second_one_does_nothing(tmp_path: Path) -> None:
    encoder, rows = encoder_of("static"), chunks(0, 60)
    people = people_file(tmp_path)
    report = built([*rows, {"id": "broken", "text": " ", "metadata": {"source": ""}}], people, tmp_path, encoder)
    expected = by_add(PEOPLE, rows, encoder)
    assert by_build(tmp_path / "sink", encoder) == expected
    assert (report.chunks, report.failed, report.users) == (61, 1, 3)
    assert report.entries == sum(map(len, expected.values())) > 20
    assert "empty" in report.errors[0]
    again = built(rows, people, tmp_path, encoder)
    assert (again.known, again.entries, again.users) == (60, 0, 0)


def test_only_what_has_changed_is_judged_and_written(tmp_path: Path) -> None:
    encoder, rows = SentEncoder(), chunks(0, 40)
    built(rows, PEOPLE, tmp_path, encoder)
    with MemoryPool(tmp_path / "sink" / "users", encoder=encoder, settings=SETTINGS) as pool, pool.get("ben") as memory:
        memory.preferences.add("I like gardens")
    rows = [*rows, *chunks(40, 48)]
    rows[0] = {**rows[0], "text": "sea instead of it"}
    rows[2] = {**rows[2], "text": "of interest to nobody"}
    people = PEOPLE | {"ben": ["I like trains", "I like the sea"], "../cas": ["I like chess"]}
    people["eve"] = ["I like trains"]
    report = built(rows, people, tmp_path, encoder)
    # Who has not changed sees ten new chunks, and the others all of them.
    assert (report.chunks, report.known) == (96, 38)
    expected = by_add(people, rows, encoder)
    assert by_build(tmp_path / "sink", encoder) == expected
    with MemoryPool(tmp_path / "sink" / "users", encoder=encoder, settings=SETTINGS) as pool, pool.get("ben") as memory:
        assert [one.text for one in memory.preferences] == ["I like trains", "I like gardens", "I like the sea"]


def test_a_chunk_that_goes_back_to_an_earlier_version_is_the_earlier_one(tmp_path: Path) -> None:
    encoder, first, second = SentEncoder(), chunks(0, 8), chunks(0, 8)
    second[0] = {**second[0], "text": "sea instead of it"}
    for rows in (first, second, first):
        built(rows, PEOPLE, tmp_path, encoder)
        assert by_build(tmp_path / "sink", encoder) == by_add(PEOPLE, rows, encoder)


def test_what_a_killed_build_wrote_of_an_older_version_does_not_stay(tmp_path: Path) -> None:
    encoder, rows = SentEncoder(), chunks(0, 8)
    built(rows, PEOPLE, tmp_path, encoder)
    # As if it had been killed before it noted that its rows are in the memories.
    for done in tmp_path.glob("sink/work/*/done.json"):
        done.unlink()
    rows[0] = {**rows[0], "text": "of interest to nobody"}
    built(rows, PEOPLE, tmp_path, encoder)
    assert by_build(tmp_path / "sink", encoder) == by_add(PEOPLE, rows, encoder)


def test_the_second_of_two_builds_into_a_sink_is_refused(tmp_path: Path) -> None:
    with Work(str(tmp_path / "sink")).alone(), pytest.raises(LeaseError, match="Another build writes into"):
        built(chunks(0, 4), PEOPLE, tmp_path, SentEncoder())
    assert not (tmp_path / "sink" / "users").exists()


def test_a_build_that_was_taken_over_writes_into_no_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Work, "check_newest", lambda work: None)  # of the driver; not of its workers
    sink, began = tmp_path / "sink", Work.rows

    def taken_over(work: Work, generation: str) -> tuple[list[str], list[str]]:
        (sink / "work" / "builds" / "00000009.json").touch()
        return began(work, generation)

    monkeypatch.setattr(Work, "rows", taken_over)
    report = built(chunks(0, 8), PEOPLE, tmp_path, SentEncoder())
    assert report.unwritten == len(PEOPLE) and "taken this sink over" in report.errors[0]
    assert not list(sink.glob("users/*/*.epic"))


def test_a_build_survives_its_workers(tmp_path: Path) -> None:
    rows = chunks(0, 64)
    report = built(rows, PEOPLE, tmp_path, DyingEncoder("t20", tmp_path / "mark"))
    assert (tmp_path / "mark").exists() and report.failed == 0
    assert by_build(tmp_path / "sink", SentEncoder()) == by_add(PEOPLE, rows, SentEncoder())


@pytest.mark.skipif(sys.platform == "win32", reason="kills as POSIX does")
def test_a_build_goes_on_where_it_was_killed(tmp_path: Path) -> None:
    rows = chunks(0, 64)
    corpus = written(rows, tmp_path / "corpus.jsonl")
    people = people_file(tmp_path)
    command = [sys.executable, "-m", "dying", corpus, people, str(tmp_path / "sink"), str(tmp_path / "mark")]
    ended = subprocess.run(command, capture_output=True, check=False, cwd=SUPPORT)
    assert ended.returncode == -9, ended.stderr.decode()[-2000:]
    report = build(corpus, people, str(tmp_path / "sink"), encoder=SentEncoder(), concurrency=2, batch_size=8)
    assert report.chunks == 64 and report.known % 8 == 0
    assert by_build(tmp_path / "sink", SentEncoder()) == by_add(PEOPLE, rows, SentEncoder())


def test_what_cannot_be_sent_to_workers_is_told_before_anything_is_done(tmp_path: Path) -> None:
    with pytest.raises(InvalidInputError, match="pickled"):
        built(chunks(0, 4), PEOPLE, tmp_path, HashEncoder())


def test_the_command_builds_too(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from epic_apps.cli.main import main

    (tmp_path / "corpus.txt").write_text("Vegan soups of Rome\nA steam engine\n")
    people = written([{"user": "ann", "preference": "I am vegan."}], tmp_path / "people.jsonl")
    arguments = ["scale", "build", str(tmp_path / "corpus.txt"), people, str(tmp_path / "sink"), "--encoder", "static"]
    assert main(arguments) == 0
    assert "2 chunks, 0 of them known; 1 entries in 1 memories" in capsys.readouterr().out
