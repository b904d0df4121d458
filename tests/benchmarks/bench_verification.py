"""Fine verification by a language model: what a memory holds when the model answers from labels, what it costs.

The model is scripted: it answers from `verification_labels.jsonl`, as fast as Python or after a pause. So this
measures everything around a model, and how often it is called; it says nothing about the quality of any model.
With --url and --model a real one, behind OpenAI's protocol, is asked about some of the labelled chunks instead.
"""

from __future__ import annotations

import asyncio
import json
import re
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from common import parse, parser, personas, read_jsonl
from epic_apps.cli.sources import Sources
from epic_memory import EpicMemory, Settings
from epic_memory.lm import Completion, OpenAICompatibleLM
from epic_memory.types import stable_id
from epic_memory.verification import LMVerifier

BYTES_A_TOKEN = 4
BATCH_SIZES = (1, 4, 8)


def plain(text: str) -> str:
    """Letters and digits alone: quoting changes nothing about them."""
    return re.sub(r"\W+", "", text.casefold())


class Labels:
    """What the labels say of each chunk under each preference, and which pairs they are about."""

    def __init__(self, records: list[dict[str, Any]]) -> None:
        self.pairs: dict[str, list[str]] = {}
        self.said: dict[tuple[str, str], dict[str, Any] | None] = {}
        self.instruction: dict[tuple[str, str], str] = {}
        for record in records:
            pairs = self.pairs.setdefault(record["chunk"], [])
            aligned = {alignment["preference"]: alignment for alignment in record["alignments"]}
            for number, preference in enumerate(record["preferences"]):
                pairs.append(preference)
                self.said[plain(record["chunk"]), plain(preference)] = aligned.get(number)
                if number in aligned:
                    self.instruction[record["chunk"], preference] = aligned[number]["instruction"]
        self.preferences = list(dict.fromkeys(preference for pairs in self.pairs.values() for preference in pairs))

    def answer(self, chunk: str, preference: str) -> dict[str, Any] | None:
        """The alignment of a chunk under a preference."""
        return self.said[plain(chunk), plain(preference)]


class Guessing(Labels):
    """Keeps as many pairs as the labels do, by a hash: for chunks without labels."""

    def __init__(self, share: float) -> None:
        self.share = share

    def answer(self, chunk: str, preference: str) -> dict[str, Any] | None:
        """An alignment, or none."""
        if int(stable_id(plain(chunk), plain(preference))[:6], 16) / 16**6 >= self.share:
            return None
        return {"stance": "supports", "instruction": "Use what the chunk says of the preference when it is asked for."}


class Scripted:
    """A model that reads a prompt as it stands and answers from labels.

    Args:
        labels: What it answers.
        seconds: How long a call takes.
        concurrency: How many at once.
    """

    name = "scripted"
    context: int | None = None

    def __init__(self, labels: Labels, *, seconds: float = 0.0, concurrency: int = 1) -> None:
        self.labels = labels
        self.seconds = seconds
        self.concurrency = concurrency
        self.calls = 0
        self.stop_at: int | None = None

    def complete(self, messages: Any, *, schema: Any = None, max_tokens: int | None = None) -> Completion:
        time.sleep(self.seconds)
        return self._completion(messages)

    async def acomplete(self, messages: Any, *, schema: Any = None, max_tokens: int | None = None) -> Completion:
        await asyncio.sleep(self.seconds)
        return self._completion(messages)

    def _completion(self, messages: Any) -> Completion:
        self.calls += 1
        if self.calls == self.stop_at:
            raise KeyboardInterrupt
        text = json.dumps(self._answer(messages[-1].content))
        asked = sum(len(message.content.encode()) for message in messages)
        return Completion(
            text=text, prompt_tokens=asked // BYTES_A_TOKEN, completion_tokens=len(text.encode()) // BYTES_A_TOKEN
        )

    def _answer(self, prompt: str) -> dict[str, Any]:
        preferences = dict(re.findall(r"^(\d+)\. (.*)$", prompt, re.M))
        chunks = re.findall(r"<chunk \w+>\n(.*?)\n</chunk \w+>", prompt, re.S)
        under = re.findall(r"^Chunk \d+, to be judged under preferences? ([\d, ]+):$", prompt, re.M)
        judged = [
            self._judged(chunk, {number: preferences[number] for number in named.split(", ")})
            for chunk, named in zip(chunks, under, strict=True)
        ]
        return {"answers": [{"chunk": number, **one} for number, one in enumerate(judged, start=1)]}

    def _judged(self, chunk: str, preferences: dict[str, str]) -> dict[str, Any]:
        aligned = {number: self.labels.answer(chunk, preference) for number, preference in preferences.items()}
        relevant = [
            {"preference": int(number), "stance": one["stance"], "instruction": one["instruction"]}
            for number, one in aligned.items()
            if one is not None
        ]
        return {"decision": "Keep" if relevant else "Discard", "preferences": relevant, "evidence": "As labelled."}


class LabelledPairs:
    """An encoder under which the coarse filter passes exactly the pairs the labels are about."""

    name = "labelled-pairs"
    fingerprint = "v1"
    tau = 0.05
    floor = 0.0

    def __init__(self, labels: Labels) -> None:
        self.dimension = len(labels.preferences) + 16
        self._axis = {preference: number for number, preference in enumerate(labels.preferences)}
        self._pairs = labels.pairs

    def encode(self, texts: Any) -> Any:
        vectors = np.zeros((len(texts), self.dimension), dtype=np.float32)
        for row, text in enumerate(texts):
            named = self._pairs.get(text, [text] if text in self._axis else [])
            vectors[row, [self._axis[preference] for preference in named] or [-1 - len(text) % 16]] = 1.0
        return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)

    async def aencode(self, texts: Any) -> Any:
        return self.encode(texts)


def check(memory: EpicMemory, labels: Labels) -> None:
    """Print what a memory holds, and refuse to go on if it is not what the labels say."""
    counts = memory.stats().counts
    held = {}
    for chunk in labels.pairs:
        try:
            explanation = memory.explain(stable_id("item", chunk))
        except LookupError:
            continue
        held |= {(chunk, entry.preference): entry.instruction for entry in explanation.entries}
    right = {key: " ".join(text.split()) for key, text in labels.instruction.items()} == held
    print(f"  {counts['entries']} entries on {counts['items']} items; each with its labelled instruction: {right}")
    assert right, "the memory does not hold what the labels say"


def main() -> None:
    made = parser(__doc__)
    made.add_argument("--url", help="a server with OpenAI's protocol, such as http://localhost:8000/v1")
    made.add_argument("--model", help="the model's name on it")
    made.add_argument("--limit", type=int, default=40, help="how many chunks it is asked about")
    options = parse(made)
    labels = Labels(read_jsonl(options.data / "verification_labels.jsonl"))
    print(f"{len(labels.pairs)} chunks, {len(labels.said)} pairs, {len(labels.preferences)} preferences\n")
    if options.url:
        real(labels, OpenAICompatibleLM(options.url, options.model, context=4096, timeout=600.0), options.limit)
        return
    sizes(labels)
    interrupted(labels)
    overhead(labels)
    at_once(labels)
    incoming(labels, options.data)


def sizes(labels: Labels) -> None:
    """How many calls it takes, by how many items a call is about at most."""
    for size in BATCH_SIZES:
        lm = Scripted(labels)
        memory = EpicMemory(
            labels.preferences,
            encoder=LabelledPairs(labels),
            settings=Settings(verifier=LMVerifier(lm, batch_size=size), aspects="parser"),
        )
        report = memory.add(list(labels.pairs))
        usage = report.usage
        print(
            f"{size} a call: {usage.calls} calls for {report.passed} items that passed,"
            f" {usage.calls / report.passed:.2f} each"
        )
        print(f"  {usage.prompt_tokens} + {usage.completion_tokens} tokens, at {BYTES_A_TOKEN} bytes a token")
        check(memory, labels)


def real(labels: Labels, lm: OpenAICompatibleLM, limit: int) -> None:
    """How often a real model decides as the labels do, by how many items a call is about at most."""
    chunks = list(labels.pairs)[:limit]
    for size in BATCH_SIZES:
        verifier = LMVerifier(lm, batch_size=size)
        memory = EpicMemory(
            labels.preferences, encoder=LabelledPairs(labels), settings=Settings(verifier=verifier, aspects="parser")
        )
        report = memory.add(chunks)
        kept = {chunk for chunk in chunks if _is_held(memory, chunk)}
        decided = [chunk for chunk in chunks if stable_id("item", chunk) not in report.failures]
        wanted = {chunk for chunk in chunks if any(labels.answer(chunk, one) for one in labels.pairs[chunk])}
        same = sum((chunk in kept) == (chunk in wanted) for chunk in decided)
        usage = report.usage
        print(
            f"{size} a call: {report.passed} items, {usage.calls} calls ({usage.retries} again), {usage.prompt_tokens}"
            f" + {usage.completion_tokens} tokens, {usage.seconds:.0f} s; {report.undecided} undecided;"
            f" {same} of {len(decided)} decided as labelled, {report.kept} kept ({len(wanted)} by the labels)"
        )


def _is_held(memory: EpicMemory, chunk: str) -> bool:
    try:
        return bool(memory.explain(stable_id("item", chunk)).entries)
    except LookupError:
        return False


def interrupted(labels: Labels) -> None:
    """A build that is stopped three times."""
    print("\nstopped at the 30th, 60th and 90th call, and taken up again:")
    lm, encoder, chunks = Scripted(labels), LabelledPairs(labels), list(labels.pairs)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "me.epic"
        for stop in (30, 60, 90, None):
            lm.stop_at = stop
            with EpicMemory.open(
                path, labels.preferences, encoder=encoder, settings=Settings(verifier=LMVerifier(lm), aspects="parser")
            ) as memory:
                try:
                    memory.add(chunks)
                except KeyboardInterrupt:
                    continue
                check(memory, labels)
        print(f"  {lm.calls} calls, the three that were interrupted included")
        with EpicMemory.open(
            path, encoder=encoder, settings=Settings(verifier=LMVerifier(lm), aspects="parser")
        ) as memory:
            again = memory.add(chunks)
            print(f"  the same items again: {again.usage.calls} calls, {again.cached} verdicts from the cache")


def overhead(labels: Labels) -> None:
    """What everything around the model takes."""
    taken = []
    for _ in range(5):
        with tempfile.TemporaryDirectory() as folder:
            verifier, encoder = LMVerifier(Scripted(labels)), LabelledPairs(labels)
            path = Path(folder) / "me.epic"
            memory = EpicMemory.open(
                path, labels.preferences, encoder=encoder, settings=Settings(verifier=verifier, aspects="parser")
            )
            first, *others = labels.pairs
            memory.add([first])  # reads the preferences and expands them, which is done once
            began = time.perf_counter()
            report = memory.add(others)
            memory.close()
            taken.append((time.perf_counter() - began) / report.passed)
    print("\naround the model: prompt, parse, cache, store")
    print(f"  {1e3 * sorted(taken)[2]:.2f} ms a verdict, closing the file included (at most 1)")


def at_once(labels: Labels) -> None:
    """Eight calls at the same time, against one."""
    print("\n8 calls at once, a model that takes 50 ms:")
    chunks = list(labels.pairs)[:128]
    for kind in ("threads", "tasks"):
        seconds = []
        for concurrency in (1, 8):
            lm = Scripted(labels, seconds=0.05, concurrency=concurrency)
            memory = EpicMemory(
                labels.preferences,
                encoder=LabelledPairs(labels),
                settings=Settings(verifier=LMVerifier(lm, batch_size=1), aspects="parser"),
            )
            began = time.perf_counter()
            if kind == "threads":
                memory.add(chunks)
            else:
                asyncio.run(memory.aadd(chunks))
            seconds.append(time.perf_counter() - began)
        print(f"  {kind}: {seconds[0]:.2f} s and {seconds[1]:.2f} s, {seconds[0] / seconds[1]:.2f} times (at least 7)")


def incoming(labels: Labels, data: Path) -> None:
    """Calls for each item that comes in, most of which the coarse filter stops."""
    persona = [preference for preference, _ in personas(data, "PrefWiki")[0]]
    files = [data / "wiki_passages.jsonl", data / "assistant_answers.jsonl"]
    share = len(labels.instruction) / len(labels.said)
    print(f"\ncalls an incoming item, PrefWiki persona 0, static encoder, a model that keeps {share:.0%} of the pairs:")
    for source in (files[:1], files):
        for size in BATCH_SIZES:
            memory = EpicMemory(
                persona, settings=Settings(verifier=LMVerifier(Scripted(Guessing(share)), batch_size=size))
            )
            report = memory.add(Sources(source))
            print(
                f"  {' + '.join(file.stem for file in source)}, {size} a call: {report.usage.calls / report.seen:.3f}"
                f" ({report.seen} items, {report.share_passed:.1%} passed, {report.usage.calls} calls; the paper: 0.22)"
            )


if __name__ == "__main__":
    main()
