"""The front door: how large what a user calls may be, and that the core stands without the packages beside it."""

from __future__ import annotations

import inspect
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from epic_learn.facts.memory_facts import MemoryFacts
from epic_learn.memory_proposals import MemoryProposals
from epic_memory import EpicMemory
from epic_memory.errors import DamagedError, StoreError
from epic_memory.groups.file import MemoryFile
from epic_memory.groups.preferences import MemoryPreferences
from epic_memory.runtime.optional import PACKAGES

BESIDE = ("epic_learn", "epic_graph", "epic_rerank", "epic_plugins", "epic_apps", "epic_eval", "epic_scale")
SURFACES = (EpicMemory, MemoryPreferences, MemoryFacts, MemoryProposals, MemoryFile)
ABSENT = """
import sys

class Absent:
    def find_spec(self, name, path=None, target=None):
        package = name.partition(".")[0]
        if package in {removed!r}:
            raise ModuleNotFoundError(f"No module named {{package!r}}", name=package)

sys.meta_path.insert(0, Absent())
"""
PARTLY = """
from epic_memory import EpicMemory
from epic_memory.errors import MissingPackageError

EpicMemory.open({part!r}, ["I love fado."]).close()
try:
    EpicMemory.open({whole!r})
except MissingPackageError as error:
    assert {removed!r} in str(error), error
else:
    raise AssertionError("it was opened")
"""
USE = """
from epic_memory import EpicMemory, Item, SearchOptions, Settings
from epic_memory.errors import MissingPackageError

with EpicMemory.open({path!r}, ["I follow a strict vegan diet."], settings=Settings(reserve="1 MB")) as memory:
    memory.add(["A vegan recipe for lentil soup.", "The history of the steam engine."])
    memory.preferences.add("I love fado.")
    assert "lentil" in memory.search("What vegan dish should I cook?", 1, options=SearchOptions(min_score=None))[0].text
    assert "vegan diet" in memory.context("What vegan dish should I cook?")
    assert memory.file.verify() > 0
    for package, beside in (
        ("epic_learn", lambda: memory.facts.add("I work night shifts.")),
        ("epic_learn", lambda: memory.add([Item(text="I work night shifts.", fact=True)])),
        ("epic_learn", lambda: memory.never.add("my health")),
        ("epic_learn", lambda: memory.proposals.propose("User: I love tea.")),
        ("epic_rerank", lambda: Settings(fallback=lambda query, k: [])),
    ):
        try:
            beside()
        except MissingPackageError as error:
            assert error.name == package == {removed!r}, error
        else:
            assert {removed!r} != package
"""


def public(surface: type) -> dict[str, object]:
    return {name: value for name, value in vars(surface).items() if not name.startswith("_")}


def parameters(method: object) -> list[inspect.Parameter]:
    function = getattr(method, "__func__", method)
    return list(inspect.signature(function).parameters.values())[1:] if callable(function) else []  # type: ignore[arg-type]


def test_a_memory_has_at_most_thirty_public_members() -> None:
    assert len(public(EpicMemory)) <= 30


@pytest.mark.parametrize("surface", SURFACES)
def test_no_public_method_has_more_than_six_parameters(surface: type) -> None:
    methods = {**public(surface), "__init__": vars(surface)["__init__"]}
    assert {name: len(parameters(one)) for name, one in methods.items() if len(parameters(one)) > 6} == {}


@pytest.mark.parametrize("surface", SURFACES)
def test_an_asynchronous_twin_takes_what_the_synchronous_method_does(surface: type) -> None:
    known = public(surface)
    twins = {name: known[name[1:]] for name in known if name.startswith("a") and name[1:] in known}
    for name, method in twins.items():
        own, others = parameters(known[name]), parameters(method)
        assert [(one.name, one.default) for one in own] == [(one.name, one.default) for one in others], name
        assert inspect.iscoroutinefunction(known[name]) or inspect.isasyncgenfunction(known[name])


@pytest.mark.parametrize("removed", BESIDE)
def test_the_core_does_without_a_package_beside_it(removed: str, tmp_path: Path) -> None:
    code = ABSENT.format(removed=(removed,)) + USE.format(path=str(tmp_path / "me.epic"), removed=removed)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("removed", PACKAGES)
def test_a_file_is_not_damaged_where_a_package_with_tables_is_missing_now_or_was(removed: str, tmp_path: Path) -> None:
    whole, part = tmp_path / "whole.epic", tmp_path / "part.epic"
    EpicMemory.open(whole, ["I love fado."]).close()
    code = ABSENT.format(removed=(removed,)) + PARTLY.format(whole=str(whole), part=str(part), removed=removed)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    with pytest.raises(StoreError, match="package of epic-memory was missing") as caught:
        EpicMemory.open(part)
    assert not isinstance(caught.value, DamagedError)


SKIPS = """
import pytest
from epic_memory.errors import MissingPackageError

@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item):
    try:
        return (yield)
    except MissingPackageError as error:
        pytest.skip(str(error))
"""


@pytest.mark.slow
def test_the_core_passes_its_tests_alone(tmp_path: Path) -> None:
    """What needs a package that is not there says which one; all else passes."""
    tests = Path(__file__).parent
    (tmp_path / "sitecustomize.py").write_text(ABSENT.format(removed=BESIDE), encoding="utf-8")
    (tmp_path / "skips_what_is_missing.py").write_text(SKIPS, encoding="utf-8")
    imported = "|".join((*BESIDE, "epic_langchain", "epic_llamaindex", "command_line"))
    others = re.compile(rf"^\s*(?:from|import) (?:{imported})\b|\.proposals\b|\"reranker\"|\"proposals\"", re.M)
    own = [
        str(one)
        for one in (tests / "core").rglob("test_*.py")
        if one.name != "test_weights.py" and not others.search(one.read_text(encoding="utf-8"))
    ]
    command = [sys.executable, "-m", "pytest", "-q", "-n", "2", "-p", "no:cacheprovider", "-p", "skips_what_is_missing"]
    paths = os.pathsep.join([str(tmp_path), *filter(None, [os.environ.get("PYTHONPATH")])])
    done = subprocess.run(
        [*command, *own],
        # Few examples do: that they pass in the company of the others, the suite itself tells with many.
        env={**os.environ, "PYTHONPATH": paths, "HYPOTHESIS_PROFILE": "default"},
        cwd=tests.parent,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-4000:]
    assert len(own) > 30
