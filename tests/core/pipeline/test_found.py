"""What is found, by which of its words, and in which order: texts, titles, turns, other languages, what suits."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from epic_learn import aadd_conversation, add_conversation
from epic_memory import EpicMemory, Item, Preference, SearchOptions, Settings, Stance
from epic_memory.encoders import StaticEncoder
from epic_memory.types import Candidate, Decision, Verdict
from epic_memory.types.items import content_of
from epic_memory.types.preferences import Expansion
from epic_plugins.collection import Collection, Record
from helpers import Answering, HashEncoder, KeepAll, keep, memory_of, searching
from tables import table

CASINOS, CLOTHES = "I avoid hotels with casinos.", "I only buy second-hand clothes."


def bundled(*texts: str | Item, preferences: Sequence[str | Preference] = (), **options: Any) -> EpicMemory:
    """A memory with the bundled encoder."""
    memory = EpicMemory(preferences, encoder=StaticEncoder(), settings=Settings(**options))
    memory.add(texts)
    return memory


def found(memory: EpicMemory, query: str, k: int = 5, **options: Any) -> list[str]:
    return [hit.item.text for hit in memory.search(query, k=k, **searching(**options))]


# by its text, its instructions and exact words

WINE = "red wine"


def memory_with(*texts: str, relevant: float = -1.0, **options: Any) -> EpicMemory:
    encoder = HashEncoder()
    encoder.relevant = relevant
    memory = memory_of(**{"encoder": encoder, "tau": 0.1, **options})
    memory.add(texts)
    return memory


def test_a_text_is_found_by_its_own_words_where_the_instruction_says_something_else() -> None:
    memory = memory_with("red wine in Lisbon", "red wine and a very long list of other things besides")
    assert found(memory, "Lisbon", 1) == ["red wine in Lisbon"]
    assert len(found(memory, "Think", 2, keys="instruction", min_score=None)) == 2


def test_what_conflicts_comes_after_all_that_answers() -> None:
    verifier = KeepAll({"bad": Stance.CONFLICTS})
    memory = memory_with("red wine bad bar", "red wine good bar", "red grapes", verifier=verifier)
    assert found(memory, "wine bar", 3) == ["red wine good bar", "red grapes", "red wine bad bar"]
    assert found(memory, "wine bad bar", 1, stance_policy="any") == ["red wine bad bar"]


def test_nothing_relevant_is_said_and_the_fallback_is_asked() -> None:
    asked: list[str] = []

    def fallback(query: str, k: int) -> list[str]:
        asked.append(query)
        return ["from elsewhere"]

    memory = memory_with("red wine from Porto", relevant=0.4)
    assert memory.search("red wine", k=2).relevant
    nothing = memory.search("tides of the sea", k=2)
    assert nothing == [] and not nothing.relevant
    assert len(found(memory, "tides of the sea", 2, min_score=None)) == 1
    assert found(memory, "red grapes of Douro", 2, min_score=0.9) == []
    elsewhere = memory_with("red wine from Porto", relevant=0.4, fallback=fallback)
    assert not elsewhere.search("red wine").fallback and asked == []
    hits = elsewhere.search("tides of the sea")
    assert [hit.item.text for hit in hits] == ["from elsewhere"] and hits.fallback and asked == ["tides of the sea"]


def test_beside_an_answer_the_barely_related_is_no_hit() -> None:
    permit = "The parking permit for zone C has to be renewed by 31 March."
    skywalk = "The glass skywalk over the gorge is 200 metres up and open all year."
    parkas = "The winter collection has arrived: brand-new parkas in six colours."
    memory = bundled(permit, skywalk, parkas, preferences=[CLOTHES])
    question = "When do I renew the parking permit?"
    assert found(memory, question, 10) == [permit] and len(found(memory, question, 10, min_score=None)) == 3


def test_texts_that_say_the_same_do_not_take_the_place_of_others() -> None:
    memory = memory_with("red wine red wine Porto", "red wine Porto red wine", "red grapes Porto")
    assert "red grapes Porto" in found(memory, "red wine Porto", 2)


# what suits the user


def judged_by(preference: str | Preference, suits: str, conflicts: str, *others: str) -> EpicMemory:
    """A memory whose verifier knows the stance of some texts to the only preference."""
    stances = {suits: Stance.SUPPORTS, conflicts: Stance.CONFLICTS}

    def judged(candidate: Candidate) -> Verdict:
        stance = stances.get(candidate.item.text)
        return keep(candidate, stance) if stance else Verdict(decision=Decision.DISCARD, rationale="known")

    return bundled(suits, conflicts, *others, preferences=[preference], verifier=Answering(judged), tau=-1.0)


WOOL = "Merinos & Co: heavy pullovers knitted in Shetland, natural fibres only."
POLYESTER = "Jumper sale: polyester jumpers for the winter, three for the price of two."
NATURAL = "I only wear natural fabrics such as wool and cotton."
JUMPER = "I need a new jumper for the winter"


def test_what_suits_is_not_hidden_for_not_naming_the_topic() -> None:
    others = ("The toaster is under guarantee.", "Boots: resoled in October, 40 euros.")
    texts = found(judged_by(NATURAL, WOOL, POLYESTER, *others), JUMPER)
    assert texts[0] == WOOL and POLYESTER in texts


def test_what_suits_is_found_beside_what_conflicts_where_the_question_does_not_name_the_preference() -> None:
    campsite = "Where to stay by the lake: the Lakeside campsite, tents and caravans."
    pension = "Pension Rosa, six rooms, breakfast on the terrace."
    memory = judged_by("I hate camping.", pension, campsite, "The lake is nine kilometres long.")
    texts = found(memory, "Where could we stay by the lake?")
    assert texts.index(pension) < texts.index(campsite)


@pytest.mark.parametrize(
    ("policy", "first"), [("prefer", [WOOL, POLYESTER]), ("only_supports", [WOOL]), ("any", [POLYESTER])]
)
def test_the_policy_on_stances_is_kept(policy: str, first: list[str]) -> None:
    assert found(judged_by(NATURAL, WOOL, POLYESTER), JUMPER, stance_policy=policy) == first


def test_who_asks_for_a_fact_finds_what_conflicts() -> None:
    beer = "Receipt: a crate of Weissbier from Hops & Co, 23.40 euros, paid by card."
    memory = judged_by("I don't drink alcohol.", "Elderflower cordial from the farm shop.", beer)
    assert found(memory, "How much did I pay for the beer?")[0] == beer


DUBLIN = (
    "Train and ferry to Dublin: leave at nine, arrive in the evening.",
    "Flights to Dublin from 19 euros, one hour.",
)


def test_an_expansion_does_not_make_the_order_worse() -> None:
    expansion = Expansion(
        questions=("How do I get to Dublin?", "What is the best way to travel to Rome?"),
        follows=("train tickets", "ferry crossings", "night trains"),
        breaks=("cheap flights", "airport transfers"),
    )
    text = "I don't fly, I travel by train and ferry."
    for preference in (Preference(text=text), Preference(text=text, expansion=expansion)):
        memory = EpicMemory([preference])
        memory.add(DUBLIN)
        hits = memory.search("How should we travel to Dublin in June?")
        assert [hit.item.text for hit in hits] == list(DUBLIN)
        assert hits.matters is not None and hits.matters[0][1] > 0.5


def test_a_phrase_that_breaks_a_preference_is_found_where_it_stands_in_a_text() -> None:
    menu = "Maison Lumière: a tasting menu for 140 euros."
    text, breaks = "I'm on a tight budget.", ("tasting menus", "michelin star restaurants")
    for preference, stances in ((text, []), (Preference(text=text, expansion=Expansion(breaks=breaks)), ["conflicts"])):
        memory = EpicMemory([preference])
        memory.add([menu, "The canteen has lunch for 6 euros."])
        hits = memory.search("Where could we eat out tonight?", options=SearchOptions(min_score=None))
        assert [e.stance.value for hit in hits if hit.item.text == menu for e in hit.entries] == stances
        # The same if the preference comes after the text.
        memory = EpicMemory(["I love jazz."])
        memory.add([menu])
        memory.preferences.add(preference)
        assert [entry.stance.value for hit in memory.search("menu") for entry in hit.entries] == stances


# titles, subjects and names of files

OTHERS = (
    "The plumber comes on Friday at nine.",
    "Lentils, rice, two tins of tomatoes, coriander.",
    "The spare key hangs behind the fuse box.",
)


WIFI, CODE = "What is the wifi password?", "marble-otter-77"


@pytest.mark.parametrize("metadata", table(__file__, "a_text_is_found_by_its_title_alone"))
def test_a_text_is_found_by_its_title_alone(metadata: dict[str, str]) -> None:
    memory = bundled(Item(text=CODE, metadata=metadata), *OTHERS, preferences=[CASINOS])
    hit = memory.search(WIFI)[0]
    assert hit.item.text == CODE
    assert hit.content.casefold() == f"wifi password\n{CODE}"
    assert f"ifi password\n{CODE}" in memory.context(WIFI)


def test_a_verifier_reads_the_title() -> None:
    memory = EpicMemory(["I love red wine."], settings=Settings(verifier=KeepAll(), tau=-1.0))
    memory.add([Item(text="Ten bottles left.", metadata={"title": "Red wine"})])
    assert "Red wine\nTen bottles left." in memory.context("Which red wine is left?")
    assert memory.search("red wine")[0].item.text == "Ten bottles left."


@pytest.mark.parametrize(
    ("text", "metadata"), [*table(__file__, "what_has_no_title_is_its_text"), ("a note", {"title": "x" * 5_000})]
)
def test_what_has_no_title_is_its_text(text: str, metadata: dict[str, object]) -> None:
    assert content_of(text, metadata) == text


# turns of conversations

CHAT = [
    ("Ann", "How was your week? Mine was long."),
    ("Bo", "Quiet. The garden is full of tomatoes."),
    ("Ann", "Do you keep any cats at home?"),
    ("Bo", "Two of them, Oscar and Bailey."),
    ("Ann", "My sister paints portraits of them for a living."),
    ("Bo", "Mine plays the zither."),
]


CATS = "What cats does Bo keep at home?"


def turns_of(chat: list[tuple[str, str]], path: Path | None = None, **more: object) -> EpicMemory:
    memory = EpicMemory([CLOTHES]) if path is None else EpicMemory.open(path, [CLOTHES])
    memory.add(
        Item(
            id=str(number),
            text=f"{speaker}: {text}",
            metadata={"speaker": speaker, "source": "s1", "turn": number, "time": "2023-05-08", **more},
        )
        for number, (speaker, text) in enumerate(chat)
    )
    return memory


def scored(memory: EpicMemory, query: str, k: int = 5) -> list[tuple[str, float]]:
    return [(hit.item.id, hit.score) for hit in memory.search(query, k=k, options=SearchOptions(min_score=None))]


def test_an_answer_is_found_by_the_words_of_its_question() -> None:
    assert scored(turns_of(CHAT), CATS, 2)[0][0] == "3"
    assert scored(turns_of(CHAT, source=1, turn=None), CATS, 1)[0][0] == "2"


def test_a_turn_is_found_by_a_rare_word_alone() -> None:
    """Among more turns than are candidates, all of them nearer by their topic."""
    chatter = [
        ("Ann", f"I could listen to live music all day, number {n} of the orchestra is playing.") for n in range(60)
    ]
    memory = turns_of([*chatter, ("Bo", "Qumran is where the parcel went; nobody was in, so they took it back.")])
    query = "Which orchestra was playing live music all day"
    assert scored(memory, f"{query} at Qumran?", 1)[0][0] == "60" != memory.search(f"{query}?", k=1)[0].item.id


def test_who_said_it_and_when_decide_between_equals() -> None:
    memory = EpicMemory([CLOTHES])
    sights = {("Ann", "05"): "a deer", ("Bo", "05"): "a fox", ("Ann", "06"): "an owl", ("Bo", "06"): "a hare"}
    memory.add(
        Item(
            id=f"{speaker} {month}",
            text=f"I went hiking in the mountains and saw {sight}.",
            metadata={"speaker": speaker, "time": f"2023-{month}-08"},
        )
        for (speaker, month), sight in sights.items()
    )
    for speaker, month in sights:
        query = f"What did {speaker} see hiking in the mountains in {'May' if month == '05' else 'June'}?"
        assert memory.search(query, k=1)[0].item.id == f"{speaker} {month}"


def test_a_name_makes_nothing_relevant() -> None:
    memory = EpicMemory([CLOTHES])
    memory.add(
        Item(text=text, metadata={"speaker": speaker, "turn": turn, "time": "8 May, 2023"})
        for turn, (speaker, text) in enumerate(CHAT)
    )
    hits = memory.search("What is Bo's opinion on monetary policy in May?")
    assert not hits and not hits.relevant


def test_turns_are_the_same_after_reopening(path: Path) -> None:
    with turns_of(CHAT, path) as memory:
        memory.forget(scored(memory, CATS)[-1][0])
        kept = scored(memory, CATS)
    with EpicMemory.open(path) as memory:
        assert scored(memory, CATS) == kept


async def test_windows_have_the_metadata_of_their_conversation() -> None:
    memory, other = memory_of(), memory_of()
    messages = [{"role": "user", "content": f"red wine {number}"} for number in range(12)]
    given = {"session_id": "a", "source": "mine", "kind": "x", "window": 7}
    add_conversation(memory, messages, metadata=given)
    await aadd_conversation(other, messages, metadata=given)
    first, second = (item.metadata for item in sorted(memory.items(), key=lambda item: item.metadata["window"]))
    ours = {"speaker": "user", "source": "mine", "session_id": "a", "kind": "conversation", "origin": "user"}
    assert first == {**ours, "conversation": first["conversation"], "turn": 1, "window": 0}
    assert second == {**ours, "conversation": first["conversation"], "turn": 7, "window": 1}
    assert memory.items() == other.items() and len(memory.search("red wine")) == 2


def test_the_same_words_with_other_metadata_are_another_item() -> None:
    memory = memory_of()
    messages = [{"role": "user", "content": "red wine"}]
    kept = [
        add_conversation(memory, messages, metadata=metadata).kept
        for metadata in (None, {}, {"a": 1, "b": 2}, {"b": 2, "a": 1}, {"a": "1", "b": 2}, {"a": 1})
    ]
    assert kept == [1, 0, 1, 0, 1, 1] and len(memory) == 4
    assert memory.add(["user: red wine"]).kept == 1 and len(memory) == 4  # it is the one without metadata, as before


# languages that the bundled encoder does not know


@pytest.mark.parametrize(("language", "preference", "notes", "asked"), table(__file__, "notes_in_other_languages"))
def test_a_note_is_found_by_its_words_and_none_by_other_words(
    language: str, preference: str, notes: list[str], asked: tuple[str, int]
) -> None:
    memory, (question, right) = bundled(*notes, preferences=[preference]), asked
    assert found(memory, question, 1) == [notes[right]]
    assert not memory.search("Сколько стоит билет на поезд до Москвы?").relevant


@pytest.mark.parametrize(
    ("note", "question"),
    [
        ("दिल्ली की ट्रेन नौ बजे जाती है।", "दिल्ली की ट्रेन कब जाती है?"),
        ("Das Bu\u0308ro o\u0308ffnet um acht.", "Wann öffnet denn das Büro?"),
        ("ﾋﾞｰﾙは冷蔵庫にあります。", "ビールはどこ?"),
    ],
)
def test_one_word_has_one_form(note: str, question: str) -> None:
    memory = bundled("Der Keller ist feucht.", "कल बारिश होगी।", "鍵は玄関にある。", note)
    assert found(memory, question, 1) == [note]


NOTES = ("The Green Room has a vegan tasting menu.", "My flight to Oslo leaves on Friday.", "The cellar is damp.")
DENTIST = "My dentist is called Weber."


@pytest.mark.parametrize(
    ("question", "notes", "all_of_them"),
    [
        *((short, NOTES, None) for short in ("restaurant recommendations", "dinner ideas tonight", "plane departure")),
        ("What is the name of the person who fixes my teeth?", (DENTIST, NOTES[-1]), [DENTIST]),
    ],
)
def test_english_is_found_as_ever_whatever_the_preferences_are_in(
    question: str, notes: Sequence[str], all_of_them: list[str] | None
) -> None:
    plain, mixed = bundled(*notes), bundled(*notes, preferences=["Ich esse kein Fleisch."])
    assert mixed.search(question, k=1).relevant == plain.search(question, k=1).relevant
    assert found(mixed, question, 1) == found(plain, question, 1)
    assert all_of_them is None or found(mixed, question) == found(plain, question) == all_of_them


def test_a_collection_finds_them_too() -> None:
    preference, question = "不喜欢屋里摆太多东西，看着乱。", "车险什么时候到期？"
    notes = [
        "社保卡收在卧室五斗柜第二层的蓝色铁盒里，和户口本、疫苗本放在一起，钥匙在钢笔筒里。",
        "七月空调不制冷，师傅上门加氟换电容，一共收了三百四，保修到明年七月，单子拍照存了。",
        "车险在平安买的，十一月二十三号到期，去年三千一，没出过险，今年要问问能不能再降两百。",
    ]
    collection = Collection(StaticEncoder())
    collection.add(Record(id=str(place), text=note) for place, note in enumerate(notes))
    found = collection.search(question, 1, preferences=[preference])
    assert [match.record.text for match in found] == [notes[2]]
