"""Weights: each stage's JSON loads into its dataclass and names what chose it; no number that ranks stands in code."""

from __future__ import annotations

import ast
import importlib
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import fields, is_dataclass, replace
from pathlib import Path

import pytest

import epic_memory
from epic_memory.types.weights import StageWeights, used

ROOT = Path(__file__).parents[2]
SHARED = ROOT / "shared"
# The packages as they are imported, which may be installed elsewhere.
PACKAGES = Path(epic_memory.__file__).parents[1]
FILES = sorted(PACKAGES.glob("epic_*/data/weights/*.json"))
ROOMS = (
    *(f"epic_memory/{room}" for room in ("encoders", "preferences", "steering", "verification", "pipeline")),
    "epic_memory/context.py",
    "epic_memory/types/verdicts.py",
    "epic_learn",
    "epic_rerank",
    "epic_graph",
)
# An integer of such a name is a size: how much is looked at, kept, shown or written at once.
SIZE = re.compile(
    r"_*(?:AT_ONCE|MOST|MAX|LONGEST|LARGEST|LOOKED_AT|READ|KEPT|BLOCK|CANDIDATES|FOUND)\b|\w+_(?:KEPT|AT_ONCE|TOKENS)$"
)
SIZE_PARTS = re.compile(r"_*(?:AT_ONCE|MOST|MAX|LONGEST|LARGEST)_\w+")
# What else is no weight: bounds of rounding, formats, sizes of other names, and what a training needs.
STRUCTURAL = {
    path: names
    for path, *names in map(str.split, (Path(__file__).parent / "structural_numbers.txt").read_text().splitlines())
}


def stages() -> dict[Path, type[StageWeights]]:
    """Every stage's dataclass, by its JSON."""
    for path in PACKAGES.glob("epic_*/**/*.py"):
        if "(StageWeights)" in path.read_text(encoding="utf-8"):
            importlib.import_module(".".join(path.relative_to(PACKAGES).with_suffix("").parts))
    found, left = {}, [StageWeights]
    while left:
        one = left.pop()
        left += one.__subclasses__()
        if not one.__subclasses__():
            found[one.path()] = one
    return found


def test_each_stage_has_one_file_and_each_file_a_stage() -> None:
    assert sorted(stages()) == FILES


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_file_loads_and_says_what_chose_each_weight(path: Path) -> None:
    stage = stages()[path]
    weights = stage.shipped()
    assert is_dataclass(weights) and stage.shipped() is weights
    record = stage.record()
    names = [field.name for field in fields(weights)]
    assert Counter(name for one in record["chosen"] for name in one["weights"]) == Counter(names)
    for one in record["chosen"]:
        if one["by"] == "hand":
            assert one["why"]
        else:
            script = (ROOT / one["by"]).read_text(encoding="utf-8")
            assert one["on"] and "judged" in one and stage.__name__ in script and "write_weights" in script
    if "judged" in record:
        assert (ROOT / record["judged"]["by"]).is_file() and record["judged"]["on"] and record["judged"]["figures"]


def test_weights_are_frozen_and_replaced_for_a_block_only() -> None:
    stage = stages()[PACKAGES / "epic_memory/data/weights/ranking.json"]
    before = stage.shipped()
    with pytest.raises(AttributeError):
        before.same = 2.0  # type: ignore[attr-defined]
    other = replace(before, same=2.0)  # type: ignore[type-var]
    with pytest.raises(ZeroDivisionError), used(other):
        assert stage.shipped() is other
        raise ZeroDivisionError
    assert stage.shipped() is before


def _is_numeric(value: ast.expr | None) -> bool:
    """Tell whether a value is made of numbers: one, several, with names, or what a function makes of them."""
    written = re.sub(r"'[^']*':|\b[\w.]+(?=\()", "", "" if value is None else ast.unparse(value))
    return re.fullmatch(r"[\d\s.,e+*/<()[\]{}-]+", written) is not None and re.search(r"\d", written) is not None


def _numbers(source: str) -> Iterator[tuple[str, bool]]:
    """Yield the names of a module's numeric constants, each with whether it is an integer."""
    for statement in ast.parse(source).body:
        targets = statement.targets if isinstance(statement, ast.Assign) else [getattr(statement, "target", None)]
        value = getattr(statement, "value", None)
        if not isinstance(statement, ast.Assign | ast.AnnAssign) or not _is_numeric(value):
            continue
        for target in targets:
            names = target.elts if isinstance(target, ast.Tuple) else [target]
            whole = not any(isinstance(node, ast.Constant) and type(node.value) is float for node in ast.walk(value))
            yield from ((name.id, whole) for name in names if isinstance(name, ast.Name))


def test_numbers_are_found() -> None:
    source = (
        "A = 1\nB, _C = 0.5, 2\nD: dict[str, float] = {'a': -1.0}\nE = np.float32(0.6)\nF = 2**4\nG = 'a'\nH = g(b)\n"
    )
    assert dict(_numbers(source)) == {"A": True, "B": False, "_C": False, "D": False, "E": False, "F": True}


def test_no_number_that_ranks_steers_or_weighs_stands_in_code() -> None:
    paths = [
        path for room in ROOMS for path in ([SHARED / room] if room.endswith(".py") else (SHARED / room).rglob("*.py"))
    ]
    assert len(paths) > 50
    found = {
        f"{path.relative_to(SHARED).as_posix()}: {name}"
        for path in paths
        for name, whole in _numbers(path.read_text(encoding="utf-8"))
        if not (whole and (SIZE.match(name) or SIZE_PARTS.match(name)))
        and name not in STRUCTURAL.get(path.relative_to(SHARED).as_posix(), ())
    }
    assert not found, f"move them to the stage's weights (docs/architecture.md): {sorted(found)}"
