"""Fine verification by a language model: how often it is called for what comes in, and calls at the same time.

The model is scripted: it keeps as many pairs as the labels of `verification_labels.jsonl` do, by a hash, as fast as
Python or after a pause. So this measures everything around a model; it says nothing about the quality of any model.
"""

from __future__ import annotations

import asyncio
import json
import re
import time
from pathlib import Path
from typing import Any

from common import parse, parser, passages, personas, read_jsonl, sources
from epic_memory import EpicMemory, Settings
from epic_memory.lm import Completion
from epic_memory.types import stable_id
from epic_memory.verification import LMVerifier

INSTRUCTION = "Use what the chunk says of the preference when it is asked for."


def plain(text: str) -> str:
    """Letters and digits alone: quoting changes nothing about them."""
    return re.sub(r"\W+", "", text.casefold())


class Scripted:
    """A model that reads a prompt as it stands, and keeps a share of the pairs in it.

    Args:
        share: The share that is kept.
        seconds: How long a call takes.
        concurrency: How many at once.
    """

    name = "scripted"
    context: int | None = None

    def __init__(self, share: float, *, seconds: float = 0.0, concurrency: int = 1) -> None:
        self.share, self.seconds, self.concurrency = share, seconds, concurrency

    def complete(self, messages: Any, *, schema: Any = None, max_tokens: int | None = None) -> Completion:
        time.sleep(self.seconds)
        return self._completion(messages[-1].content)

    async def acomplete(self, messages: Any, *, schema: Any = None, max_tokens: int | None = None) -> Completion:
        await asyncio.sleep(self.seconds)
        return self._completion(messages[-1].content)

    def _completion(self, prompt: str) -> Completion:
        preferences = dict(re.findall(r"^(\d+)\. (.*)$", prompt, re.M))
        chunks = re.findall(r"<chunk \w+>\n(.*?)\n</chunk \w+>", prompt, re.S)
        under = re.findall(r"^Chunk \d+, to be judged under preferences? ([\d, ]+):$", prompt, re.M)
        judged = [
            self._judged(chunk, {number: preferences[number] for number in named.split(", ")})
            for chunk, named in zip(chunks, under, strict=True)
        ]
        return Completion(text=json.dumps({"answers": [{"chunk": n, **one} for n, one in enumerate(judged, start=1)]}))

    def _judged(self, chunk: str, preferences: dict[str, str]) -> dict[str, Any]:
        relevant = [
            {"preference": int(number), "stance": "supports", "instruction": INSTRUCTION}
            for number, preference in preferences.items()
            if int(stable_id(plain(chunk), plain(preference))[:6], 16) / 16**6 < self.share
        ]
        return {"decision": "Keep" if relevant else "Discard", "preferences": relevant, "evidence": "By a hash."}


def at_once(data: Path, persona: list[str], share: float) -> None:
    """Eight calls at the same time, against one."""
    print("8 calls at once, a model that takes 50 ms:")
    chunks = passages(data)[:128]
    for kind in ("threads", "tasks"):
        seconds = []
        for concurrency in (1, 8):
            verifier = LMVerifier(Scripted(share, seconds=0.05, concurrency=concurrency), batch_size=1)
            memory = EpicMemory(persona[:1], settings=Settings(verifier=verifier, tau=-1.0, aspects="parser"))
            began = time.perf_counter()
            if kind == "threads":
                memory.add(chunks)
            else:
                asyncio.run(memory.aadd(chunks))
            seconds.append(time.perf_counter() - began)
        print(f"  {kind}: {seconds[0]:.2f} s and {seconds[1]:.2f} s, {seconds[0] / seconds[1]:.2f} times (at least 7)")


def incoming(data: Path, persona: list[str], share: float) -> None:
    """Calls for each item that comes in, most of which the coarse filter stops."""
    print(f"\ncalls an incoming item, PrefWiki persona 0, static encoder, a model that keeps {share:.0%} of the pairs:")
    every = list(sources(data))
    wiki = [item for item in every if item.id.startswith("wiki")]
    for name, items in (("passages", wiki), ("passages and long answers", every)):
        memory = EpicMemory(persona, settings=Settings(verifier=LMVerifier(Scripted(share), batch_size=8)))
        report = memory.add(items)
        print(
            f"  {name}, 8 a call: {report.usage.calls / report.seen:.3f}"
            f" ({report.seen} items, {report.share_passed:.1%} passed, {report.usage.calls} calls; the paper: 0.22)"
        )


def main() -> None:
    options = parse(parser(__doc__.splitlines()[0]))
    records = read_jsonl(options.data / "verification_labels.jsonl")
    # A pair counts once, however often it was judged.
    pairs = {
        (record["chunk"], preference): any(one["preference"] == number for one in record["alignments"])
        for record in records
        for number, preference in enumerate(record["preferences"])
    }
    share = sum(pairs.values()) / len(pairs)
    persona = [preference for preference, _ in personas(options.data, "PrefWiki")[0]]
    at_once(options.data, persona, share)
    incoming(options.data, persona, share)


if __name__ == "__main__":
    main()
