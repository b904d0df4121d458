"""How well the aspect parser reads preferences: precision and recall on sentences that we wrote and labelled.

`shared/tools/written/preferences.jsonl` holds preferences in the shapes of the four persona sets, with what each likes
and avoids, how firmly, and its scope. The parser's cues were chosen with half of them in view. What is a match:
`tests/support/labelled_aspects.py`. Needs no data folder.
"""

from __future__ import annotations

from collections import Counter

import common  # noqa: F401  # puts tests/support on the path
from labelled_aspects import Count, Measured, labelled, measure


def line(name: str, count: Count) -> str:
    return f"{name:22} {count.precision:9.3f} {count.recall:7.3f} {count.read:6} {count.labelled:9}"


def shares(measured: Measured) -> str:
    named = {"sides": measured.sides_right, "firmness": measured.firmness_right, "everything": measured.all_right}
    return ", ".join(f"{name} {right / measured.sentences:.3f}" for name, right in named.items())


def main() -> None:
    records = labelled()
    measured = measure(records)
    print(f"{len(records)} sentences          precision  recall   read  labelled")
    print(line("both sides", measured.both))
    for name, count in measured.sides.items():
        print(line(name, count))
    print(line("scope", measured.scope))
    print(f"share of sentences with the right ... {shares(measured)}")
    for shape in Counter(record["shape"] for record in records):
        of_shape = measure([record for record in records if record["shape"] == shape])
        print(f"{line(shape, of_shape.both)}   {of_shape.sentences} sentences: {shares(of_shape)}")


if __name__ == "__main__":
    main()
