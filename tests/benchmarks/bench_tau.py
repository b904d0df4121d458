"""What the coarse filter lets through at each tau: how tau and the steering floor of an encoder were chosen.

For the static encoder: the share of Wikipedia passages that pass for a PrefWiki persona, and the share of the
labelled pairs that pass, relevant ones and others. For MiniLM: the share of the labelled pairs that are relevant,
by their recorded similarity (the labels begin at 0.3).
"""

from __future__ import annotations

import numpy as np

from common import parse, parser, personas, read_jsonl
from epic_memory.encoders import StaticEncoder

TAUS = (0.15, 0.2, 0.25, 0.3, 0.35, 0.4)


def main() -> None:
    made = parser(__doc__.splitlines()[0])
    made.add_argument("--encoder", help="folder of a static encoder; default: the one in the package")
    options = parse(made)
    encoder = StaticEncoder(options.encoder)
    passages = encoder.encode([f"{r['title']}. {r['text']}" for r in read_jsonl(options.data / "wiki_passages.jsonl")])
    people = [encoder.encode([text for text, _ in persona]) for persona in personas(options.data, "PrefWiki")]
    highest = np.concatenate([(passages @ preferences.T).max(axis=1) for preferences in people])
    labels = read_jsonl(options.data / "verification_labels.jsonl")
    relevant, other, minilm = [], [], []
    for record in labels:
        similarities = encoder.encode([record["chunk"]])[0] @ encoder.encode(record["preferences"]).T
        aligned = {alignment["preference"] for alignment in record["alignments"]}
        for row, similarity in enumerate(similarities):
            (relevant if row in aligned else other).append(similarity)
            minilm.append((record["minilm_similarities"][row], row in aligned))
    print(f"{encoder.name}, its tau {encoder.tau}, its floor {encoder.floor}")
    print("tau    passages that pass   relevant pairs that pass   other pairs that pass")
    for tau in TAUS:
        shares = [float((np.asarray(values) >= tau).mean()) for values in (highest, relevant, other)]
        print(f"{tau:.2f}   {shares[0]:17.2%}   {shares[1]:23.1%}   {shares[2]:20.1%}")
    print("MiniLM similarity   pairs   of them relevant")
    for low in (0.3, 0.35, 0.4, 0.45, 0.5):
        band = [aligned for similarity, aligned in minilm if low <= similarity < (low + 0.05 if low < 0.5 else 2)]
        print(f"{low:.2f} and more        {len(band):6}   {np.mean(band):13.1%}")

    unrelated = encoder.encode(
        [question for persona in personas(options.data, "PrefELI5")[:20] for _, asked in persona for question in asked]
    )
    own = [
        (encoder.encode(asked) @ preferences.T).max(axis=1)
        for persona, preferences in zip(personas(options.data, "PrefWiki"), people, strict=True)
        for _, asked in persona
    ]
    foreign = np.concatenate([(unrelated @ preferences.T).max(axis=1) for preferences in people])
    print("floor   own questions steered   PrefELI5 questions steered, under PrefWiki personas")
    for floor in (0.15, 0.2, 0.25, 0.3, 0.35):
        print(f"{floor:.2f}    {(np.concatenate(own) >= floor).mean():20.1%}   {(foreign >= floor).mean():20.1%}")


if __name__ == "__main__":
    main()
