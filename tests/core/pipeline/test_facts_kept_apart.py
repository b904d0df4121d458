"""Facts that only look like one another: none takes the place of another, and none is dropped as a repetition.

Found by a reviewer: losing an allergy is worse than keeping two facts.
"""

from __future__ import annotations

import pytest

from epic_memory import EpicMemory

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
    ("Row 3 seat 4 is for Anna", "Row 4 seat 3 is for Anna"),
    ("Shelf 2-1 holds the screws", "Shelf 2-2 holds the screws"),
    ("Part 1/2 of the contract is in the blue folder", "Part 1/3 of the contract is in the blue folder"),
    ("Booking LH 2-1 is confirmed", "Booking LH 2-2 is confirmed"),
    ("Flight LH 2-1 leaves at 9:00", "Flight LH 2-2 leaves at 11:00"),
    ("Terminal A is where the Oslo flight leaves", "Terminal B is where the Oslo flight leaves"),
    ("Part II of the form is done", "Part III of the form is done"),
    ("Invoice 17 is over 300 euros", "Invoice 18 is over 450 euros"),
    ("My flight LH 454: ticket 220123", "My flight LH 454: seat 14C"),
    ("My booking for the Oslo flight is ticket 7731", "My booking for the Oslo flight is seat 12A"),
    ("My flight to Oslo is on 4 May", "My flight back from Oslo is on 9 May"),
    ("Tom's school starts at 8:30", "Tom's school ends at 15:00"),
    ("The shop opens at 9 on weekdays", "The shop opens at 10 on Saturdays"),
    ("My rent is 900 euros", "The rent for the garage is 60 euros"),
    ("My dentist is Dr Kern", "The dentist has moved to Mill Lane"),
    ("My boss is Ruth", "My boss is Dutch"),
    ("My phone number is 07700 900111", "My phone is a Pixel 8"),
    ("My daughter plays the violin", "My daughter has stopped playing football"),
    ("I play the piano on Mondays", "I have stopped playing football"),
    ("My cat is called Tom", "My cat has died, the black one"),
    ("My sister Anna lives in Oslo", "I live in Bergen now"),
    ("My sister lives in Oslo", "We moved, the new address is 12 Elm Street"),
    ("My friend Tom drives a Fiat", "I now drive a Kia"),
    ("My Spotify subscription costs 11 euros", "I cancelled the newspaper subscription"),
    ("My meeting with Ana is on Tuesday at 10", "My meeting with Ana is also on Thursday at 10"),
    ("My yoga class is at 7 pm", "My pilates class is at 7 pm"),
    ("The red bin is emptied on Monday", "The yellow bin is emptied on Monday"),
    ("I lent Bob the drill", "I lent Bob the ladder"),
    ("I take 5 mg of ramipril", "I take 5 mg of amlodipine"),
    ("Anna owes Bob 50 euros", "Bob owes Anna 50 euros"),
    ("I call Mum before dinner", "I call Mum after dinner"),
    ("I start at Bosch on 3 May", "I stop at Bosch on 3 May"),
    ("My old car is a Fiat", "My car is a Fiat"),
    ("\U0001f355", "\U0001f355\U0001f3ca"),
    ("My sister's name is Anna", "My sister's name is Eva"),
    ("My yoga class is on Tuesday", "My yoga class is on Thursday"),
    ("My order number is 4471", "My order number is 4472"),
    ("My wife works at Bosch", "I quit Bosch"),
    ("I have two cats", "One of the cats died"),
    ("My sister is Helen", "Helen left"),
    ("My daughter plays the violin", "My daughter lost the violin"),
    ("My yoga class is on Tuesday", "I cancelled my yoga class this week"),
]


@pytest.mark.parametrize(("first", "second"), [*OPPOSITES, *((b, a) for a, b in OPPOSITES)])
def test_the_opposite_is_no_repetition(first: str, second: str) -> None:
    memory = EpicMemory()
    memory.facts.add(first)
    (edit,) = memory.facts.add(second).edits

    assert edit.kind != "duplicate"
    assert second in [fact.text for fact in memory.facts]


@pytest.mark.parametrize(("first", "second"), [*DIFFERENT, *((b, a) for a, b in DIFFERENT)])
def test_what_differs_in_more_than_a_value_is_held_beside_it(first: str, second: str) -> None:
    memory = EpicMemory()
    memory.facts.add(first)
    memory.facts.add(second)

    assert {fact.text for fact in memory.facts} == {first, second}


OWNERS = [
    ("My dentist is Dr. Brandt.", "My daughter's dentist is Dr. Ruiz."),
    ("The dentist is Dr. Brandt.", "Mila's dentist is now Dr. Ruiz."),
    ("My birthday is on 4 May.", "My wife's birthday is on 9 June."),
    ("My car is a Skoda.", "My wife's car is a Fiat."),
    ("My email is a@x.org.", "My work email is b@x.org."),
    ("My dog is called Rex.", "My second dog is called Bo."),
    ("My sister lives in Ghent.", "My sister's daughter lives in Paris."),
]


@pytest.mark.parametrize(("first", "second"), OWNERS)
def test_what_another_owns_is_another_thing(first: str, second: str) -> None:
    memory = EpicMemory()
    memory.facts.add(first)

    assert [edit.kind for edit in memory.facts.add(second).edits] == ["insert"]


@pytest.mark.parametrize(
    ("first", "second", "kind"),
    [
        ("My dentist is Dr. Lowe.", "My dentist is now Dr. Kern.", "replace"),
        ("The door code is 4471.", "The door code has changed to 9902.", "replace"),
        ("Mila is six.", "Mila is seven now.", "replace"),
        ("I live in Porto.", "We have moved to Braga.", "replace"),
        ("My car is a Skoda.", "I have sold my car.", "end"),
        ("I live in Porto.", "I live in Braga now.", "replace"),
        ("My meeting with Ana is on Tuesday at 10", "My meeting with Ana has been moved to Wednesday at 11", "replace"),
        ("I play the piano on Mondays", "I have stopped playing the piano", "end"),
    ],
)
def test_what_has_changed_is_recognised(first: str, second: str, kind: str) -> None:
    memory = EpicMemory()
    memory.facts.add(first)

    assert [edit.kind for edit in memory.facts.add(second).edits] == [kind]


@pytest.mark.parametrize(
    ("first", "second", "change"),
    [
        ("The team meeting is at 3", "The team meeting has moved to 4", "update_fact"),
        ("The dentist is on 3 May.", "The dentist has been rescheduled to 5 May.", "update_fact"),
        ("I drive a red Fiat.", "I sold my Fiat.", "end_fact"),
    ],
)
def test_what_may_have_changed_is_held_beside_it_and_proposed(first: str, second: str, change: str) -> None:
    memory = EpicMemory()
    memory.facts.add(first)

    assert [edit.kind for edit in memory.facts.add(second).edits] == ["insert"]
    assert {fact.text for fact in memory.facts} == {first, second}
    assert [(proposal.kind, proposal.old) for proposal in memory.proposals] == [(change, first)]
