"""Fine verification by a language model: how often it is called for what comes in.

The model is scripted: it keeps as many pairs as the labels of `verification_labels.jsonl` do, by a hash. So this
measures everything around a model; it says nothing about the quality of any model.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from common import Replayed, personas, read_jsonl, script_options, sources
from epic_memory import EpicMemory, Settings
from epic_memory.lm.base import Schema
from epic_memory.types import stable_id
from epic_memory.verification import LMVerifier


class Scripted(Replayed):
    """A model that reads a prompt as it stands, and keeps a share of the pairs in it."""

    def __init__(self, share: float) -> None:
        super().__init__()
        self.share = share

    def answer(self, prompt: str, schema: Schema | None) -> dict[str, Any]:
        preferences = dict(re.findall(r"^(\d+)\. (.*)$", prompt, re.M))
        chunks = re.findall(r"<chunk \w+>\n(.*?)\n</chunk \w+>", prompt, re.S)
        under = re.findall(r"^Chunk \d+, to be judged under preferences? ([\d, ]+):$", prompt, re.M)
        judged = [
            self._judged(chunk, {number: preferences[number] for number in named.split(", ")})
            for chunk, named in zip(chunks, under, strict=True)
        ]
        return {"answers": [{"chunk": n, **one} for n, one in enumerate(judged, start=1)]}

    def _judged(self, chunk: str, preferences: dict[str, str]) -> dict[str, Any]:
        relevant = [
            {"preference": int(number), "stance": "supports", "instruction": "Use what it says of it."}
            for number, preference in preferences.items()
            if int(stable_id(chunk, preference)[:6], 16) / 16**6 < self.share
        ]
        return {"decision": "Keep" if relevant else "Discard", "preferences": relevant, "evidence": "By a hash."}


def incoming(data: Path, persona: list[str], share: float) -> None:
    """Calls for each item that comes in, most of which the coarse filter stops."""
    print(f"calls an incoming item, PrefWiki persona 0, static encoder, a model that keeps {share:.0%} of the pairs:")
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
    options = script_options(__doc__, data=True)
    records = read_jsonl(options.data / "verification_labels.jsonl")
    # A pair counts once, however often it was judged.
    pairs = {
        (record["chunk"], preference): any(one["preference"] == number for one in record["alignments"])
        for record in records
        for number, preference in enumerate(record["preferences"])
    }
    share = sum(pairs.values()) / len(pairs)
    persona = [preference for preference, _ in personas(options.data, "PrefWiki")[0]]
    incoming(options.data, persona, share)


if __name__ == "__main__":
    main()
