"""Changes that forms of the page ask for."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple, TypeAlias

from epic_apps.inspect.words import shown
from epic_learn.types import Proposal
from epic_memory import Aspects, EpicMemory, Expansion
from epic_memory.errors import InvalidInputError, UnknownItemError

Form: TypeAlias = dict[str, str]

LONGEST_FORM = 1_000_000
"""Most bytes of a form."""


class Change(NamedTuple):
    """Change of a memory: what does it, the view that it leads to, and what is said there."""

    do: Callable[[EpicMemory, Form], object]
    leads_to: str
    done: str


def editable(text: str) -> str:
    """Return a text for a field, whole."""
    return shown(text, LONGEST_FORM)


def whole(text: str, otherwise: int) -> int:
    """Return the number that a text says, or another for what is no number of things."""
    return int(text) if text.isascii() and text.isdigit() and len(text) < 9 else otherwise


def _aspects(memory: EpicMemory, form: Form) -> None:
    read = None
    if "again" not in form:
        was = memory.preferences.aspects(form["id"])
        read = Aspects(
            liked=_edited_lines(form, "liked", was.liked),
            avoided=_edited_lines(form, "avoided", was.avoided),
            firmness=_number(form.get("firmness", "0.75")),
            scope=_edited(form.get("scope", ""), was.scope),
        )
    memory.preferences.set_aspects(form["id"], read)


def _expansion(memory: EpicMemory, form: Form) -> None:
    read = None
    if "again" not in form:
        was = memory.preferences.expansions(form["id"])
        questions, follows, breaks = (
            _edited_lines(form, name, getattr(was, name, ())) for name in ("questions", "follows", "breaks")
        )
        read = Expansion(questions=questions, follows=follows, breaks=breaks)
    memory.preferences.set_expansion(form["id"], read)


def _replace(memory: EpicMemory, form: Form) -> None:
    was = next((each.text for each in memory.preferences if form["id"] in (each.id, each.text)), "")
    memory.preferences.replace(form["id"], _edited(form["text"], was))


def _accept(memory: EpicMemory, form: Form) -> None:
    was = next((each.text for each in memory.proposals if each.id == form["id"]), "")
    text = _edited(form.get("text", ""), was)
    memory.proposals.accept(form["id"], text if text and text != was else None)


def _edit_fact(memory: EpicMemory, form: Form) -> None:
    was = next((each for each in memory.facts if each.id == form["id"]), None)
    if was is None:
        raise UnknownItemError("This fact is not held any more.")
    text = _edited(form["text"], was.text).strip()
    if text == was.text:
        return
    # By a proposal, so that the words in which the user says it are known, and that they were accepted.
    change = Proposal(kind="update_fact", text=text, old=was.text, quote=text, source="page", expires_at=was.expires_at)
    made = memory.proposals.add([change], again=True)
    if not made:
        left = [*made.report.failures, *(each.reason for each in made.report.left_out)]
        raise InvalidInputError("; ".join(left) or "It cannot be changed.")
    # Much the same may wait already, in an assistant's words: what was typed counts.
    memory.proposals.accept(made[0], text)


def _forget(memory: EpicMemory, form: Form) -> None:
    memory.forget(form["id"])


def _edited(typed: str, stored: str) -> str:
    """Return what was typed; the stored text if that is what the field showed, without what cannot be shown."""
    return stored if typed.strip() == editable(stored).strip() else typed


def _edited_lines(form: Form, name: str, stored: tuple[str, ...]) -> tuple[str, ...]:
    """Return the lines that were typed; those stored if the field has them as they were shown."""
    typed = _lines(form.get(name, ""))
    return stored if typed == _lines(editable("\n".join(stored))) else typed


def _lines(text: str) -> tuple[str, ...]:
    return tuple(line.strip() for line in text.splitlines() if line.strip())


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise InvalidInputError(f"A number is needed, not {text[:40]!r}.") from None


_COUNTS = "Saved: it counts from the next question on."
CHANGES: Mapping[str, Change] = {
    "preferences/add": Change(lambda memory, form: memory.preferences.add(form["text"]), "/preferences", "Added."),
    "preferences/replace": Change(_replace, "/preferences", "Changed. What is held was matched with it."),
    "preferences/remove": Change(
        lambda memory, form: memory.preferences.remove(form["id"]), "/preferences", "Removed."
    ),
    "preferences/aspects": Change(_aspects, "/preferences", _COUNTS),
    "preferences/expansion": Change(_expansion, "/preferences", _COUNTS),
    "items/forget": Change(_forget, "/held", "Forgotten for good."),
    "facts/add": Change(lambda memory, form: memory.facts.add(form["text"]), "/facts", "Remembered."),
    "facts/replace": Change(_edit_fact, "/facts", "Changed."),
    "facts/forget": Change(_forget, "/facts", "Forgotten for good."),
    "facts/undo": Change(lambda memory, form: memory.facts.undo(whole(form["id"], 0)), "/facts", "Undone."),
    "proposals/accept": Change(_accept, "/proposals", "Accepted: it is in force."),
    "proposals/reject": Change(
        lambda memory, form: memory.proposals.reject(form["id"]),
        "/proposals",
        "Rejected: it will not be proposed again.",
    ),
}
"""The changes by the names of their forms."""
