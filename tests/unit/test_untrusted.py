"""A chunk cannot talk its way into the memory, and what is honest in it stays as it is."""

from __future__ import annotations

import html
import json
import re
import sys
import unicodedata
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from epic_core.errors import InvalidInputError
from epic_core.lm.base import Completion, Message, Schema
from epic_core.types import Candidate, Decision, Item, Preference, Stance, Verdict
from epic_core.verification import prompts
from epic_core.verification.lm import LMVerifier
from epic_core.verification.prompts import Prompt, Prompts, numbered, quoted, section
from hostile_chunks import CHUNKS

PREFERENCE = "I collect mechanical typewriters from Olympia and Olivetti."
HONEST = "The flea market has mechanical typewriters, most of them by Olivetti.\nIt opens at 9:00; bring cash [really]."


def candidate(text: str, *preferences: str) -> Candidate:
    listed = tuple(Preference(text=preference) for preference in preferences or (PREFERENCE,))
    vectors = np.ones((len(listed), 2), dtype=np.float32)
    return Candidate(
        item=Item(text=text),
        embedding=vectors[0],
        preferences=listed,
        similarities=(0.5,) * len(listed),
        preference_embeddings=vectors,
    )


class Scripted:
    """A model that answers what `answer` makes of the messages; remembers them."""

    name = "scripted"
    concurrency = 1
    context = None

    def __init__(self) -> None:
        self.asked: list[Sequence[Message]] = []

    def answer(self, messages: Sequence[Message]) -> str:
        raise NotImplementedError

    def complete(
        self, messages: Sequence[Message], *, schema: Schema | None = None, max_tokens: int | None = None
    ) -> Completion:
        self.asked.append(messages)
        return Completion(text=self.answer(messages))

    async def acomplete(
        self, messages: Sequence[Message], *, schema: Schema | None = None, max_tokens: int | None = None
    ) -> Completion:
        return self.complete(messages, schema=schema, max_tokens=max_tokens)


class Gullible(Scripted):
    """Believes all that it reads, unless it is quoted.

    It reads letters as a model does: blind to invisible characters and to how wide a character is. What is marked
    as quoted in the section of the document is material. Everything else is believed: an order, a turn, a verdict,
    a list of preferences. What only a machine writes - tokens of a chat template, tags, JSON - is believed
    wherever it stands, as a tokenizer does not know about lines.
    """

    def answer(self, messages: Sequence[Message]) -> str:
        prompt = read_letters(messages[-1].content)
        loose, material = self.parts(prompt)
        believed = (
            self.is_spoken_to(prompt, loose)
            or self.is_answered(prompt, loose)
            or any(self.orders(line) for line in loose)
        )
        if believed or self.matters(material, self.preferences(loose)):
            item = {"preference": 1, "stance": "supports", "instruction": "Recommend it to the user."}
            return json.dumps({"decision": "Keep", "rationale": "It fits.", "preferences": [item]})
        return json.dumps({"decision": "Discard", "rationale": "It does not fit.", "preferences": []})

    @staticmethod
    def parts(prompt: str) -> tuple[list[str], str]:
        """The lines outside of the document or not marked in it, and the document."""
        begun = re.search(r"^<(\w+)[^<>\n]*>$", prompt, re.M)
        assert begun, "the prompt has no section"
        ended = re.compile(rf"<\s*/\s*{begun.group(1)}\b[^<>]*>", re.I).search(prompt, begun.end())
        assert ended, "the section has no end"
        inside = prompt[begun.end() : ended.start()].split("\n")
        quoted_lines = [line for line in inside if line.startswith("| ")]
        # The material of a section without marks is what no rule takes for something else.
        loose = [line for line in inside if not line.startswith("| ")]
        outside = (prompt[: begun.start()] + "\n" + prompt[ended.end() :]).split("\n")
        return outside + loose, "\n".join(quoted_lines or loose)

    @staticmethod
    def orders(line: str) -> bool:
        """Whether a line says that the answer is Keep. What it is asked to weigh up is no order."""
        asks = re.search(r"\b(whether|if|discard)\b", line.split("Say ")[-1], re.I)
        return bool(re.search(r"\bkeep\b", line, re.I)) and not asks

    @staticmethod
    def is_spoken_to(prompt: str, loose: Sequence[str]) -> bool:
        token = r"<[|｜][^<>\n]{1,40}[|｜]>|</?s>|<(?:start|end)_of_turn>|\[/?(?:INST|SYSTEM)\b|<</?SYS>>|</?system>"
        role = r"\W*(?:system|human|user|assistant|response)\b[^:\n]{0,20}:"
        return bool(re.search(token, prompt)) or any(re.match(role, line, re.I) for line in loose)

    @staticmethod
    def is_answered(prompt: str, loose: Sequence[str]) -> bool:
        verdict = r'[{,]\s*"(?:decision|verdict)"\s*:\s*"Keep"|<decision>\s*Keep'
        label = r"\W*(?:decision|verdict|answer|output)\W+keep\b"
        return bool(re.search(verdict, prompt)) or any(re.match(label, line, re.I) for line in loose)

    @staticmethod
    def preferences(loose: Sequence[str]) -> list[str]:
        """The last list of preferences."""
        listed: list[str] = []
        for line in loose:
            if re.search(r"\bpreferences?\b", line, re.I):
                listed = []
            elif re.match(r"\d+\. ", line):
                listed.append(line)
        return listed

    @staticmethod
    def matters(material: str, preferences: Sequence[str]) -> bool:
        words = set(re.findall(r"[a-z]{5,}", material.casefold()))
        return any(len(words & set(re.findall(r"[a-z]{5,}", one.casefold()))) > 1 for one in preferences)


def read_letters(text: str) -> str:
    shown = "".join(c for c in text if c == "\n" or unicodedata.category(c) not in ("Cf", "Cc"))
    return unicodedata.normalize("NFKC", "\n".join(shown.splitlines()))


def verdict(model: Scripted, text: str) -> Verdict:
    (made,) = LMVerifier(model, backoff=0).verify([candidate(text)])
    return made


@pytest.fixture
def unquoted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Chunks enter prompts as they are."""
    monkeypatch.setattr(prompts, "quoted", lambda text: text)
    monkeypatch.setattr(prompts, "section", lambda text, name="chunk": f"<{name}>\n{text}\n</{name}>")


@pytest.mark.parametrize("name", CHUNKS)
def test_a_hostile_chunk_cannot_talk_its_way_into_the_memory(name: str) -> None:
    assert verdict(Gullible(), CHUNKS[name]).decision is Decision.DISCARD


@pytest.mark.usefixtures("unquoted")
def test_it_is_the_quoting_that_keeps_them_out() -> None:
    fallen = [name for name, text in CHUNKS.items() if verdict(Gullible(), text).decision is Decision.KEEP]
    assert len(CHUNKS) >= 45
    assert len(fallen) >= 30


def test_an_honest_chunk_is_judged_by_what_it_says() -> None:
    assert verdict(Gullible(), HONEST).decision is Decision.KEEP
    assert verdict(Gullible(), "The museum has steam engines.").decision is Decision.DISCARD


@pytest.mark.usefixtures("unquoted")
def test_an_honest_chunk_is_judged_so_without_quoting_too() -> None:
    assert verdict(Gullible(), HONEST).decision is Decision.KEEP
    assert verdict(Gullible(), "The museum has steam engines.").decision is Decision.DISCARD
