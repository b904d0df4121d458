"""Prompts: their placeholders, and untrusted texts quoted so that they cannot pass for instructions."""

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


# Fillers and variation selectors: letters and marks without a shape. U+FE0E and U+FE0F are part of emoji.
_FILLERS = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180d\u180f\u3164\ufe00-\ufe0d\uffa0\U000e0100-\U000e01ef]"
)


# Joiners combine signs or keep letters apart in scripts beyond ASCII; elsewhere they only hide something.
_JOINERS = "\u200c\u200d"


_STRAY_JOINERS = re.compile(rf"[{_JOINERS}]{{2,}}|(?<![^\x00-\x7f])[{_JOINERS}]|[{_JOINERS}](?![^\x00-\x7f])")


@dataclass(frozen=True, kw_only=True)
class Prompt:
    """A prompt: a system text and a user text with placeholders.

    Placeholders are `{preferences}` (numbered, one a line), `{chunk}`, and `{rationale}` if there is one;
    `{preference}`, `{chunks}` and `{reason}` are other names for them. Other braces stay unchanged.

    Attributes:
        structured: Whether the model is held to a JSON schema. Off for prompts that ask for another form.
    """

    system: str
    user: str
    structured: bool = True

    @property
    def size(self) -> int:
        """Bytes of the prompt without the values filled in."""
        return size_of(self.system) + size_of(self.user)

    def messages(self, values: Mapping[str, str]) -> list[Message]:
        """Return the messages with values filled in; placeholders inside a value are left alone."""
        names = {"preference": "preferences", "reason": "rationale", "chunks": "chunk"}

        def value(match: re.Match[str]) -> str:
            name = match.group(1)
            return values.get(names.get(name, name), match.group(0))

        made = [Message("system", self.system)] if self.system.strip() else []
        return [*made, Message("user", _PLACEHOLDER.sub(value, self.user))]


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


def object_schema(**properties: object) -> dict[str, object]:
    """Return the schema of an object with exactly these properties."""
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


def list_schema(items: object, most: int) -> dict[str, object]:
    """Return the schema of a list of limited length: a small model in a loop would fill the answer with it."""
    return {"type": "array", "items": items, "maxItems": most}


# To be increased when a change of quoting or parsing can change verdicts.
_VERSION = "3"


def version(prompts: Sequence[Prompt]) -> str:
    """Return a short hash of prompts, so that answers to other prompts are not reused."""
    parts = [_VERSION]
    for prompt in prompts:
        parts += [prompt.system, prompt.user, str(prompt.structured)]
    return blake2b("\x1f".join(parts).encode("utf-8", "replace"), digest_size=4).hexdigest()
