"""Names in text without spaces: Chinese, Japanese, Thai, Lao, Khmer, Burmese.

There is no dictionary, so a text is cut into units that come out the same wherever a word stands: runs of one script,
split at grammatical words, and the pairs of characters at the ends of longer runs.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

# The scripts, as ranges of a character class.
UNSPACED = (
    "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3005\u3041-\u309f\u30a0-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
    "\uff66-\uff9f\U00020000-\U0003134f"
)
_KANA = re.compile("[\u3041-\u309f]")
_PIECE = re.compile(
    "(?P<han>[\u3005\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003134f]+)|(?P<kana>[\u30a0-\u30ff\uff66-\uff9f]+)"
    "|(?P<other>[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff]+)"
)
_MARK = "\u0e31\u0e34-\u0e3a\u0e47-\u0e4e\u0eb1\u0eb4-\u0ebc\u0ec8-\u0ece\u102b-\u103e\u17b4-\u17d3"
# Chinese characters that are hardly ever part of a name: particles, pronouns, common verbs and adverbs.
_CHINESE = re.compile(
    "[的了是在我你您他她它们們这這那哪个個和与與及或跟把被让讓给給从從对對向到也都就才又还還很太最更不没沒吗嗎呢吧啊着著过過"
    "会會能可以要想喜欢歡吃喝看说說叫去来來有为為因所但而且如果什么麼怎谁誰几幾些每只祇请請问問之于於其]"
)
_THAI = re.compile(
    "และ|หรือ|ที่|ซึ่ง|ใน|ของ|เป็น|ได้|จะ|ไม่|ให้|กับ|ว่า|นี้|นั้น|คือ|จาก|โดย|แต่|ถ้า|เพื่อ|อยู่|แล้ว|มาก|ฉัน|ผม|คุณ|เขา|เรา|ชอบ|มี|ไป|ไหน|อะไร|ครับ|ค่ะ"
)
# A Thai or Lao syllable begins with these vowels.
_SYLLABLE = re.compile(f"(?<=..)(?=[เแโใไ\u0ec0-\u0ec4])(?<![{_MARK}](?=[{_MARK}]))")
# Kana that may follow a single kanji without making it the stem of a verb or an adjective.
_AFTER_NOUN = frozenset("はがをにのとでもへやかよねだ")
_PRONOUNS = frozenset("私僕俺君彼何誰今事時物方人者中上下前後間的年月日")
_LONGEST = 12


def unspaced_names(run: str) -> Iterator[tuple[str, int, bool]]:
    """Yield the names in a run of such characters: name, position, and whether it is part of the name before."""
    japanese = _KANA.search(run) is not None
    for piece in _PIECE.finditer(run):
        text, begin = piece.group(), piece.start()
        if piece.lastgroup == "kana":
            stripped = text.strip("・ー゠")
            if len(stripped) > 1:
                yield text.strip("・"), begin, False
        elif piece.lastgroup == "other":
            yield from _thai(text, begin)
        elif japanese:
            following = run[piece.end() : piece.end() + 1]
            if len(text) > 1 or (text not in _PRONOUNS and (not _KANA.match(following) or following in _AFTER_NOUN)):
                yield from _pairs(text, begin, 2)
        else:
            at = begin
            for part in _CHINESE.split(text):
                if len(part) > 1 or (part and part == run):
                    yield from _pairs(part, at, 1)
                at += len(part) + 1


def _pairs(text: str, begin: int, step: int) -> Iterator[tuple[str, int, bool]]:
    """Yield a run of ideographs, and pairs of them: those at its ends, or all pairs of a long run."""
    if len(text) <= 4:
        yield text, begin, False
    if len(text) in (3, 4):
        yield text[:2], begin, True
        yield text[-2:], begin + len(text) - 2, True
    elif len(text) > 4:
        for place in range(0, len(text) - 1, step):
            yield text[place : place + 2], begin + place, False


def _thai(text: str, begin: int) -> Iterator[tuple[str, int, bool]]:
    at = begin
    for part in _split(_THAI, text):
        if len(part) > _LONGEST:
            place = at
            for syllables in _SYLLABLE.split(part):
                if len(syllables) > 1:
                    yield syllables, place, False
                place += len(syllables)
        elif len(part) > 1 and not _THAI.fullmatch(part):
            yield part, at, False
        at += len(part)


def _split(pattern: re.Pattern[str], text: str) -> Iterator[str]:
    """Yield the parts of a text between the matches of a pattern, and the matches themselves."""
    place = 0
    for match in pattern.finditer(text):
        yield text[place : match.start()]
        yield match.group()
        place = match.end()
    yield text[place:]
