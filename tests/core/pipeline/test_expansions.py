"""Expansions that a model writes: in the call that reads the aspects, stored with the preference, shown and edited."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from epic_memory import EpicMemory, Preference
from epic_memory.errors import InvalidInputError, LMError, UnknownPreferenceError
from epic_memory.lm import Completion
from epic_memory.preferences.lm_reader import AspectReader
from epic_memory.preferences.parser import parse_aspects
from epic_memory.types import BuildReport
from epic_memory.types.preferences import Aspects, Expansion
from helpers import HashEncoder, KeepAll, imported, method, settled
from scripted import SEA, TRAIN, WINE, Own, Scripted, preference_read, verifier_of
from tables import table

SAID = Aspects(liked=("quiet inns",), avoided=("casinos",), firmness=1.0)
OWN = Expansion(questions=("Where shall I stay?",), follows=("a family-run inn",), breaks=("a floor of slot machines",))


def aspects_read(preference: str) -> dict[str, Any]:
    return {"liked": [f"what {preference} wants"], "avoided": [], "firmness": "mild", "scope": ""}


def expansion_read(preference: str) -> dict[str, Any]:
    name = preference.rstrip(".")
    return {"questions": [f"What about {name}?"], "follows": [f"more of {name}"], "breaks": [f"less of {name}"]}


def both(preference: str) -> str:
    return json.dumps(aspects_read(preference) | expansion_read(preference))


def read_of(preference: str) -> Aspects:
    return Aspects(liked=(f"what {preference} wants",), firmness=0.5, source="model")


def written_for(preference: str) -> Expansion:
    return Expansion(**{part: tuple(said) for part, said in expansion_read(preference).items()}, source="model")


class Writing(Scripted):
    """Reads and expands preferences; of those in `says`, it says that instead, or raises it.

    Attributes:
        parts: What each answer about a preference was to hold, by the schema.
    """

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.says: dict[str, str | Exception] = {}
        self.parts: list[set[str]] = []

    def _hooked(self, messages: Any) -> Completion:
        preference = preference_read(messages)
        if preference is None:
            return super()._hooked(messages)
        self.parts.append(set((self.sent[-1].schema or {})["properties"]) & {"liked", "questions"})
        said = self.says.get(preference, both(preference))
        if isinstance(said, Exception):
            raise said
        return Completion(text=said, prompt_tokens=7, completion_tokens=3)


def made(lm: Scripted | None, *preferences: str | Preference, **options: Any) -> EpicMemory:
    verifier = KeepAll() if lm is None else verifier_of(lm)
    return EpicMemory(preferences, **settled(**{"encoder": HashEncoder(), "verifier": verifier, **options}))


def opened(path: Path, lm: Scripted | None, *preferences: str | Preference, **options: Any) -> EpicMemory:
    verifier = KeepAll() if lm is None else verifier_of(lm)
    return EpicMemory.open(
        path, preferences or None, **settled(**{"encoder": HashEncoder(), "verifier": verifier, **options})
    )


# who writes them


def test_one_call_reads_and_expands_a_preference(tmp_path: Path) -> None:
    lm = Writing()
    with opened(tmp_path / "m", lm, WINE) as memory:
        report = memory.opening_report
        assert (report.read, report.expanded, report.usage.calls, report.unread) == (1, 1, 1, {})
        assert re.search(r"^expansions +1 written$", str(report), re.M)
        report = memory.preferences.add(TRAIN)
        assert (report.read, report.expanded, report.usage.calls) == (1, 1, 1)
    with opened(tmp_path / "m", lm) as memory:
        assert memory.preferences.expansions() == {WINE: written_for(WINE), TRAIN: written_for(TRAIN)}
        assert memory.preferences.expansions("Red  Wine") == written_for(WINE) and memory.preferences.aspects(
            WINE
        ) == read_of(WINE)
        memory.add(["red wine"])
    assert lm.read == [WINE, TRAIN] and lm.parts == [{"liked", "questions"}] * 2


@pytest.mark.parametrize("expansions", ["bundled", "off"])
def test_no_model_is_asked_where_it_shall_not_be(expansions: Any) -> None:
    lm = Writing()
    memory = made(lm, WINE, Preference(text=TRAIN, aspects=SAID), expansions=expansions)
    assert memory.opening_report.expanded == 0
    assert memory.preferences.expansions() == {WINE: None, TRAIN: None} and memory.preferences.aspects(WINE) == read_of(
        WINE
    )


def test_an_expander_reads_beside_another_verifier() -> None:
    lm = Writing()
    memory = made(None, WINE, expander=lm, expansions="model", aspects="model")
    assert memory.preferences.aspects(WINE) == read_of(WINE) and memory.preferences.expansions(WINE) == written_for(
        WINE
    )
    verifying = Writing(name="verifying")
    memory = made(verifying, WINE, expander=lm)
    memory.verifier = KeepAll()
    memory.add(["red wine"])
    assert lm.read == [WINE, WINE] and verifying.read == [] and lm.asked == []


def test_a_parser_that_was_asked_for_keeps_preferences_from_the_model() -> None:
    lm = Writing()
    memory = made(lm, WINE, aspects="parser")
    assert lm.read == [] and memory.preferences.expansions(WINE) is None
    for options in ({"expansions": "model"}, {"expander": lm}):
        memory = made(lm, WINE, aspects="parser", **options)
        assert memory.preferences.expansions(WINE) == written_for(WINE) and memory.preferences.aspects(
            WINE
        ) == parse_aspects(WINE)
    assert memory.opening_report.read == 0 and memory.opening_report.expanded == 1


def test_what_a_preference_brings_is_kept() -> None:
    lm = Writing()
    hills = "green hills"
    memory = made(lm, Preference(text=WINE, expansion=OWN), hills)
    assert memory.preferences.aspects(WINE) == read_of(WINE) and memory.preferences.expansions(WINE) == OWN
    memory.preferences.remove(hills)
    report = memory.preferences.add(Preference(text=TRAIN, aspects=SAID))
    assert (report.read, report.expanded) == (0, 1)
    assert memory.preferences.aspects(TRAIN) == SAID and memory.preferences.expansions(TRAIN) == written_for(TRAIN)
    memory.preferences.add(Preference(text=SEA, aspects=SAID, expansion=OWN))
    memory.preferences.replace(TRAIN, Preference(text=TRAIN.upper(), expansion=OWN.as_json()))
    assert lm.read == [WINE, hills, TRAIN]
    assert (
        memory.preferences.expansions() == {WINE: OWN, TRAIN.upper(): OWN, SEA: OWN}
        and memory.preferences.aspects(TRAIN) == SAID
    )


def test_a_model_has_to_be_there_to_be_asked_for() -> None:
    with pytest.raises(InvalidInputError, match="expansions='model' needs a language model"):
        made(None, WINE, expansions="model")
    with pytest.raises(InvalidInputError, match="auto, model, bundled, off"):
        made(None, WINE, expansions="library")
    for none in (Writing, object()):
        with pytest.raises(InvalidInputError, match="expander must be an object with a method complete"):
            made(None, WINE, expander=none)
    with pytest.raises(InvalidInputError, match="There is no model 'qwen3:4b'"):
        made(None, WINE, expander="qwen3:4b")
    memory = made(Writing(), WINE, expansions="model")
    with pytest.raises(InvalidInputError, match="language model"):
        memory.verifier = KeepAll()


# what fails, and what is said in part


def test_aspects_without_an_expansion_are_an_answer() -> None:
    lm = Writing()
    lm.says[WINE] = json.dumps(aspects_read(WINE))
    memory = made(lm, WINE)
    assert (memory.opening_report.read, memory.opening_report.expanded) == (1, 0)
    assert memory.preferences.unread == [] and memory.preferences.expansions(WINE) is None
    # Where the expansion alone was wanted, they are none.
    report = memory.preferences.set_expansion(WINE, None)
    assert "no expansion" in report.unread[WINE] and memory.preferences.aspects(WINE) == read_of(WINE)


def test_an_expansion_without_aspects_is_kept_and_the_aspects_are_asked_for_again(tmp_path: Path) -> None:
    lm = Writing()
    lm.says[WINE] = json.dumps(expansion_read(WINE))
    with opened(tmp_path / "m", lm, WINE) as memory:
        assert memory.preferences.expansions(WINE) == written_for(WINE) and memory.preferences.aspects(
            WINE
        ) == parse_aspects(WINE)
        assert "liked or avoided" in memory.opening_report.unread[WINE]
    with opened(tmp_path / "m", lm) as memory:
        assert memory.preferences.unread == [WINE]
        # The user's takes its place, and the aspects go on waiting.
        memory.preferences.set_expansion(WINE, OWN)
        assert memory.preferences.unread == [WINE]
        del lm.says[WINE]
        report = memory.retry()
        assert (report.read, report.expanded) == (1, 0)
        assert memory.preferences == [Preference(text=WINE, aspects=read_of(WINE), expansion=OWN)]
        assert memory.preferences.unread == []


def test_what_the_user_says_in_the_meantime_is_not_overwritten() -> None:
    lm = Writing()
    lm.says[WINE] = LMError("gone")
    memory = made(lm, WINE)
    del lm.says[WINE]
    answer = lm.answer

    def while_it_is_asked(messages: Any) -> Any:
        if preference_read(messages):
            memory.preferences.set_expansion(WINE, OWN)
        return answer(messages)

    lm.answer = while_it_is_asked
    memory.add(["red wine"])
    assert (
        memory.preferences.expansions(WINE) == OWN
        and memory.preferences.aspects(WINE) == read_of(WINE)
        and memory.preferences.unread == []
    )


# what models answer


def read_answer(answer: str) -> tuple[Aspects | None, Expansion | None]:
    (reading,) = AspectReader(Own(lambda messages: answer), backoff=0).read(["tea"])
    assert (reading.failure == "") == (reading.aspects is not None)
    return reading.aspects, reading.expansion


@pytest.mark.parametrize(("shape", "answer", "aspects", "expansion"), table(__file__, "answers"))
def test_what_is_read_of_an_answer(shape: str, answer: str, aspects: Any, expansion: Any) -> None:
    found = [None if part is None else asdict(part) for part in read_answer(answer)]
    assert json.loads(json.dumps(found)) == [aspects, expansion]


KEYS = st.sampled_from(["liked", "avoided", "scope", "questions", "follows", "breaks"])
JSON = st.recursive(
    st.none() | st.booleans() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(KEYS, inner),
    max_leaves=16,
)


@given(st.text(max_size=200) | JSON.map(json.dumps) | JSON.map(lambda said: json.dumps(said)[:-3]))
def test_any_answer_can_be_stored_or_is_unreadable(answer: str) -> None:
    aspects, expansion = read_answer(answer)
    if aspects is not None:
        liked, avoided = ({phrase.casefold() for phrase in side} for side in (aspects.liked, aspects.avoided))
        assert aspects.source == "model" and max(len(liked), len(avoided)) <= 16 and not liked & avoided
    stored = Preference(text="tea", aspects=aspects, expansion=expansion)
    assert Preference(**json.loads(json.dumps(stored.as_object()))) == stored
    if expansion is not None:
        for phrase in (*expansion.questions, *expansion.follows, *expansion.breaks):
            assert len(phrase) <= 160 and len(phrase.splitlines()) == 1
            assert not re.search(r"[\x00-\x1f\x7f-\x9f\u2028\u202e]", phrase)


# edited


async def test_async_does_as_sync() -> None:
    outcomes = []
    for how in ("sync", "async"):
        lm = Writing()
        lm.says[TRAIN] = "?"
        memory = made(lm, WINE)

        async def call(name: str, *arguments: Any, memory: EpicMemory = memory, how: str = how) -> Any:
            change = method(memory, name, twin=how == "async")
            report: BuildReport = change(*arguments) if how == "sync" else await change(*arguments)
            return (
                report.read,
                report.expanded,
                report.unread,
                report.usage.calls,
                memory.preferences.expansions(),
                memory.preferences.unread,
            )

        outcomes.append(
            [
                await call("preferences.set_expansion", WINE, OWN),
                await call("preferences.set_expansion", WINE, {"breaks": ["port"]}),
                await call("preferences.set_expansion", WINE, None),
                await call("preferences.add", TRAIN),
                await call("preferences.set_expansion", TRAIN, OWN),
                await call("preferences.set_expansion", TRAIN, None),
                await call("preferences.set_aspects", WINE, None),
                await call("add", ["red wine in the night train"]),
                await call("retry"),
                await call("preferences.replace", WINE, SEA),
            ]
        )
    assert outcomes[0] == outcomes[1]
    steps = outcomes[0]
    assert steps[0][4] == {WINE: OWN} and steps[1][4] == {WINE: Expansion(breaks=("port",))}
    assert steps[2][:4] == (0, 1, {}, 1) and steps[2][4] == {WINE: written_for(WINE)}
    assert steps[4][4][TRAIN] == OWN and steps[4][5] == [TRAIN]
    assert steps[5][4][TRAIN] is None and list(steps[5][2]) == [TRAIN] == steps[5][5]
    assert steps[6][:4] == (1, 1, {}, 1)


def test_without_a_model_none_removes_it() -> None:
    memory = made(None, Preference(text=WINE, aspects=SAID, expansion=OWN))
    report = memory.preferences.set_expansion(WINE, None)
    assert memory.preferences.expansions() == {WINE: None} and report == BuildReport(
        timings=report.timings, tau=report.tau
    )
    assert memory.preferences.aspects(WINE) == SAID


def bad_expansions() -> list[Any]:
    return [
        {},
        5,
        {"follows": "an inn"},
        {"follows": ["an inn"], "other": []},
        {"follows": ["an inn"], "breaks": ["An Inn"]},
        {"questions": [f"What about {n}?" for n in range(5000)]},
        {"follows": ["x" * 10_000]},
        {"follows": ["a\x00"]},
        {"follows": ["\ud800"]},
        {"follows": ["an inn"], "source": "nobody"},
    ]


@pytest.mark.parametrize("bad", bad_expansions(), ids=lambda bad: str(bad)[:40].encode("ascii", "replace").decode())
async def test_what_cannot_be_is_a_clear_error(bad: Any) -> None:
    memory = made(None, Preference(text=WINE, expansion=OWN))
    with pytest.raises(InvalidInputError):
        memory.preferences.set_expansion(WINE, bad)
    with pytest.raises(InvalidInputError):
        await memory.preferences.aset_expansion(WINE, bad)
    assert memory.preferences.expansions(WINE) == OWN
    for call in (memory.preferences.expansions, lambda text: memory.preferences.set_expansion(text, OWN)):
        with pytest.raises(UnknownPreferenceError):
            call(SEA)


# kept, and gone


def test_it_goes_where_the_preference_goes(tmp_path: Path) -> None:
    lm = Writing()
    with opened(tmp_path / "m", lm, WINE, TRAIN) as memory:
        memory.preferences.set_expansion(WINE, OWN)
        memory.preferences.replace(WINE, WINE.upper())
        before = memory.file.revision
        memory.preferences.set_expansion(WINE, {"follows": ["a cellar"]})
        assert memory.file.revision != before
        memory.preferences.set_expansion(WINE, OWN)
        memory.file.backup(tmp_path / "copy")
        memory.file.export(tmp_path / "export.jsonl")
    expected = {WINE.upper(): OWN, TRAIN: written_for(TRAIN)}
    with imported(
        tmp_path / "export.jsonl", tmp_path / "n", encoder=HashEncoder(512, name="other"), verifier=verifier_of(lm)
    ) as memory:
        assert memory.preferences.expansions() == expected and memory.file.verify() > 0
    with opened(tmp_path / "copy", lm, WINE.upper(), Preference(text=TRAIN, expansion=OWN), sync=True) as memory:
        assert memory.preferences.expansions() == {**expected, TRAIN: OWN}
    assert lm.read == [WINE, TRAIN]


MARK = "a cellar called Zwiebelturm"


@pytest.mark.parametrize(
    "change",
    [
        lambda memory: memory.preferences.set_expansion(WINE, OWN),
        lambda memory: memory.preferences.set_expansion(WINE, None),
        lambda memory: memory.preferences.replace(WINE, SEA),
        lambda memory: memory.preferences.replace(WINE, Preference(text=WINE, expansion=OWN)),
        lambda memory: memory.preferences.remove(WINE),
    ],
)
def test_nothing_of_it_is_left_in_the_file(tmp_path: Path, change: Callable[[EpicMemory], BuildReport]) -> None:
    path = tmp_path / "m"
    with opened(path, None, Preference(text=WINE, expansion={"follows": [MARK]}), TRAIN) as memory:
        memory.add(["red wine"])
        assert MARK.encode() in path.read_bytes()
        change(memory)
        assert not [each.name for each in tmp_path.iterdir() if MARK.encode() in each.read_bytes()]


def test_texts_that_are_already_kept_are_added_again_without_harm() -> None:
    expansion = Expansion(questions=("Where to eat?",), follows=("a tea room",), breaks=("a steakhouse",))
    memory = EpicMemory([Preference(text="I like tea.", expansion=expansion)])
    notes = ["The steakhouse on the square opens at noon.", "The tea room has scones."]
    assert memory.add(notes).seen == 2
    assert memory.add(notes).duplicates == 2
