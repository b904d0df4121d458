"""Forms: values with the memory they come from, and nothing guessed; days as people write them."""

from __future__ import annotations

import json
from datetime import date
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from epic_learn.forms import Form, fill
from epic_learn.forms.dates import days_in
from epic_memory import EpicMemory, Settings
from epic_memory.errors import InvalidInputError
from tables import table

FACTS = ("I was born on 12 August 1986.", "My phone number is +351 912 345 678.", "I am allergic to penicillin.")
NOTES = (
    "We went to town. My dentist is Dr. Ines Okafor in Lower Street.",
    "I do not smoke. I have two children, aged 4 and 7.",
    "My sister was born on 4 May 1984. She might come to live with us.",
    "The MOT of the car is on 14 March 2027, but the tax is due on 1 April 2027.",
    "Mail from Tom: my e-mail address is tom@example.org, write to me.",
    "I used to drive a Golf.",
    "Perhaps I should play the trombone. Do I weigh 80 kg?",
)


@pytest.fixture(scope="module")
def memory() -> EpicMemory:
    made = EpicMemory(
        ["I follow a strict vegan diet.", "I avoid loud bars."], settings=Settings(coarse=False, fine=False)
    )
    made.add(NOTES)
    for fact in FACTS:
        made.facts.add(fact)
    return made


def asked(question: str, type: str = "text", *choices: str) -> dict[str, Any]:
    return {"fields": [{"name": "field", "question": question, "type": type, "choices": list(choices)}]}


@pytest.mark.parametrize(("question", "type", "value"), table(__file__, "values_by_type"))
def test_values_by_type(memory: EpicMemory, question: str, type: str, value: object) -> None:
    (filled,) = fill(memory, asked(question, type))
    assert (filled.state, filled.value) == ("filled", value)
    assert filled.source is not None and filled.quote in filled.source.text


@pytest.mark.parametrize(("question", "type"), table(__file__, "what_is_not_known_stays_empty"))
def test_what_is_not_known_stays_empty(memory: EpicMemory, question: str, type: str) -> None:
    (filled,) = fill(memory, asked(question, type))
    assert (filled.state, filled.value, filled.source) == ("empty", None, None)
    assert "nothing relevant is known" in str(filled)


def test_a_choice_comes_from_a_preference_and_is_not_denied() -> None:
    with EpicMemory(["I follow a strict vegan diet."], settings=Settings(coarse=False, fine=False)) as memory:
        (filled,) = fill(memory, asked("What is my diet?", "choice", "vegan", "vegetarian"))
        assert (filled.value, filled.source) == ("vegan", memory.preferences[0])
        memory.facts.add("I am not a member of the library.")
        (filled,) = fill(memory, asked("What am I a member of?", "choice", "library", "pool"))
        assert filled.value is None


def test_two_answers_are_undecided() -> None:
    with EpicMemory(settings=Settings(coarse=False, fine=False)) as memory:
        memory.add(["The tax office said: the return is due on 3 May 2027.", "The return is due on 9 May 2027."])
        (filled,) = fill(memory, asked("When is the return due?", "date"))
        assert (filled.state, filled.value) == ("undecided", None)
        assert "3 May" in filled.reason and "9 May" in filled.reason
        memory.facts.add("I was vaccinated on 3 May 2024 and again on 4 June 2025.")
        (filled,) = fill(memory, asked("When was I vaccinated?", "date"))
        assert filled.state == "undecided"


def test_a_form_is_read_from_a_file_and_checked(tmp_path: Path, memory: EpicMemory) -> None:
    path = tmp_path / "form.json"
    path.write_text(json.dumps({"fields": [{"name": "date_of_birth", "type": "date"}]}))
    assert fill(memory, path).values == {"date_of_birth": "1986-08-12"}
    for wrong in ("[", "[]", '{"fields": []}', '{"fields": [{"question": "Who?"}]}'):
        path.write_text(wrong)
        with pytest.raises(InvalidInputError):
            Form.of(path)
    for field in ({"name": ""}, {"name": "a", "type": "colour"}, {"name": "a", "type": "choice"}, {"name": 1}):
        with pytest.raises(InvalidInputError):
            Form.of({"fields": [field]})
    with pytest.raises(InvalidInputError):
        Form.of({"fields": [{"name": "a"}, {"name": "a"}]})


@pytest.mark.parametrize(("said", "code"), [*table(__file__, "codes"), ("1" * 900 + "eur", None)])
def test_a_code_is_taken_whole_or_not_at_all(said: str, code: str | None) -> None:
    with EpicMemory(["I like tea."], settings=Settings(coarse=False, fine=False)) as memory:
        memory.facts.add(f"The code of my licence is {said}.")
        assert fill(memory, asked("What is the code of my licence?"))["field"].value == code


@given(
    st.dates(date(1900, 1, 1), date(2999, 12, 31)), st.sampled_from(["%Y-%m-%d", "%d %B %Y", "%B %d, %Y", "%d.%m.%Y"])
)
def test_a_written_day_is_read(day: date, form: str) -> None:
    ((found, start, end),) = days_in(text := f"It is on {day.strftime(form)}, they say.")
    assert (found.year, found.month, found.day) == (day.year, day.month, day.day)
    assert text[start:end] == day.strftime(form)


@pytest.mark.parametrize("text", ["I may 5 times", "room 31.02.2027", "on 3/4/2027", "30 February", "2027-13-01"])
def test_what_is_no_day_or_not_told(text: str) -> None:
    assert not list(days_in(text))
    assert [str(day) for day, *_ in days_in(f"{text}; 31/12/2027, 12/31/2028")] == ["2027-12-31", "2028-12-31"]


def test_the_name_of_a_file_is_no_memory() -> None:
    with pytest.raises(InvalidInputError, match="memory must be an EpicMemory, not str"):
        fill("me.epic", {"fields": [{"name": "born"}]})  # type: ignore[arg-type]
