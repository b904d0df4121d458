"""The language model of both plugins: the same arguments mean the same as for `EpicMemory`, and give the same."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("langchain")
pytest.importorskip("llama_index.core")

from langchain_core.documents import Document
from llama_index.core.base.llms.types import ChatMessage
from llama_index.core.schema import TextNode
from pydantic import ValidationError

from chat_models import ScriptedChat
from epic_core import EpicMemory
from epic_core.errors import InvalidInputError
from epic_core.lm import LanguageModel
from epic_core.types import Stance
from epic_langchain import EpicDocumentTransformer
from epic_langchain import EpicRetriever as LangChainRetriever
from epic_langchain.agents import EpicMemoryMiddleware
from epic_llamaindex import EpicMemoryBlock, EpicNodePostprocessor, EpicTransform
from epic_llamaindex import EpicRetriever as LlamaIndexRetriever
from llamaindex_models import ScriptedLLM
from scripted import Own, aspects_for, instruction_for, preference_read, script_answer

SEA = "I like hotels near the sea."
TEXTS = [f"Hotel {number} is near the sea." for number in range(12)]
SAID = "just veggie for me"


class Answering:
    """Answers a memory's prompts: each text suits each preference, and what is said is proposed."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def __call__(self, messages: Sequence[Any]) -> str:
        plain = [{"role": "system" if number == 0 else "user", "content": _text(m)} for number, m in enumerate(messages)]
        self.asked.append(plain[-1]["content"])
        if (preference := preference_read(plain)) is not None:
            return aspects_for(preference)
        if "part of a conversation" in plain[0]["content"]:
            one = {"kind": "add_preference", "text": "I am a vegetarian.", "old": "", "quote": SAID, "turn": 1}
            return json.dumps({"proposals": [one | {"today_only": False}]})
        return script_answer(plain, Stance.SUPPORTS)


def _text(message: Any) -> str:
    return str(message.content)


@pytest.fixture
def answers() -> Answering:
    return Answering()


def own(answers: Answering) -> LanguageModel:
    return Own(answers)


MODELS: dict[str, Callable[[Answering], Any]] = {
    "of epic_core": own,
    "of LangChain": lambda answers: ScriptedChat(answers=answers),
    "of LlamaIndex": lambda answers: ScriptedLLM(answers=answers),
}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A memory that holds texts which nobody has judged."""
    with EpicMemory.open(tmp_path / "me.epic", [SEA], tau=1.0) as memory:
        memory.add(TEXTS)
    return tmp_path / "me.epic"
