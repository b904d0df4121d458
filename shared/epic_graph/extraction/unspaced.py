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
# Chinese without the characters that are hardly ever part of a name: particles, pronouns, common verbs and adverbs.
_CHINESE = re.compile(
    "[^的了是在我你您他她它们們这這那哪个個和与與及或跟把被让讓给給从從对對向到也都就才又还還很太最更不没沒吗嗎呢吧啊着著过過"
    "会會能可以要想喜欢歡吃喝看说說叫去来來有为為因所但而且如果什么麼怎谁誰几幾些每只祇请請问問之于於其]+"
)
_THAI_WORDS = (
    "และ|หรือ|ที่|ซึ่ง|ใน|ของ|เป็น|ได้|จะ|ไม่|ให้|กับ|ว่า|นี้|นั้น|คือ|จาก|โดย|"
    "แต่|ถ้า|เพื่อ|อยู่|แล้ว|มาก|ฉัน|ผม|คุณ|เขา|เรา|ชอบ|มี|ไป|ไหน|อะไร|ครับ|ค่ะ"
)
_THAI = re.compile(f"{_THAI_WORDS}|(?P<part>(?:(?!{_THAI_WORDS}).)+)")


def unspaced_names(run: str) -> Iterator[tuple[str, int, bool]]:
    """Yield the names in a run of such characters: name, position, and whether it is part of the name before."""
    japanese = _KANA.search(run) is not None
    for piece in _PIECE.finditer(run):
        text, begin = piece.group(), piece.start()
        if piece.lastgroup == "kana":
            if len(text.strip("・ー゠")) > 1:
                yield text.strip("・"), begin, False
        elif piece.lastgroup == "other":
            for part in _THAI.finditer(text):
                if len(part["part"] or "") > 1:
                    yield part["part"], begin + part.start(), False
        elif japanese:
            # A single kanji before kana is mostly the stem of a verb or an adjective.
            if len(text) > 1 or not _KANA.match(run[piece.end() :]):
                yield from _pairs(text, begin, 2)
        else:
            for part in _CHINESE.finditer(text):
                if len(part.group()) > 1 or part.group() == run:
                    yield from _pairs(part.group(), begin + part.start(), 1)


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
