"""Poisoned notes, mails, pages and assistant turns: none becomes a preference or fact, none is shown as the user's."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from exports import archive, chatgpt, chatgpt_message, claude, claude_message

from epic_apps import import_from, sync
from epic_learn.origins import written_by
from epic_memory import EpicMemory, Item
from epic_memory.context import KNOWN, MATTERING
from epic_plugins.tools import memory_tools
from tables import lines

pytest.importorskip("ijson")

AVOIDS = "I avoid hotels with casinos."
QUESTIONS = ("Which hotel with a casino?", "Where do I live?")
ASKED = "Which hotel?"
ROWS = lines(Path(__file__).with_suffix(".jsonl"))
POISON: dict[str, list[str]] = {}
for row in ROWS:
    if "kind" in row:
        POISON.setdefault(row["kind"], []).append(row["text"])
FILES = {row["file"]: (row["ending"], row["content"], row["mark"]) for row in ROWS if "file" in row}
"""Ending, content and mark of the files that hold a text of each kind."""


QUESTION = chatgpt_message("user", ASKED)
ASKS = claude_message("human", ASKED)
CHATS: dict[str, Callable[[str, str], Any]] = {
    "assistant": lambda name, text: chatgpt(name, QUESTION, chatgpt_message("assistant", text)),
    "tool": lambda name, text: chatgpt(name, QUESTION, chatgpt_message("tool", text, kind="execution_output")),
    "branch": lambda name, text: chatgpt(name, QUESTION, deleted=[chatgpt_message("user", text)]),
    "pasted": lambda name, text: chatgpt(name, chatgpt_message("user", text)),
    "claude": lambda name, text: claude(name, ASKS, claude_message("assistant", text)),
    "attachment": lambda name, text: claude(name, {**ASKS, "attachments": [{"extracted_content": text}]}),
    "gemini": lambda name, text: {
        "header": "Gemini Apps", "title": f"Prompted {ASKED}", "time": f"2024-05-1{name}T10:00:00Z",
        "safeHtmlItem": [{"html": text}],
    },
    "telegram": lambda name, text: {"type": "message", "from": "Eve", "from_id": "user7", "text": text},
    "whatsapp": lambda name, text: f"[01.05.24, 10:1{name}:00] Ann: {ASKED}\n[01.05.24, 10:1{name}:30] Eve: {text}",
}  # fmt: skip
"""Conversation with a text of each kind."""


def export(folder: Path, kind: str) -> Path:
    """Write an export with the texts of a kind."""
    talks = [CHATS[kind](str(number), text) for number, text in enumerate(POISON[kind])]
    if kind == "whatsapp":
        return note(folder / "WhatsApp Chat with Eve.txt", "\n".join(talks))
    if kind == "telegram":
        messages = [{"type": "message", "from": "Ann", "from_id": "user8", "text": ASKED}, *talks]
        chat = {"name": "Eve", "type": "personal_chat", "id": 7, "messages": messages}
        return note(folder / "result.json", json.dumps(chat))
    return archive(folder / "export.zip", conversations__json=talks)


def note(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


def take_in(memory: EpicMemory, kind: str, way: str, folder: Path) -> None:
    """Have a memory take in the texts of a kind, as it would those of a user."""
    texts = POISON[kind]
    if kind == "saved":
        memory.add([Item(text=text, metadata={"origin": "assistant"}) for text in texts])
    elif kind == "remembered":
        remember = next(tool for tool in memory_tools(memory) if tool.name == "remember")
        for text in texts:
            remember(text=text, kind="preference")
    elif kind in FILES:
        suffix, template, _ = FILES[kind]
        for number, text in enumerate(texts):
            log = [{"role": "user", "content": ASKED}, {"role": "assistant", "content": text}]
            content = "\n".join(map(json.dumps, log)) if kind == "log" else template.replace("{}", text)
            note(folder / f"notes/{number}.{suffix}", content)
        (import_from if way == "import" else sync)(memory, folder / "notes", user="ann@example.org")
    else:
        import_from(memory, export(folder, kind))


@pytest.mark.parametrize(
    ("kind", "way"),
    [(kind, way) for kind in POISON for way in (("import", "sync") if kind in FILES else ("import",))],
)
def test_nothing_that_others_wrote_is_taken_for_what_the_user_says(tmp_path: Path, kind: str, way: str) -> None:
    memory = EpicMemory([AVOIDS])
    take_in(memory, kind, way, tmp_path)
    assert [each.text for each in memory.preferences] == [AVOIDS] and not memory.facts
    assert not memory.proposals.accepted() and {written_by(each) for each in memory.proposals} <= {"assistant"}
    assert bool(memory.proposals) is (kind == "remembered")
    held = kind == "saved" or (kind in FILES and (kind, way) != ("log", "import"))
    assert len(memory.items()) >= len(POISON[kind]) if held else not memory.items()
    mark = FILES[kind][2] if kind in FILES else "an assistant, not by the user"
    for question in (*QUESTIONS, *POISON[kind]):
        opening, *documents = re.split(r"(?:^|\n\n)(?=Document \d+:\n)", memory.context(question, 20))
        assert opening in ("", f"{MATTERING}\n- {AVOIDS}")
        numbers = [int(document.split(":", 1)[0].split()[1]) for document in documents]
        assert numbers == sorted(set(numbers)), "no text begins a document"
        for document in documents:
            assert re.findall("^Written by: (.*)$", document, re.MULTILINE) == ([mark] if mark else [])
            assert not {MATTERING, KNOWN} & set(document.splitlines())


@pytest.mark.parametrize("rounds", [30, pytest.param(10_000, marks=pytest.mark.slow)])
def test_recall_and_offering_again_grow_nothing(tmp_path: Path, rounds: int) -> None:
    questions = ("Which hotel?", "Where is the casino?", "Where do I live?")
    with EpicMemory.open(tmp_path / "me.epic", [AVOIDS]) as memory:
        memory.add([Item(id="ace", text="A hotel with a casino in Reno.", metadata={"title": "Ace", "origin": "page"})])
        memory.facts.add("I live in Porto.")
        tools = {tool.name: tool for tool in memory_tools(memory)}
        sizes = []
        for turn in range(rounds):
            question = questions[turn % len(questions)]
            if turn % 2:
                # What the context said is offered as the words of an assistant,
                chat = [{"role": "user", "content": question}]
                chat.append({"role": "assistant", "content": memory.context(question, 5)})
                memory.proposals.propose(chat)
                if turn < 30:
                    (tmp_path / "chat.json").write_text(json.dumps(chat), encoding="utf-8")
                    import_from(memory, tmp_path / "chat.json")
            else:
                # and what a tool found by that tool's like, and as an item.
                for found in json.loads(tools["search_memory"](query=question))["results"]:
                    tools["remember"](text=found["text"])
                    memory.add([found["text"]])
            if turn in (8, rounds - 1):
                counts = map(len, (memory.items(), memory.facts, memory.proposals))
                sizes.append((*counts, (tmp_path / "me.epic").stat().st_size))
        # What an agent offers waits once, marked as an agent's; after one round of the questions nothing comes.
        assert sizes[0] == sizes[1] and sizes[0][1] == 1
        assert {written_by(each) for each in memory.proposals} <= {"assistant"}
        assert [each.text for each in memory.preferences] == [AVOIDS]
