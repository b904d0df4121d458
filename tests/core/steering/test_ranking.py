"""The order of texts by their stances: what suits first, what conflicts last, and when neither counts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from epic_memory import Preference
from epic_memory.steering.ranking import Verdicts, stances_in
from epic_memory.types import Stance
from tables import table

ALLERGIC, RATHER = Preference(text="I'm allergic to wool."), Preference(text="I'd rather take the train.")
BOTH = (ALLERGIC, RATHER)
stances = st.dictionaries(
    st.sampled_from([ALLERGIC.text, RATHER.text, "another user's", None]), st.sampled_from(Stance)
)
cosines = st.floats(0.0, 1.0, width=32)


def ranked(
    texts: list[tuple[float, Mapping[str | None, Stance]]], decide: bool = True, **weights: float
) -> list[float]:
    """The scores of texts of which topic and stances are known; weights are by the preference's name here."""
    named = {"allergic": ALLERGIC.id, "rather": RATHER.id}
    verdicts = Verdicts.of([of for _, of in texts], BOTH, {named[name]: one for name, one in weights.items()}, decide)
    topics = np.array([topic for topic, _ in texts], dtype=np.float32)
    scores: list[float] = verdicts.ranked(topics.copy(), topics).tolist()
    return scores


@given(st.lists(st.tuples(cosines, stances), min_size=1, max_size=12), cosines, cosines)
def test_what_conflicts_stands_below_what_is_as_near_and_does_not(
    texts: list[tuple[float, dict[str | None, Stance]]], allergic: float, rather: float
) -> None:
    scores = ranked(texts, allergic=allergic, rather=rather)
    own = {ALLERGIC.text, RATHER.text, None}
    against = [any(one is Stance.CONFLICTS and name in own for name, one in of.items()) for _, of in texts]
    firmly = [of.get(ALLERGIC.text) is Stance.CONFLICTS for _, of in texts]
    for (topic, of), score, conflicts, firm in zip(texts, scores, against, firmly, strict=True):
        for (other, stances_of_other), better, others in zip(texts, scores, against, strict=True):
            suits = any(
                of.get(name) is Stance.CONFLICTS and one is Stance.SUPPORTS
                for name, one in stances_of_other.items()
                if name in own
            )
            if conflicts and not others and (other >= topic or suits or (firm and other >= 0.41 * topic)):
                assert better > score


@given(st.lists(st.tuples(cosines, stances), max_size=8), cosines)
def test_a_stance_of_conflict_never_raises_a_text(
    texts: list[tuple[float, dict[str | None, Stance]]], topic: float
) -> None:
    for name in (ALLERGIC.text, RATHER.text):
        *_, plain = ranked([*texts, (topic, {})], allergic=0.5)
        *_, judged = ranked([*texts, (topic, {name: Stance.CONFLICTS})], allergic=0.5)
        assert judged <= plain


def test_a_mild_conflict_stays_where_nothing_else_is_near() -> None:
    (near, far), (firm, other) = (
        ranked([(0.8, {name: Stance.CONFLICTS}), (0.4, {})]) for name in (RATHER.text, ALLERGIC.text)
    )
    assert near > far and firm < other


def test_what_suits_gains_by_how_much_its_preference_matters() -> None:
    suits, plain = (0.5, {ALLERGIC.text: Stance.SUPPORTS}), (0.55, {})
    for weight in (0.9, 0.1):
        first, second = ranked([suits, plain], allergic=weight)
        assert (first > second) is (weight == 0.9)
    # How near the best is that conflicts is no measure for the others.
    against, first, second = ranked([(0.95, {ALLERGIC.text: Stance.CONFLICTS}), suits, plain], allergic=0.9)
    assert first > second > against


def test_where_a_question_recalls_a_stance_changes_nothing() -> None:
    texts: list[tuple[float, Mapping[str | None, Stance]]] = [(0.6, {ALLERGIC.text: Stance.CONFLICTS}), (0.5, {})]
    assert ranked(texts, decide=False) == pytest.approx([0.6, 0.5])


NESTED = ({"epic_alignments": "[" * 100_000, "epic_stance": "mixed"}, [[None, "mixed"]])


@pytest.mark.parametrize(("metadata", "expected"), [*table(__file__, "stances_in_metadata"), NESTED], ids=range(13))
def test_stances_are_read_from_metadata(metadata: dict[str, Any], expected: list[list[Any]]) -> None:
    assert stances_in(metadata) == {preference: Stance(stance) for preference, stance in expected}
