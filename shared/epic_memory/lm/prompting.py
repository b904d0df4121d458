"""Prompts: their placeholders, and untrusted texts quoted so that they cannot pass for instructions."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from hashlib import blake2b
from importlib.resources import files

from epic_memory.lm.base import Message

_LOOKALIKES = str.maketrans({"\u2800": " ", "<": "‹", ">": "›", "{": "❴", "}": "❵", "`": "ˋ", "[": "⁅", "]": "⁆"})
_MARK = "| "
# Fillers and variation selectors: letters and marks without a shape. U+FE0E and U+FE0F are part of emoji.
_FILLERS = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180d\u180f\u3164\ufe00-\ufe0d\uffa0\U000e0100-\U000e01ef]"
)
# Joiners combine signs or keep letters apart in scripts beyond ASCII; elsewhere they only hide something.
_JOINERS = "\u200c\u200d"
_STRAY_JOINERS = re.compile(rf"[{_JOINERS}]{{2,}}|(?<![^\x00-\x7f])[{_JOINERS}]|[{_JOINERS}](?![^\x00-\x7f])")
_PLACEHOLDER = re.compile(r"\{(\w+)\}")
_FOLDER = "data/prompts"
# To be increased when a change of quoting or parsing can change what is read.
_VERSION = "4"


@dataclass(frozen=True, kw_only=True)
class Prompt:
    """A prompt: a system text, and a user text with placeholders such as `{preferences}`.

    A placeholder for which there is no value, and all other braces, stay unchanged.
    """

    system: str
    user: str

    @property
    def size(self) -> int:
        """Bytes of the prompt without the values filled in."""
        return size_of(self.system) + size_of(self.user)

    @property
    def version(self) -> str:
        """Short hash of the prompt, so that answers to another prompt are not reused."""
        return blake2b(
            f"{_VERSION}\x1f{self.system}\x1f{self.user}".encode("utf-8", "replace"), digest_size=4
        ).hexdigest()

    def messages(self, values: Mapping[str, str]) -> list[Message]:
        """Return the messages with values filled in; placeholders inside a value are left alone."""
        user = _PLACEHOLDER.sub(lambda match: values.get(match.group(1), match.group(0)), self.user)
        made = [Message("system", self.system)] if self.system.strip() else []
        return [*made, Message("user", user)]


@cache
def prompt_of(name: str) -> Prompt:
    """Return a prompt of the package: the file `data/prompts/NAME.txt`, whose system text ends at a line of dashes."""
    text = (files("epic_memory") / _FOLDER / f"{name}.txt").read_text(encoding="utf-8")
    system, user = text.split("\n---\n")
    return Prompt(system=system.strip(), user=user.strip())


def size_of(text: str) -> int:
    """Return the number of bytes of a text in UTF-8."""
    return len(text.encode("utf-8", "replace"))


def quoted(text: str) -> str:
    """Return an untrusted text for a prompt: with harmless characters only, and each line marked."""
    return "\n".join(_MARK + line for line in _plain(text).splitlines() if line.strip())


def section(text: str, name: str = "chunk") -> str:
    """Return a quoted text between tags that nothing inside it can close."""
    mark = blake2b(text.encode("utf-8", "replace"), digest_size=8).hexdigest()
    return f"<{name} {mark}>\n{quoted(text)}\n</{name} {mark}>"


def numbered(texts: Sequence[str]) -> str:
    """Return preferences as numbered lines for a prompt, from 1."""
    return "\n".join(f"{number}. {one_line(text)}" for number, text in enumerate(texts, start=1))


def one_line(text: str) -> str:
    """Return a text of a model or a user for use inside a line of a prompt."""
    return " ".join(_plain(text).split())


def _plain(text: str) -> str:
    """Return the text without invisible characters, and with look-alikes for the characters of markup."""
    if text.isascii():
        text = re.sub(r"[\x00-\x08\x0e-\x1b\x7f]", "", text)
    else:
        text = _STRAY_JOINERS.sub("", _FILLERS.sub("", text.translate(_SEEN)))
    return text.translate(_LOOKALIKES)


class _Seen(dict[int, str | None]):
    """Table for `str.translate`: folds variants of the characters of markup, drops the invisible, keeps all others."""

    def __missing__(self, code: int) -> str | None:
        character = chr(code)
        plain = unicodedata.normalize("NFKC", character)
        folded = plain if len(plain) == 1 and ord(plain) in _LOOKALIKES else character
        self[code] = folded if _visible(character) else None
        return self[code]


_SEEN = _Seen()


def _visible(character: str) -> bool:
    category = unicodedata.category(character)
    if category == "Cn":
        # Accept pictures and ideographs that this Python does not know yet.
        return 0x1F000 <= ord(character) < 0x3FFFE and ord(character) & 0xFFFE != 0xFFFE
    return category not in ("Cf", "Cc", "Co", "Cs") or character.isspace() or character in _JOINERS
