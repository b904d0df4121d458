"""Forms: how many fields are filled in, and how many rightly, without a language model.

    python tests/benchmarks/bench_forms.py

Six memories of our own with a form of eight fields each (`shared/tools/written/forms.jsonl`); of ten fields nothing is
known. Three of the forms were looked at while the rules were written, three were only run. A value is right if it is
the one expected; for a text, case and the full stop at its end do not count.
"""

from __future__ import annotations

import time

import common  # noqa: F401  # puts shared/tools on the path
from epic_learn.forms import FilledField, fill
from epic_memory import EpicMemory, Settings
from fitting import written


def is_right(filled: FilledField, expected: object) -> bool:
    if isinstance(filled.value, str) and isinstance(expected, str):
        return filled.value.casefold().rstrip(".") == expected.casefold()
    return type(filled.value) is type(expected) and filled.value == expected


def measure(name: str, forms: list[dict]) -> None:
    filled = right = known = fields = kept_empty = 0
    seconds = 0.0
    for form in forms:
        asked = [{key: value for key, value in field.items() if key != "expected"} for field in form["fields"]]
        expected = {field["name"]: field["expected"] for field in form["fields"]}
        with EpicMemory(form["preferences"], settings=Settings(coarse=False, fine=False)) as memory:
            memory.add(form["notes"])
            for fact in form["facts"]:
                memory.facts.add(fact)
            fill(memory, {"fields": asked})
            started = time.perf_counter()
            made = fill(memory, {"fields": asked})
            seconds += time.perf_counter() - started
        for each in made:
            wanted = expected[each.field.name]
            fields += 1
            known += wanted is not None
            filled += each.state == "filled"
            right += each.state == "filled" and is_right(each, wanted)
            kept_empty += wanted is None and each.state != "filled"
    print(
        f"{name}: {fields} fields, {known} known; filled {filled}, of which right {right} ({right / filled:.2f});"
        f" known ones filled rightly {right / known:.2f}; unknown ones left empty {kept_empty} of {fields - known};"
        f" {1000 * seconds / fields:.1f} ms a field",
        flush=True,
    )


def main() -> None:
    forms = written("forms.jsonl")
    measure("looked at", [form for form in forms if form["looked_at"]])
    measure("only run", [form for form in forms if not form["looked_at"]])


if __name__ == "__main__":
    main()
