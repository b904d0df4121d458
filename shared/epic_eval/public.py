"""Benchmarks that everybody reads, on a memory as it comes: `epic bench NAME PATH`.

Each history goes into a memory without settings: its sessions by `add_conversation`; where a benchmark is about
preferences, what `memory.proposals` reads in them and is sure of is accepted. What a benchmark says answers a question
is looked for among the first hits, beside BM25 and cosine over the same texts. Of options a model chooses by
`memory.context`, and without one `QuerySteering` does, if the preferences are stated. What a user wrote is compared
with what a model writes with the first records of each way before it.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import re
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from functools import partial
from importlib.resources import files
from itertools import islice
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import numpy as np
from typer import Argument, Option

from epic_eval.arms.lexical import BM25
from epic_eval.asking import Request, answer_to, ask
from epic_eval.journal import Journal
from epic_eval.metrics import overlaps
from epic_eval.options import Model
from epic_eval.public_formats import LOCOMO_LOOKED_AT, LOOKED_AT, Asked, History, Session, read
from epic_eval.report import Report, Table, Text, aligned
from epic_learn import add_conversation
from epic_learn.conversations import conversation_items, read_conversation
from epic_learn.windows import ConversationChunker
from epic_memory import EpicMemory, Item, __version__
from epic_memory.encoders import Encoder, embed, encoder_of
from epic_memory.errors import InvalidInputError
from epic_memory.lm import LanguageModel, Message
from epic_memory.lm.prompting import section
from epic_memory.steering import QuerySteering
from epic_memory.types import FloatArray

_DEEP = 100  # hits of which the sessions are counted
_SURE = 0.9
_RECORDS, _CANDIDATES, _LONGEST = 5, 20, 2_000
_TURNS = ConversationChunker(max_turns=1, overlap=0)
_SYSTEM = "You are a user's assistant. Choose the reply that suits the user best; answer with its letter alone."
_WRITES = (
    "You write what this user would. You may be shown what they wrote before: follow its pattern. Answer with what they"
    " would write, without a word before or after it."
)
_ORDERS = (
    "You order texts that a user wrote by how much they help to answer a request as this user would. Answer with the"
    " numbers of all texts, the most helpful one first, with commas between."
)


class Bench(NamedTuple):
    """How a benchmark is run."""

    grains: tuple[str, ...] = ("conversation",)  # an item is a window of a conversation, as it comes, or a "turn"
    learns: bool = False  # whether preferences are read from the conversations
    recalls: bool = True  # whether what answers a question is looked for
    writes: bool = False  # whether what the user wrote is compared
    split: str = "nothing of it was looked at"


BENCHES = {
    "longmemeval": Bench(),
    "locomo": Bench(("turn", "conversation"), split=f"looked at: {', '.join(LOCOMO_LOOKED_AT)}; the others only run"),
    "locomo-plus": Bench(("turn",)),
    "prefeval": Bench(recalls=False, split="looked at: all of it"),
    "personamem": Bench(learns=True, recalls=False),
    "membench": Bench(("turn",), learns=True),
    "convomem": Bench(("turn",)),
    "perma": Bench(learns=True, recalls=False),
    "lamp": Bench(("turn",), recalls=False, writes=True),
}


class Choice(NamedTuple):
    """A question with options: what is asked of a model, the right place, and whether steering chose it."""

    kinds: tuple[str, ...]
    request: Request
    right: int
    tokens: float
    seconds: float
    steered: bool | None


class Written(NamedTuple):
    """A request with what the user wrote, and the records that each way finds, best first."""

    kind: str
    request: str
    answer: str
    found: dict[str, list[str]]


class Found(NamedTuple):
    """Shares of evidence by kind of question, grain and way; choices; what users wrote."""

    recalls: dict[tuple[str, str, str], list[list[float]]]
    choices: list[Choice]
    written: list[Written]


class Asking:
    """The memories of one history, one for each grain, which grow with its sessions."""

    def __init__(self, bench: Bench, history: History, encoder: Encoder) -> None:
        self.bench, self.preferences, self.encoder = bench, history.preferences, encoder
        self.memories = {grain: EpicMemory(history.preferences, encoder=encoder) for grain in bench.grains}
        self.items: dict[str, list[Item]] = {grain: [] for grain in bench.grains}
        self.ranked: dict[str, tuple[FloatArray, BM25]] = {}

    def come(self, session: Session) -> None:
        """Add a session."""
        messages, metadata = list(session.messages), {"source": session.name}
        self.ranked.clear()
        for grain, memory in self.memories.items():
            chunker = _TURNS if grain == "turn" else None
            add_conversation(memory, messages, chunker=chunker, metadata=metadata)
            if self.bench.recalls or self.bench.writes:
                self.items[grain] += conversation_items(read_conversation(messages), chunker, metadata)
            if self.bench.learns:
                memory.proposals.propose(messages, auto=_SURE)

    def ways(self, grain: str, question: str) -> Iterator[tuple[str, list[Item]]]:
        """Yield each way's name, and what it finds."""
        items = self.items[grain]
        if grain not in self.ranked:
            self.ranked[grain] = embed(self.encoder, [item.text for item in items]), BM25()
            with tempfile.TemporaryDirectory() as folder:
                self.ranked[grain][1].build(items, (), Path(folder))
        vectors, bm25 = self.ranked[grain]
        yield "epic-memory", [hit.item for hit in self.memories[grain].search(question, _DEEP)]
        nearest = np.argsort(-(vectors @ embed(self.encoder, [question])[0]), kind="stable")[:_DEEP]
        yield "cosine", [items[row] for row in nearest]
        by_id = {item.id: item for item in items}
        yield "BM25", [by_id[passage.id] for passage in bm25.retrieve(question, _DEEP).passages]

    def recall(self, asked: Asked) -> Iterator[tuple[str, str, list[float]]]:
        """Yield way, grain, and whether any of the evidence is among the first 5 and 10, and what share."""
        for grain in self.memories:
            for way, items in self.ways(grain, asked.question):
                turns = [item.metadata for item in items if "source" in item.metadata]  # what it learnt is no turn
                places = [(str(one["source"]), int(str(one["turn"]))) for one in turns]
                sessions = list(dict.fromkeys(name for name, _ in places))
                wanted: dict[str, Any] = {f"sessions, by {grain}": (sessions, asked.evidence)}
                if grain == "turn" and asked.turns:
                    wanted["turns"] = places, asked.turns
                for what, (named, right) in wanted.items():
                    shares = [len(right.intersection(named[:k])) / len(right) for k in (5, 10)]
                    yield way, what, [*(float(share > 0) for share in shares), *shares]

    def choice(self, asked: Asked, kinds: tuple[str, ...]) -> Choice:
        """Return a choice by the context of a question."""
        memory, started = next(iter(self.memories.values())), time.perf_counter()
        context, taken = memory.context(asked.question), time.perf_counter() - started
        options = "\n".join(f"{chr(65 + place)}. {option}" for place, option in enumerate(asked.options))
        parts = [section(context, "memory")] if context else []
        parts += [section(asked.question, "message"), f"Replies:\n{options}\nWhich letter?"]
        request = Request((Message("system", _SYSTEM), Message("user", "\n\n".join(parts))), 512)
        steering, steered = QuerySteering(self.encoder, self.preferences), None
        if self.preferences:
            scores = steering.score(asked.question, list(asked.options))
            steered = bool(scores[asked.right] > np.delete(scores, asked.right).max())
        return Choice(kinds, request, asked.right, len(context) / 4, taken, steered)


def run(bench: Bench, histories: Iterable[History], encoder: Encoder) -> Found:
    """Ask all questions."""
    found = Found({}, [], [])
    for history in histories:
        asking, come = Asking(bench, history, encoder), 0
        whole = len(history.sessions)
        for after, asked in sorted(((one.after or whole, one) for one in history.asked), key=lambda pair: pair[0]):
            for session in history.sessions[come:after]:
                asking.come(session)
            come = after
            kinds = (asked.part, f"{asked.part}: {asked.kind}")
            if bench.recalls and asked.evidence:
                for way, grain, shares in asking.recall(asked):
                    for kind in kinds:
                        found.recalls.setdefault((kind, grain, way), []).append(shares)
            if asked.answer:
                ways = {
                    way: [item.text.removeprefix("user: ") for item in items]
                    for way, items in asking.ways("turn", asked.question)
                }
                found.written.append(Written(kinds[1], asked.question, asked.answer, ways))
            if asked.options:
                found.choices.append(asking.choice(asked, kinds))
        for memory in asking.memories.values():
            memory.close()
    return found


def letter(answer: str) -> int | None:
    """Return the place of the option that an answer names, the last one if it thinks aloud; None if it names none."""
    named = re.findall(r"(?<![\w'])([A-Z])(?![\w'])", answer)
    return ord(named[-1]) - 65 if named else None


def parts_of(found: Found, lm: LanguageModel | None, journal: Journal) -> Iterator[Table | Text]:
    """Yield the tables of what was found; a model is asked what it has not been asked before."""
    kinds = {kind for kind, _, _ in found.recalls} | {kind for one in found.choices for kind in one.kinds}
    if all(kind.startswith(LOOKED_AT) for kind in (*kinds, *(one.kind for one in found.written))):
        yield Text("All of these questions were looked at: no figure here is of unseen ones.")
    if found.recalls:
        shares = [
            (*key, str(len(one)), *(f"{mean:.3f}" for mean in np.mean(one, axis=0)))
            for key, one in sorted(found.recalls.items(), key=lambda pair: ("preference" not in pair[0][0], pair[0]))
        ]
        header = ("questions", "found are", "way", "number", "any in 5", "any in 10", "share in 5", "share in 10")
        yield Table("Evidence among the first 5 and 10", header, tuple(shares))
    if found.written:
        yield from _written(found.written, lm, journal)
    if not found.choices:
        return
    if lm is not None:
        yield Text(f"{lm.name}: {ask(lm, [choice.request for choice in found.choices], journal)}")
    rows = []
    for kind in sorted({kind for choice in found.choices for kind in choice.kinds}):
        choices = [choice for choice in found.choices if kind in choice.kinds]
        model = "needs --llm"
        if lm is not None:
            said = [(letter(answer_to(one.request, lm.name, journal) or ""), one.right) for one in choices]
            model = f"{np.mean([chosen == right for chosen, right in said]):.3f}"
        steering = "-" if choices[0].steered is None else f"{np.mean([one.steered for one in choices]):.3f}"
        tokens, taken = np.mean([one.tokens for one in choices]), np.median([one.seconds for one in choices])
        rows.append((kind, str(len(choices)), model, steering, f"{tokens:.0f}", f"{1000 * taken:.1f}"))
    names = ("choices", "number", "right by the model", "right by steering", "context tokens, about", "search ms")
    yield Table("Multiple choice", names, tuple(rows))


def _written(written: list[Written], lm: LanguageModel | None, journal: Journal) -> Iterator[Table | Text]:
    """Have a model write with the records of each way, and with none; yield how near that is to what the user wrote."""
    if lm is None:
        yield Text("What users wrote is compared with what a model writes: say which with --llm.")
        return
    orders = [_request(_ORDERS, one.request, one.found["cosine"][:_CANDIDATES]) for one in written]
    yield Text(f"Orders by {lm.name}: {ask(lm, orders, journal)}")
    for one, order in zip(written, orders, strict=True):
        texts = one.found["cosine"][:_CANDIDATES]
        named = [int(number) - 1 for number in re.findall(r"\d+", answer_to(order, lm.name, journal) or "")]
        places = dict.fromkeys(place for place in [*named, *range(len(texts))] if 0 <= place < len(texts))
        one.found.update({"RankGPT-lite": [texts[place] for place in places], "no records": []})
    asked = [
        (one, way, _request(_WRITES, one.request, texts[:_RECORDS]))
        for one in written
        for way, texts in one.found.items()
    ]
    yield Text(f"Texts by {lm.name}: {ask(lm, [request for _, _, request in asked], journal)}")
    measured: dict[tuple[str, str], list[list[float]]] = {}
    for one, way, request in asked:
        text = answer_to(request, lm.name, journal) or ""
        shared = overlaps(text, one.answer)
        values = [shared["EM"], _off(text, one.answer), shared["R-1"], shared["R-L"]]
        measured.setdefault((one.kind, way), []).append(values)
    rows = [(*key, str(len(of)), *(f"{mean:.3f}" for mean in np.mean(of, axis=0))) for key, of in measured.items()]
    header = ("requests", "records", "number", "the same", "off by", "ROUGE-1", "ROUGE-L")
    note = "off by: where a number was written, none counts as the farthest of 1 to 5. F1 over classes and METEOR: no."
    yield Table(f"What users wrote, with {_RECORDS} records before it", header, tuple(rows), (note,))


def _request(task: str, request: str, texts: Sequence[str]) -> Request:
    shown = "\n".join(f"Text {number}:\n{section(text[:_LONGEST], 'text')}" for number, text in enumerate(texts, 1))
    return Request((Message("system", task), Message("user", f"{shown}\n\n{section(request, 'request')}")), 1_024)


def _off(text: str, answer: str) -> float:
    if not re.fullmatch(r"\d+(\.\d+)?", answer.strip()):
        return float("nan")
    right, found = float(answer), re.search(r"\d+(\.\d+)?", text)
    return abs(float(found[0]) - right) if found else max(right - 1.0, 5.0 - right)


def published(name: str) -> Table | Text:
    """Return what others published on a benchmark, with where."""
    known = json.loads(files("epic_eval").joinpath("data/published_figures.json").read_text(encoding="utf-8")).get(name)
    if not known:
        return Text("No published figure of this kind is quoted.")
    rows = tuple((row["who"], row["figure"], row["source"]) for row in known["rows"])
    return Table(f"Published by others: {known['measure']}", ("who", "figure", "source"), rows)


def hash_of(path: Path) -> str:
    """Return the beginning of the SHA-256 of a file, or of all files of a folder with their names."""
    digest = hashlib.sha256()
    for file in [path] if path.is_file() else sorted(each for each in path.rglob("*") if each.is_file()):
        digest.update(str(file.relative_to(path)).encode() if file != path else b"")
        with file.open("rb") as content:
            for block in iter(partial(content.read, 1 << 20), b""):
                digest.update(block)
    return digest.hexdigest()[:16]


def bench(
    name: Annotated[str, Argument(metavar="NAME", help=", ".join(BENCHES))],
    path: Annotated[str, Argument(metavar="PATH", help="its file or folder, in its public format")],
    model: Model,
    limit: Annotated[int, Option(metavar="N", help="only the first N histories; 0 for all")] = 0,
    encoder: Annotated[str, Option(help="the memory's")] = "static",
    out: Annotated[str | None, Option(metavar="FOLDER", help="for the report and the model's answers")] = None,
) -> None:
    """Run a public benchmark on a memory as it comes, beside BM25, cosine and what others published."""
    chosen, source, started = BENCHES.get(name), Path(path), time.perf_counter()
    if chosen is None or not source.exists():
        raise InvalidInputError(f"{path} does not exist, or there is no {name!r}: there are {', '.join(BENCHES)}.")
    lm, cores = model.lm(), len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    report = Report(f"{name}: {source.name}")

    def say(part: Table | Text) -> None:
        report.parts.append(part)
        sys.stdout.write((aligned(part) if isinstance(part, Table) else f"\n{part.text}") + "\n")
        sys.stdout.flush()

    machine = f"{platform.system()} {platform.machine()}, {cores} cores, Python {platform.python_version()}"
    known = f"epic-memory {__version__}, encoder {encoder}, no settings; {source.name}, SHA-256 {hash_of(source)}"
    say(Text(f"{known}; {machine}. Split, named before the run: {chosen.split}."))
    found = run(chosen, islice(read(name, source), limit or None), encoder_of(encoder))
    if not any(found):
        raise InvalidInputError(f"{path} holds no question of {name} with an answer to look for.")
    with tempfile.TemporaryDirectory() as folder, closing(Journal(Path(out or folder) / f"{name}.jsonl")) as journal:
        for part in (*parts_of(found, lm, journal), published(name)):
            say(part)
    say(Text(f"{time.perf_counter() - started:.0f} s in all."))
    if out is not None:
        report.write(out, name)


def add_commands(app: Any, command: Any) -> None:
    """Make `bench` the command of an app."""
    command(app)(bench)
