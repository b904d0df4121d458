"""Losses that are seeded, one kind after the other: `why_not` names the stage of each."""

from __future__ import annotations

import random
from collections import Counter
from datetime import datetime, timedelta, timezone
from typing import Any

import pytest

from epic_apps import why_not
from epic_memory import EpicMemory, Item, Settings
from epic_memory.errors import InvalidInputError

PREFERENCES = ["I avoid hotels with casinos.", "I follow a vegan diet."]
FOODS = ["tea", "soup", "bread", "rice", "beans", "cake", "noodles", "peppers", "apples", "plums", "figs", "oats"]
PLACES = ["Oslo", "Rome", "Bergen", "Lyon", "Porto", "Ghent", "Turin", "Malmo", "Graz", "Bern", "Riga", "Cork"]
RELATIVES = ["sister", "brother", "cousin", "uncle", "aunt", "nephew", "niece", "neighbour"]
NAMES = ["Ines", "Karl", "Maya", "Tom", "Lena", "Ravi", "Noor", "Olga", "Pablo", "Greta"]
TOPICS = ["engine", "bridge", "lamp", "violin", "letter", "window", "garden", "forest", "ticket", "river"]


def seeded(kind: str, rng: random.Random) -> tuple[EpicMemory, str]:
    """A memory in which something of a kind was lost, and what the user misses."""
    settings = Settings(reserve=0) if kind in ("coarse filter", "verification") else Settings()
    memory = EpicMemory(PREFERENCES, settings=settings)
    food, place, who, name = (rng.choice(each) for each in (FOODS, PLACES, RELATIVES, NAMES))
    memory.facts.add(f"My {rng.choice(['dentist', 'teacher', 'boss'])} is called {rng.choice(NAMES)}.")
    memory.add([f"A hotel with a casino in {rng.choice(PLACES)}."])
    lost = f"I love {food}."
    if kind == "proposed":
        memory.proposals.propose([{"role": "user", "content": lost}])
    elif kind == "turned away":
        memory.proposals.reject(*memory.proposals.propose([{"role": "user", "content": lost}]))
    elif kind == "replaced":
        lost = f"I live in {place}."
        memory.facts.add(lost)
        memory.facts.add(f"I moved to {rng.choice([each for each in PLACES if each != place])}.")
        memory.proposals.accept(*memory.proposals)
    elif kind == "held":
        memory.facts.add(f"My {who} is called {name}.")
        lost = f"my {who}'s name"
    elif kind == "ruled out":
        memory.never.add("my health")
        lost = rng.choice(["I take insulin every morning.", "I was diagnosed with depression.", "My doctor is strict."])
        memory.add([lost])
    elif kind == "secret":
        lost = f"My password is {name.lower()}{rng.randint(10, 99)}."
        memory.proposals.propose([{"role": "user", "content": lost}])
    elif kind == "coarse filter":
        lost = f"The {rng.choice(TOPICS)} of {name} was sold in {1900 + rng.randint(0, 99)}."
        memory.add([lost])
    elif kind == "expired":
        # What is over by itself leaves no trace: it is as unknown as what was never said.
        lost = f"The {rng.choice(TOPICS)} hotel with a casino is open."
        over = datetime.now(timezone.utc) + timedelta(milliseconds=1)
        memory.add([Item(text=lost, expires_at=over)])
    elif kind == "forgotten":
        memory.add([Item(id="gone", text=lost)])
        memory.forget("gone")
    return memory, lost


STAGES = {
    "never said": "not known",
    "forgotten": "not known",
    "expired": "not known",
    **{kind: kind for kind in ("proposed", "turned away", "replaced", "held", "ruled out", "secret", "coarse filter")},
}


def test_the_stage_of_seeded_losses_is_named() -> None:
    rng = random.Random(3)
    wrong: Counter[Any] = Counter()
    kinds = [kind for kind in STAGES for _ in range(8)]
    for kind in kinds:
        memory, lost = seeded(kind, rng)
        found = why_not(memory, lost)
        if found.stage != STAGES[kind]:
            wrong[kind, found.stage, lost] += 1
    assert sum(wrong.values()) <= 0.05 * len(kinds), wrong


def test_a_budget_that_is_full() -> None:
    memory = EpicMemory(PREFERENCES, settings=Settings(budget="150 KB", not_kept=2000))
    rng = random.Random(1)
    memory.add([f"Hotel {n} with a casino in {rng.choice(PLACES)}, {rng.choice(TOPICS)} {n}." for n in range(600)])
    evicted = [record for record in memory.file.not_kept() if record.stage == "budget"]
    assert evicted
    assert why_not(memory, evicted[0].text).stage == "budget"


def test_below_the_threshold_and_nothing_is_changed() -> None:
    memory = EpicMemory(PREFERENCES)
    memory.add([Item(id="x-ray", text="Qwrt zzgl plokij.")])
    before = memory.file.revision
    found = why_not(memory, "x-ray")
    assert found.stage in ("held", "below the threshold") and found.text == "Qwrt zzgl plokij."
    assert memory.file.revision == before
    with pytest.raises(InvalidInputError):
        why_not(memory, " ")


def test_the_answer_says_what_to_do() -> None:
    memory = EpicMemory()
    memory.proposals.propose([{"role": "user", "content": "I love tea."}])
    told = str(why_not(memory, "I love tea"))
    assert told.startswith("proposed: it waits") and "epic proposals FILE accept" in told


HELD = ["I like skiing.", *PREFERENCES]


@pytest.mark.parametrize(
    ("text", "preference"),
    [("skiing", HELD[0]), ("I enjoy going skiing.", HELD[0]), ("winter sports", HELD[0]), ("gambling", HELD[1]),
     ("I don't eat meat.", HELD[2]), ("plant-based food", HELD[2])],
)  # fmt: skip
def test_a_preference_is_found_by_a_word_and_in_other_words(text: str, preference: str) -> None:
    found = why_not(EpicMemory(HELD), text)
    assert (found.stage, found.text) == ("held", preference)


@pytest.mark.parametrize(
    "text", ["my doctor", "I love bread.", "tea", "football", "I live in Oslo.", "my sister's name"]
)
def test_what_no_preference_says_is_not_taken_for_one(text: str) -> None:
    assert why_not(EpicMemory(HELD), text).stage == "not known"


def test_a_text_that_was_not_kept_is_no_preference() -> None:
    memory = EpicMemory(HELD, settings=Settings(reserve=0, not_kept=0))
    text = "sports news"
    memory.add([text])
    assert why_not(memory, text).stage in ("coarse filter", "verification")
