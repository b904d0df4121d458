"""Prompts: their placeholders, and texts of users and documents quoted so that they cannot pass for instructions."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b

from epic_core.lm.base import Message

_PLACEHOLDER = re.compile(r"\{(preferences?|chunks?|reason|rationale)\}")


_LOOKALIKES = str.maketrans({"\u2800": " ", "<": "‹", ">": "›", "{": "❴", "}": "❵", "`": "ˋ", "[": "⁅", "]": "⁆"})


_MARK = "| "


# Fillers and selectors of variants: letters and marks that show nothing. U+FE0E and U+FE0F are part of emoji.
_FILLERS = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180d\u180f\u3164\ufe00-\ufe0d\uffa0\U000e0100-\U000e01ef]"
)


# They make one sign of several, or keep letters apart, in scripts beyond ASCII; elsewhere they only hide.
_JOINERS = "\u200c\u200d"


_STRAY_JOINERS = re.compile(rf"[{_JOINERS}]{{2,}}|(?<![^\x00-\x7f])[{_JOINERS}]|[{_JOINERS}](?![^\x00-\x7f])")


@dataclass(frozen=True, kw_only=True)
class Prompt:
    """A prompt: a system text and a user text with placeholders.

    Placeholders are `{preferences}` (numbered, one a line), `{chunk}`, and `{rationale}` where there is one;
    `{preference}` and `{reason}` mean the same. Other braces stay as they are.

    Attributes:
        structured: Whether the model is held to a JSON schema. Off for prompts that ask for another form.
    """

    system: str
    user: str
    structured: bool = True

    @property
    def size(self) -> int:
        """Bytes of the prompt itself."""
        return size_of(self.system) + size_of(self.user)

    def messages(self, values: Mapping[str, str]) -> list[Message]:
        """The messages, filled in; what is filled in is not looked through for placeholders."""
        names = {"preference": "preferences", "reason": "rationale", "chunks": "chunk"}

        def value(match: re.Match[str]) -> str:
            name = match.group(1)
            return values.get(names.get(name, name), match.group(0))

        made = [Message("system", self.system)] if self.system.strip() else []
        return [*made, Message("user", _PLACEHOLDER.sub(value, self.user))]


def size_of(text: str) -> int:
    """Bytes of a text."""
    return len(text.encode("utf-8", "replace"))


def quoted(text: str) -> str:
    """An untrusted text as it enters a prompt: harmless characters, each line marked."""
    return "\n".join(_MARK + line for line in _plain(text).splitlines() if line.strip())


def section(text: str, name: str = "chunk") -> str:
    """A quoted text between tags that nothing inside it can close."""
    mark = blake2b(text.encode("utf-8", "replace"), digest_size=8).hexdigest()
    return f"<{name} {mark}>\n{quoted(text)}\n</{name} {mark}>"


def numbered(texts: Sequence[str]) -> str:
    """Preferences as a prompt shows them, from 1."""
    return "\n".join(f"{number}. {' '.join(_plain(text).split())}" for number, text in enumerate(texts, start=1))


def one_line(text: str) -> str:
    """A text of a model or a user inside a line of a prompt."""
    return " ".join(_plain(text).split())


def _plain(text: str) -> str:
    """The text without invisible characters, and with look-alikes for the characters of markup."""
    if text.isascii():
        text = re.sub(r"[\x00-\x08\x0e-\x1b\x7f]", "", text)
    else:
        # Full-width and other forms of the characters of markup; all else stays as it is.
        text = "".join(_folded(character) for character in text if _visible(character))
        text = _FILLERS.sub("", text)
        text = _STRAY_JOINERS.sub("", text)
    return text.translate(_LOOKALIKES)


def _folded(character: str) -> str:
    plain = unicodedata.normalize("NFKC", character)
    return plain if len(plain) == 1 and ord(plain) in _LOOKALIKES else character


def _visible(character: str) -> bool:
    category = unicodedata.category(character)
    if category == "Cn":
        # Pictures and ideographs that are newer than this Python.
        return 0x1F000 <= ord(character) < 0x3FFFE and ord(character) & 0xFFFE != 0xFFFE
    return category not in ("Cf", "Cc", "Co", "Cs") or character.isspace() or character in _JOINERS


# Raised when quoting or parsing changes what a verdict may be.
_VERSION = "2"


def version(prompts: Sequence[Prompt]) -> str:
    """A short hash of prompts: what was answered to others is not reused."""
    parts = [_VERSION]
    for prompt in prompts:
        parts += [prompt.system, prompt.user, str(prompt.structured)]
    return blake2b("\x1f".join(parts).encode("utf-8", "replace"), digest_size=4).hexdigest()
