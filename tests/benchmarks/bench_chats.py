"""Benchmark of imported chats: precision and recall of proposals, and what came from anybody but the user.

    python tests/benchmarks/bench_chats.py

`chats_a.jsonl` has 100 short chats in the shape of ChatGPT's export, with edits, deleted branches, tool calls, images,
custom instructions and pasted texts, labelled with what the user's turns propose. Each is imported into a memory of its
own; a proposal is right as in `bench_proposals.py`.
"""

from __future__ import annotations

import json
import tempfile
from collections import Counter
from pathlib import Path

from bench_proposals import is_right
from common import read_jsonl
from epic_apps import import_from
from epic_memory import EpicMemory
from fitting import WRITTEN


def main() -> None:
    rows, counts = read_jsonl(WRITTEN / "chats_a.jsonl"), Counter[str]()
    for row in rows:
        with tempfile.TemporaryDirectory() as folder, EpicMemory() as memory:
            (export := Path(folder, "conversations.json")).write_text(json.dumps([row["conversation"]]), "utf-8")
            import_from(memory, export)
            proposals = list(memory.proposals)
        missed = list(row["expect"])
        counts["wanted"] += len(missed)
        for proposal in proposals:
            counts["made"] += 1
            counts["not own"] += not any(proposal.quote in text for text in row["own"])
            counts["pasted"] += any(proposal.quote in text for text in row["pasted"])
            counts["near"] += any(is_right(proposal, label, kind=False) for label in row["expect"])
            if (hit := next((label for label in missed if is_right(proposal, label)), None)) is not None:
                missed.remove(hit)
                counts["right"] += 1
    made, wanted = max(counts["made"], 1), max(counts["wanted"], 1)
    print(f"{len(rows)} chats, {counts['made']} proposals, {counts['wanted']} labelled")
    print(f"precision {counts['right'] / made:.2f}   ({counts['near'] / made:.2f} whatever the kind)")
    print(f"recall    {counts['right'] / wanted:.2f}")
    print(f"of an assistant, a tool or another branch {counts['not own']}, of pasted texts {counts['pasted']}")


if __name__ == "__main__":
    main()
