"""Facts that only look like one another: none takes the place of another, and none is dropped as a repetition.

Found by a reviewer: losing an allergy is worse than keeping two facts.
"""

from __future__ import annotations

import pytest

from epic_core import EpicMemory

OPPOSITES = [
    ("I am not allergic to penicillin", "I am allergic to penicillin"),
    ("I can't eat gluten", "I can eat gluten"),
    ("Mia may eat nuts", "Mia may not eat nuts"),
    ("I take insulin", "I do not take insulin"),
    ("My safe code is 12", "My safe code is not 12"),
    ("The spare key is under the mat", "The spare key is not under the mat"),
    ("I have no siblings", "I have siblings"),
    ("I'm not vegetarian", "I'm vegetarian"),
    ("My wife is pregnant", "My wife is not pregnant"),
    (
        "Blood pressure pills: take 5 mg of the white tablets every morning with breakfast and water",
        "Blood pressure pills: take 10 mg of the white tablets every morning with breakfast and water",
    ),
    (
        "Doctor's appointment at the clinic near the station, bring the insurance card, on 3 May at 10:30",
        "Doctor's appointment at the clinic near the station, bring the insurance card, on 4 May at 11:30",
    ),
]
DIFFERENT = [
    ("My daughter is allergic to nuts.", "My daughter is allergic to eggs."),
    ("My friend Anna lives in Rome.", "My friend Eva lives in Paris."),
    ("My car is red.", "My car is a Skoda."),
    ("My car is red.", "My car is in the garage."),
    ("My cat is 5.", "My cat is called Tom."),
    ("My email is a@x.com.", "My work email is b@y.com."),
    ("I am vaccinated against hepatitis A", "I am vaccinated against hepatitis B"),
    ("I work at Acme on weekdays", "I work at the bakery on weekends"),
    ("Locker 12: 4471", "Locker 13: 9902"),
    ("I run 5 km on Monday", "I run 10 km on Friday"),
    ("My wife's name is Anna", "My ex-wife's name is Eva"),
    ("Please call Bob before Anna calls", "Please call Anna before Bob calls"),
]


@pytest.mark.parametrize(("first", "second"), [*OPPOSITES, *((b, a) for a, b in OPPOSITES)])
def test_the_opposite_is_no_repetition(first: str, second: str) -> None:
    memory = EpicMemory()
    memory.add_fact(first)
    (edit,) = memory.add_fact(second).edits

    assert edit.kind != "duplicate"
    assert second in [fact.text for fact in memory.facts()]


@pytest.mark.parametrize(("first", "second"), [*DIFFERENT, *((b, a) for a, b in DIFFERENT)])
def test_what_differs_in_more_than_a_value_is_held_beside_it(first: str, second: str) -> None:
    memory = EpicMemory()
    memory.add_fact(first)
    memory.add_fact(second)

    assert {fact.text for fact in memory.facts()} == {first, second}
