"""A build's sink without Ray: one build at a time has it, and what an older one writes late counts for nothing."""

from __future__ import annotations

import json
import subprocess
import sys
import uuid
from pathlib import Path

import pytest

from epic_memory import Item
from epic_scale import EpicProcessorConfig, LeaseError, work
from epic_scale.building import _generations
from epic_scale.work import Work, digest_of, key_of

pytest.importorskip("fsspec")


@pytest.fixture(params=["folder", "memory"])
def sink(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return str(tmp_path) if request.param == "folder" else f"memory://{uuid.uuid4().hex}"


def write(build: Work, text: str, user: str | None = None, generation: str = "g") -> None:
    """Write the rows of a chunk in this version, kept by a user or by nobody."""
    pytest.importorskip("pyarrow")
    item = Item(id="one", text=text)
    named = {"key": key_of(item), "digest": digest_of(item), "id": item.id}
    build.write_rows(generation, [named, *([{**named, "user": user}] if user else [])])


def test_the_second_of_two_builds_is_refused_and_leaves_the_first_alone(sink: str) -> None:
    one, other = Work(sink), Work(sink)
    with one.alone():
        with pytest.raises(LeaseError, match="Another build writes into"), other.alone():
            pass
        one.check_newest()
    with other.alone():
        assert other.build == one.build + 1


def test_two_remote_builds_of_the_same_moment_are_one(monkeypatch: pytest.MonkeyPatch) -> None:
    sink = f"memory://{uuid.uuid4().hex}"
    one, other = Work(sink), Work(sink)
    # Both have seen that there is no build.
    monkeypatch.setattr(other, "_last_build", lambda: 0)
    with one.alone(), pytest.raises(LeaseError, match="Another build"), other.alone():
        pass


def test_a_remote_build_that_was_silent_is_taken_over_and_writes_nothing_more(monkeypatch: pytest.MonkeyPatch) -> None:
    sink = f"memory://{uuid.uuid4().hex}"
    one, other = Work(sink), Work(sink)
    with one.alone():
        monkeypatch.setattr(work, "_SILENCE", -1.0)
        with other.alone():
            with pytest.raises(LeaseError, match="taken this sink over"):
                one.check_newest()
            other.check_newest()


@pytest.mark.skipif(sys.platform == "win32", reason="kills as POSIX does")
def test_a_folder_is_free_as_soon_as_its_build_was_killed(tmp_path: Path) -> None:
    code = (
        "import os, signal, sys; from epic_scale.work import Work\n"
        "with Work(sys.argv[1]).alone(): os.kill(os.getpid(), signal.SIGKILL)"
    )
    assert subprocess.run([sys.executable, "-c", code, str(tmp_path)], check=False).returncode == -9
    with Work(str(tmp_path)).alone():
        pass


def test_late_rows_of_an_older_build_count_for_nothing(sink: str) -> None:
    old, new, next_ = Work(sink), Work(sink), Work(sink)
    with old.alone():
        write(old, "version 1")
    with new.alone():
        write(new, "version 2")
        new.mark_written("g", new.rows("g")[1])
    write(old, "version 0", "ann")
    with next_.alone():
        written, unwritten = next_.rows("g")
        assert len(written) == 2 and not unwritten
        assert next_.judged("g").tolist() == [digest_of(Item(id="one", text="version 2"))]


def test_of_versions_that_were_not_written_the_newest_stays_and_the_others_go(sink: str) -> None:
    killed, build = Work(sink), Work(sink)
    killed.begin("how", {"ann": ["I like wine."]})
    (generation,) = killed.generations()
    for each, text, user in ((killed, "version 1", "ann"), (build, "version 2", None)):
        with each.alone():
            write(each, text, user, generation)
    gone, stale = build.replaced(build.rows(generation)[1])
    assert gone == [("ann", "one")]
    assert stale == [digest_of(Item(id="one", text="version 1"))]


def test_a_version_that_comes_back_is_judged_anew(sink: str) -> None:
    for text in ("version 1", "version 2", "version 1"):
        build = Work(sink)
        with build.alone():
            digest = digest_of(Item(id="one", text=text))
            assert digest not in build.judged("g")
            write(build, text)
            assert build.judged("g").tolist() == [digest]
            build.mark_written("g", [path for files in build.rows("g") for path in files])


def test_what_is_marked_is_what_was_seen(tmp_path: Path) -> None:
    build = Work(str(tmp_path))
    with build.alone():
        write(build, "version 1")
        seen = build.rows("g")[1]
        write(build, "version 2")
        build.mark_written("g", seen)
    marks = json.loads((tmp_path / "work" / "g" / "done.json").read_text())
    assert marks == {"files": [Path(path).name for path in seen], "build": 1}


def test_a_folder_with_brackets_in_its_name_is_a_sink_like_others(tmp_path: Path) -> None:
    for number in (1, 2):
        with (build := Work(str(tmp_path / "out[1]"))).alone():
            assert build.build == number
    assert (tmp_path / "out[1]" / "work").stat().st_mode & 0o077 == 0


def test_two_texts_of_one_id_are_both_known_to_the_next_build(sink: str) -> None:
    for _ in range(2):
        with (build := Work(sink)).alone():
            if not (known := build.judged("g")).size:
                write(build, "a bakery")
                write(build, "a restaurant")
    assert known.tolist() == sorted(digest_of(Item(id="one", text=text)) for text in ("a bakery", "a restaurant"))


def test_who_comes_back_to_earlier_preferences_begins_anew(sink: str) -> None:
    begun = []
    for likes in ("vegan food", "steak", "vegan food"):
        config = EpicProcessorConfig(preferences={"ann": [f"I love {likes}."], "ben": ["I love trains."]})
        with (build := Work(sink)).alone():
            begun.append(_generations(build, config)[1])
    assert len({members["ben"] for members in begun}) == 1
    assert len({members["ann"] for members in begun}) == 3
