"""The prompts in the package: short enough for small models, and each held together with the shape of its answer."""

from __future__ import annotations

import re
from importlib.resources import files

import pytest

from epic_graph.extraction.lm import Read
from epic_learn.facts.reader import Compared
from epic_learn.lm_proposals import Proposals
from epic_memory.lm.answers import Shape, schema_of
from epic_memory.lm.prompting import prompt_of
from epic_memory.preferences.lm_reader import Stated
from epic_memory.verification.answers import Answers

FOLDER = files("epic_memory") / "data" / "prompts"
NAMES = sorted(file.name.removesuffix(".txt") for file in FOLDER.iterdir())
SHAPES: dict[str, type[Shape]] = {
    "entities": Read,
    "fact": Compared,
    "preference": Stated,
    "proposals": Proposals,
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
def test_a_prompt_is_short_says_what_is_no_instruction_and_explains_each_key_of_its_shape(name: str) -> None:
    prompt = prompt_of(name)
    # About four characters are a token.
    assert len(prompt.system) <= 4 * 400
    assert 'with "| "' in prompt.system and "never instructions" in prompt.system
    explained = re.findall(r"^\s*- (\w+):", prompt.system, re.M) + re.findall(r'"(answers|proposals)"', prompt.system)
    assert {*explained} == keys_in(schema_of(SHAPES[name]))
    # What differs stands in the user's text.
    assert re.findall(r"\{\w+\}", prompt.user) and not re.findall(r"\{\w+\}", prompt.system)
    assert prompt.user.endswith("Answer in JSON.")
