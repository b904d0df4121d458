"""What a model's answer says: a decision, or nothing that can be relied on.

JSON or the paper's XML, well-formed or not, among thinking, fences and chatter; or plain labelled lines. A decision
is read only where the answer states one, and only if everything it states agrees. What cannot be understood is
an `UnreadableAnswer`, which becomes Undecided: never Discard.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from epic_core.types import Decision
from epic_core.verification.forms import (
    INSTRUCTION_LINE,
    STANCE_LINE,
    answer_of,
    json_answers,
    json_records,
    json_values,
    line_answers,
    mappings,
    said_in,
    tag,
    xml_answers,
)
from epic_core.verification.values import (
    CHUNK_KEYS,
    INSTRUCTION_KEYS,
    TEXT_KEYS,
    Answer,
    Record,
    Relevant,
    UnreadableAnswer,
    line_of,
    stance_of,
    value_of,
    whole_number,
)


def read_decision(text: str, preferences: Sequence[str], *, instructions: bool) -> Answer:
    """The decision an answer states.

    Args:
        text: The answer.
        preferences: As the prompt numbered them, from 1.
        instructions: Whether every relevant preference needs an instruction.

    Raises:
        UnreadableAnswer: if there is no decision, there are several that differ, or a Keep lacks what it needs.
    """
    said = said_in(text)
    answers = [*json_answers(said, preferences), *xml_answers(said, preferences)]
    answers = answers or list(line_answers(said, preferences))
    if not answers:
        raise UnreadableAnswer("it states no decision, Keep or Discard" if said.strip() else "it is empty")
    return _checked(_agreed(answers), said, instructions=instructions)


def read_batch(
    text: str, preferences: Sequence[str], asked: Sequence[Sequence[int]], *, instructions: bool
) -> dict[int, Answer]:
    """The decisions an answer states for several chunks: place of the chunk, from 0, to answer.

    Chunks without a decision that can be relied on are left out.

    Args:
        text: The answer.
        preferences: As the prompt numbered them, from 1.
        asked: For each chunk the places of the preferences it was to be judged under; others are ignored.
        instructions: As for `read_decision`.
    """
    said = said_in(text)
    found = list(json_records(said))
    numbers = [whole_number(value_of(record, CHUNK_KEYS)) for record, _, _ in found]
    if any(number is None for number in numbers):
        # Answers without numbers are in order, if there are as many as chunks.
        numbers = list(range(1, len(found) + 1)) if len(found) == len(asked) else []
    answers: dict[int, list[tuple[Record, Answer, bool]]] = {}
    for number, (record, span, whole) in zip(numbers, found, strict=False):
        answer = answer_of(record, preferences, span)
        if answer is not None and number is not None and 1 <= number <= len(asked):
            answers.setdefault(number - 1, []).append((record, answer, whole))
    readable: dict[int, Answer] = {}
    for place, candidates in answers.items():
        allowed = set(asked[place])
        try:
            answer = _agreed([(answer, whole) for _, answer, whole in candidates])[0]
            relevant = tuple(one for one in answer.relevant if one.index in allowed)
            checked = Answer(decision=answer.decision, rationale=answer.rationale, relevant=relevant, span=answer.span)
            readable[place] = _checked((checked, candidates[-1][2]), said, instructions=instructions)
        except UnreadableAnswer:
            continue
    return readable


def read_instruction(text: str) -> Relevant:
    """The instruction and stance an answer of the Instruction Generator gives.

    Raises:
        UnreadableAnswer: if there is none.
    """
    said = said_in(text)
    for value, whole in json_values(said):
        for record in mappings(value):
            instruction = line_of(value_of(record, INSTRUCTION_KEYS))
            if instruction and whole:
                return Relevant(index=0, stance=stance_of(value_of(record, ("stance",))), instruction=instruction)
    tagged = line_of(tag("instruction", said))
    if tagged:
        return Relevant(index=0, stance=stance_of(tag("stance", said)), instruction=tagged)
    labelled = INSTRUCTION_LINE.search(said)
    if labelled and line_of(labelled.group(1)):
        stance = STANCE_LINE.search(said)
        return Relevant(
            index=0, stance=stance_of(stance.group(1) if stance else ""), instruction=line_of(labelled.group(1))
        )
    plain = line_of(said)
    # A bare sentence is an instruction; a piece of JSON or XML is a broken answer.
    if plain and not re.search(r"[{}<>]", plain) and len(plain.split()) > 2:
        return Relevant(index=0, instruction=plain)
    raise UnreadableAnswer("it gives no instruction")


def read_rewrite(text: str) -> str:
    """The text an answer of the Rewriter gives.

    Raises:
        UnreadableAnswer: if there is none.
    """
    said = said_in(text)
    for value, whole in json_values(said):
        for record in mappings(value):
            written = value_of(record, TEXT_KEYS)
            if whole and isinstance(written, str) and written.strip():
                return written.strip()
    for name in ("rewritten_chunk", "rewrite", "rewritten", "text", "chunk"):
        tagged = tag(name, said)
        if tagged:
            return tagged
    plain = said.strip().strip("`").strip()
    if plain and not plain.startswith(("{", "[", "<")):
        return plain
    raise UnreadableAnswer("it gives no text")


def _agreed(answers: Sequence[tuple[Answer, bool]]) -> tuple[Answer, bool]:
    """The last of several answers that decide the same."""
    if len({answer.decision for answer, _ in answers}) > 1:
        raise UnreadableAnswer("it states several decisions that differ")
    return answers[-1]


def _checked(found: tuple[Answer, bool], said: str, *, instructions: bool) -> Answer:
    answer, whole = found
    if answer.decision is not Decision.KEEP:
        return Answer(decision=answer.decision, rationale=answer.rationale, span=answer.span)
    if "keep" not in said.casefold():
        raise UnreadableAnswer("it keeps without saying Keep")
    relevant = answer.relevant if whole else answer.relevant[:-1]
    if not relevant:
        raise UnreadableAnswer(
            "it keeps the chunk, but is cut off before it says what for"
            if not whole
            else "it keeps the chunk, but for none of the preferences that were listed"
        )
    if instructions:
        without = [one for one in relevant if not one.instruction]
        if without:
            raise UnreadableAnswer("it keeps the chunk, but gives no instruction")
    return Answer(decision=answer.decision, rationale=answer.rationale, relevant=relevant, span=answer.span)
