"""What the coarse filter lets through at each tau: how tau of the static encoder was chosen.

The share of Wikipedia passages that pass for a PrefWiki persona, and the share of the labelled pairs that pass,
relevant ones and others.
"""

from __future__ import annotations

import numpy as np

from common import passages, personas, read_jsonl, script_options
from epic_memory.encoders import StaticEncoder

TAUS = (0.15, 0.2, 0.25, 0.3, 0.35, 0.4)


def main() -> None:
    options = script_options(__doc__, data=True)
    encoder = StaticEncoder()
    embedded = encoder.encode(passages(options.data))
    people = [encoder.encode([text for text, _ in persona]) for persona in personas(options.data, "PrefWiki")]
    highest = np.concatenate([(embedded @ preferences.T).max(axis=1) for preferences in people])
    relevant, other = [], []
    for record in read_jsonl(options.data / "verification_labels.jsonl"):
        similarities = encoder.encode([record["chunk"]])[0] @ encoder.encode(record["preferences"]).T
        aligned = {alignment["preference"] for alignment in record["alignments"]}
        for row, similarity in enumerate(similarities):
            (relevant if row in aligned else other).append(similarity)
    print(f"{encoder.name}, its tau {encoder.tau}, its floor {encoder.floor}")
    print("tau    passages that pass   relevant pairs that pass   other pairs that pass")
    for tau in TAUS:
        shares = [float((np.asarray(values) >= tau).mean()) for values in (highest, relevant, other)]
        print(f"{tau:.2f}   {shares[0]:17.2%}   {shares[1]:23.1%}   {shares[2]:20.1%}")


if __name__ == "__main__":
    main()
