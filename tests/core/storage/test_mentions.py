"""What a model wrote under other preferences does not name a removed one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from epic_memory import EpicMemory, Item
from epic_memory.storage.mentions import Mentions
from epic_memory.types import Alignment, Decision, Preference, Verdict
from epic_memory.verification import EmbeddedVerifier
from helpers import Clock, FakeVerifier, memory_at
from tables import table

REMOVED, STAYING = "I take Zyprexolin against seizures.", "I like lakeside cabins."


class Talkative(FakeVerifier):
    """Names the removed preference in all that it says of others, and keeps what has a lake."""

    name = "talkative"
    cached = True

    def verdicts(self, candidates: Any) -> Any:
        for candidate in candidates:
            rationale = "It has a lake. Nothing for a Zyprexolin patient with\nseizures."
            kept = [one for one in candidate.preferences if one.text == STAYING and "drop" not in candidate.item.text]
            alignments = tuple(
                Alignment(preference_id=one.id, instruction="Name the lake. Mind the Zyprexolin.") for one in kept
            )
            decision = Decision.KEEP if kept else Decision.DISCARD
            yield Verdict(decision=decision, rationale=rationale, alignments=alignments, confidence=0.9)


def held(path: Path, **options: Any) -> EpicMemory:
    return memory_at(path, STAYING, REMOVED, verifier=Talkative(), tau=-1.0, not_kept=50, **options)


def written(memory: EpicMemory) -> list[str]:
    entries = [one for hit in memory.search("lake", k=9) for one in hit.entries]
    said = [text for one in entries for text in (one.rationale, one.instruction)]
    return said + [record.reason for record in memory.file.not_kept()]


@pytest.mark.parametrize("way", ["remove", "now by words", "replace", "expire"])
def test_what_names_a_removed_preference_goes_with_it(path: Path, way: str, clock: Clock) -> None:
    with held(path) as memory:
        memory.add([Item(id="cabin", text="A cabin by the lake."), Item(id="far", text="drop this lake")])
        assert "Zyprexolin" in str(written(memory)) and b"Zyprexolin" in path.read_bytes()
        if way in ("remove", "now by words"):
            # Of what the embedded verifier writes nothing is read, of what another one wrote before it all.
            memory.verifier = memory.verifier if way == "remove" else EmbeddedVerifier(memory.encoder)
            memory.preferences.remove(REMOVED)
        elif way == "replace":
            memory.preferences.replace(REMOVED, "I sleep late.")
        else:
            memory.preferences.replace(REMOVED, Preference(text=REMOVED, expires_at=clock.ends(1)))
            clock.pass_by(2)
            memory.add([])
            memory.preferences.add("I sleep late.")
        left = str(written(memory))
        assert "Zyprexolin" not in left and "seizures" not in left
        assert "It has a lake." in left and "Name the lake." in left
        memory.file.verify()
    data = path.read_bytes()
    assert not any(word in data for word in (b"Zyprexolin", b"seizures"))


def test_another_users_answers_stay(path: Path) -> None:
    with held(path) as mine, held(path, namespace="other") as other:
        for memory in (mine, other):
            memory.add([Item(id="cabin", text="A cabin by the lake.")])
        before, counts = written(other), other.stats().counts["verdicts"]
        mine.preferences.remove(REMOVED)
        assert written(other) == before and counts - other.stats().counts["verdicts"] == 2
        assert other.stats().counts["entries"] == 1


@pytest.mark.parametrize(("text", "item", "left"), table(__file__, "only_what_can_come_from_nowhere_else_is_a_mention"))
def test_only_what_can_come_from_nowhere_else_is_a_mention(text: str, item: str, left: str) -> None:
    mentions = Mentions("I follow a strict vegan diet.", ["I like quick dishes."])
    assert mentions.without(text, item) == left
    assert mentions.inside(item, text, None) == (left != text)


def test_a_longer_preference_that_stays_does_not_mention_the_shorter_one() -> None:
    long = "Suits the user, who wants wine and cheese."
    for text, left in ((long, long), (f"{long} They want wine.", "")):
        assert Mentions("Wine", ["Wine and cheese"]).without(text, "A shop.") == left
    # A word is found in its other forms.
    assert Mentions("I fly kites.", []).without("Nothing for one who flies.", "A field.") == ""
