"""Tests of notes in languages that the bundled encoder does not know: they are found by their words."""

from __future__ import annotations

from pathlib import Path

import pytest

from epic_memory import EpicMemory, Settings
from epic_memory.collection import Collection, Record
from epic_memory.encoders import StaticEncoder
from epic_memory.errors import ReadOnlyError

NOTES = {
    "de": (
        "Ich esse kein Fleisch.",
        ["Mein Zahnarzt heißt Weber und sitzt in der Gartenstraße.", "Der Keller ist feucht und riecht nach Äpfeln."],
        ("Wie heißt denn mein Zahnarzt?", 0),
    ),
    "ja": (
        "辛い料理は苦手です。",
        ["歯医者は駅前の田中先生です。", "自転車の鍵は玄関の引き出しにある。"],
        ("自転車の鍵はどこ?", 1),
    ),
    "zh": (
        "我不吃辣。",
        ["我的牙医是王医生,诊所在中山路。", "西湖边的小旅馆很安静。"],
        ("西湖附近有什么旅馆?", 1),
    ),
    "ko": (
        "매운 음식을 싫어해요.",
        ["치과는 역 앞에 있어요.", "자전거 열쇠는 서랍에 있어요."],
        ("자전거 열쇠는 어디?", 1),
    ),
    "th": ("ฉันไม่กินเผ็ด", ["หมอฟันอยู่ใกล้สถานีรถไฟ", "กุญแจจักรยานอยู่ในลิ้นชัก"], ("กุญแจจักรยานอยู่ที่ไหน", 1)),
}


@pytest.mark.parametrize("language", NOTES)
def test_a_note_is_found_by_its_words(language: str) -> None:
    preference, notes, (question, right) = NOTES[language]
    memory = EpicMemory([preference], encoder=StaticEncoder())
    memory.add(notes)
    assert [hit.item.text for hit in memory.search(question, k=1)] == [notes[right]]


@pytest.mark.parametrize("language", NOTES)
def test_a_question_without_a_word_of_any_note_finds_none(language: str) -> None:
    preference, notes, _ = NOTES[language]
    memory = EpicMemory([preference], encoder=StaticEncoder())
    memory.add(notes)
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
    memory = EpicMemory(encoder=StaticEncoder())
    memory.add(["Der Keller ist feucht.", "कल बारिश होगी।", "鍵は玄関にある。", note])
    assert [hit.item.text for hit in memory.search(question, k=1)] == [note]


@pytest.mark.parametrize("question", ["restaurant recommendations", "dinner ideas tonight", "plane departure"])
def test_short_questions_in_english_are_answered_whatever_the_preferences_are_in(question: str) -> None:
    notes = ["The Green Room has a vegan tasting menu.", "My flight to Oslo leaves on Friday.", "The cellar is damp."]
    plain, mixed = EpicMemory(encoder=StaticEncoder()), EpicMemory(["Ich esse kein Fleisch."], encoder=StaticEncoder())
    for memory in (plain, mixed):
        memory.add(notes)
    assert mixed.search(question, k=1).relevant == plain.search(question, k=1).relevant
    assert [hit.item.text for hit in mixed.search(question, k=1)] == [
        hit.item.text for hit in plain.search(question, k=1)
    ]


def test_among_other_languages_english_is_found_as_ever() -> None:
    notes = ["My dentist is called Weber.", "The cellar is damp."]
    plain, mixed = EpicMemory(encoder=StaticEncoder()), EpicMemory(["Ich esse kein Fleisch."], encoder=StaticEncoder())
    for memory in (plain, mixed):
        memory.add(notes)
    question = "What is the name of the person who fixes my teeth?"
    assert [hit.item.text for hit in plain.search(question)] == [hit.item.text for hit in mixed.search(question)] != []


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


def test_a_rule_that_cannot_be_written_is_not_in_force(path: Path) -> None:
    EpicMemory.open(path, ["I like tea."], encoder=StaticEncoder()).close()
    with EpicMemory.open(path, encoder=StaticEncoder(), settings=Settings(read_only=True)) as memory:
        with pytest.raises(ReadOnlyError):
            memory.never.add("my health")
        assert list(memory.never) == []
