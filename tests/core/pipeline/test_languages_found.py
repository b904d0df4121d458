"""Tests of notes in languages that the bundled encoder does not know: they are found by their words."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from epic_memory import EpicMemory
from epic_memory.encoders import StaticEncoder
from epic_plugins.collection import Collection, Record

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


def memory_of(*notes: str, preferences: Sequence[str] = ()) -> EpicMemory:
    memory = EpicMemory(preferences, encoder=StaticEncoder())
    memory.add(notes)
    return memory


def found(memory: EpicMemory, question: str, k: int = 10) -> list[str]:
    return [hit.item.text for hit in memory.search(question, k=k)]


@pytest.mark.parametrize("language", NOTES)
def test_a_note_is_found_by_its_words_and_none_by_other_words(language: str) -> None:
    preference, notes, (question, right) = NOTES[language]
    memory = memory_of(*notes, preferences=[preference])
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
    memory = memory_of("Der Keller ist feucht.", "कल बारिश होगी।", "鍵は玄関にある。", note)
    assert found(memory, question, 1) == [note]


@pytest.mark.parametrize(
    ("question", "first"),
    [
        *((short, None) for short in ("restaurant recommendations", "dinner ideas tonight", "plane departure")),
        ("What is the name of the person who fixes my teeth?", "My dentist is called Weber."),
    ],
)
def test_english_is_found_as_ever_whatever_the_preferences_are_in(question: str, first: str | None) -> None:
    notes = ["The Green Room has a vegan tasting menu.", "My flight to Oslo leaves on Friday.", "The cellar is damp."]
    notes += [first] if first else []
    plain, mixed = memory_of(*notes), memory_of(*notes, preferences=["Ich esse kein Fleisch."])
    assert mixed.search(question, k=1).relevant == plain.search(question, k=1).relevant
    assert found(mixed, question, 1) == found(plain, question, 1)
    assert first is None or found(mixed, question) == found(plain, question) == [first]


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
