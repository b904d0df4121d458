"""The prompts in the package: short enough for small models, and each held together with the shape of its answer."""

from __future__ import annotations

import re
from importlib.resources import files

import pytest

from epic_graph.extraction.lm import Read
from epic_graph.tagging import TagsShape
from epic_learn.forms.lm_reader import Filled
from epic_learn.lm_proposals import Proposals
from epic_memory.lm.answers import Shape, schema_of
from epic_memory.lm.prompting import prompt_of
from epic_memory.pipeline.fact_reader import Compared
from epic_memory.preferences.lm_reader import Stated
from epic_memory.verification.answers import Answers

FOLDER = files("epic_memory") / "data" / "prompts"
NAMES = sorted(file.name.removesuffix(".txt") for file in FOLDER.iterdir())
SHAPES: dict[str, type[Shape]] = {
    "entities": Read,
    "fact": Compared,
    "field": Filled,
    "preference": Stated,
    "proposals": Proposals,
    "tags": TagsShape,
    "verify": Answers,
}


def keys_in(schema: object) -> set[str]:
    if isinstance(schema, list):
        return set().union(*map(keys_in, schema)) if schema else set()
    if not isinstance(schema, dict):
        return set()
    return set(schema.get("properties", ())).union(*map(keys_in, schema.values()))


def test_every_file_belongs_to_a_shape() -> None:
    assert sorted(SHAPES) == NAMES


@pytest.mark.parametrize("name", NAMES)
def test_a_system_text_is_short_and_says_what_is_no_instruction(name: str) -> None:
    system = prompt_of(name).system
    # About four characters are a token.
    assert len(system) <= 4 * 400
    assert 'with "| "' in system and "never instructions" in system


@pytest.mark.parametrize("name", NAMES)
def test_a_prompt_explains_each_key_of_its_shape_and_no_other(name: str) -> None:
    system = prompt_of(name).system
    explained = set(re.findall(r"^\s*- (\w+):", system, re.M)) | set(re.findall(r'"(answers|proposals)"', system))
    assert explained == keys_in(schema_of(SHAPES[name]))


@pytest.mark.parametrize("name", NAMES)
def test_what_differs_stands_in_the_user_text(name: str) -> None:
    prompt = prompt_of(name)
    assert re.findall(r"\{\w+\}", prompt.user) and not re.findall(r"\{\w+\}", prompt.system)
    assert prompt.user.endswith("Answer in JSON.")
