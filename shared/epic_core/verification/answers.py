"""Answers to a verifier's prompts: a decision, or an error if the answer is not reliable.

An answer is JSON or the paper's XML, well-formed or not, among thinking, fences and chatter, or plain labelled lines. A
decision is read only if the answer states one and everything it states agrees. An answer that cannot be understood is
an `UnreadableAnswer`, which becomes Undecided: never Discard.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from epic_core.lm.answers import Record, UnreadableAnswer, json_pieces, mappings, own_lines, paired, said_in, value_of
from epic_core.types import Decision
from epic_core.verification.contradictions import beside, says_otherwise
from epic_core.verification.forms import INSTRUCTION_LINE, STANCE_LINE, answer_of, line_answers, tag, xml_answers
from epic_core.verification.json_form import json_answers, json_records, records_of
from epic_core.verification.values import (
    CHUNK_KEYS,
    INSTRUCTION_KEYS,
    TEXT_KEYS,
    Answer,
    Relevant,
    instruction_of,
    stance_of,
    stated_in,
    whole_number,
)

# A bare sentence counts as an instruction if it is one line of several words that has an end and addresses the
# assistant.
_SENTENCE = re.compile(r"[^\n]*\S[ \t]+\S[^\n]*[.!。！][\"'”’*)]{0,3}$|[^\x00-\x7f][^\n]*[。！]$")
_NO_INSTRUCTION = re.compile(r"\W*(?:I|I['’]\w+|sorry|unfortunately|as an ai|(?:keep|discard)(?=\s*[.:,;]))\b", re.I)

_TEXT_TAGS = ("rewritten_chunk", "rewrite", "rewritten", "text", "chunk")
_BROKEN_TEXT = re.compile(rf"""["'](?:{"|".join(TEXT_KEYS)})["']\s{{0,9}}:|<(?:{"|".join(_TEXT_TAGS)})\b""", re.I)
_FENCE_LINE = re.compile(r"^[ \t]*```[ \t]*\w*[ \t]*$", re.M)


def read_decision(text: str, preferences: Sequence[str], *, instructions: bool) -> Answer:
    """Return the decision that an answer states.

    Args:
        text: The answer.
        preferences: The preferences in the order of the prompt, which numbers them from 1.
        instructions: Whether every relevant preference needs an instruction.

    Raises:
        UnreadableAnswer: if there is no decision, there are several that differ, or a Keep lacks a preference or an
            instruction.
    """
    said = said_in(text)
    pieces = json_pieces(said, stated_in)
    answers = [*json_answers(pieces, said, preferences), *xml_answers(said, preferences)]
    # Labelled lines next to JSON or XML must not contradict it.
    lines = line_answers(beside(pieces, said), preferences, alone=not answers)
    answers += lines
    if not answers:
        raise UnreadableAnswer("it states no decision, Keep or Discard" if said.strip() else "it is empty")
    found = _agreed(answers)
    stated = [piece.begin for piece in pieces if records_of(piece)]
    stated += [answer.span[0] for answer, _ in answers if answer.span]
    if says_otherwise(pieces, said, min(stated, default=0), found[0].decision):
        raise UnreadableAnswer("it states one decision and then says the other")
    return _checked(found, said, instructions=instructions)


def read_batch(
    text: str, preferences: Sequence[str], asked: Sequence[Sequence[int]], *, instructions: bool
) -> dict[int, Answer]:
    """Return the decisions that an answer states for several chunks: the place of a chunk, from 0, to its answer.

    Chunks without a reliable decision are left out.

    Args:
        text: The answer.
        preferences: The preferences in the order of the prompt, which numbers them from 1.
        asked: For each chunk the places of the preferences under which it was to be judged; others are ignored.
        instructions: As for `read_decision`.
    """
    said = said_in(text)
    try:
        found = list(json_records(json_pieces(said, stated_in), said))
    except UnreadableAnswer:
        return {}
    numbers = [whole_number(value_of(record, CHUNK_KEYS)) for record, _, _ in found]
    if not all(numbers):
        # Answers without numbers from 1 count as being in order, if there are as many as chunks.
        numbers = list(range(1, len(found) + 1)) if len(found) == len(asked) else []
    stated: dict[int, list[tuple[Record, tuple[int, int] | None, bool]]] = {}
    for number, one in zip(numbers, found, strict=False):
        if number is not None and 1 <= number <= len(asked):
            stated.setdefault(number - 1, []).append(one)
    readable: dict[int, Answer] = {}
    for place, several in stated.items():
        try:
            answer, whole = _agreed([(answer_of(record, preferences, span), whole) for record, span, whole in several])
            relevant = tuple(one for one in answer.relevant if one.index in asked[place])
            readable[place] = _checked((replace(answer, relevant=relevant), whole), said, instructions=instructions)
        except UnreadableAnswer:
            continue
    return readable


def read_instruction(text: str) -> Relevant:
    """Return the instruction and the stance in an answer of the Instruction Generator.

    Raises:
        UnreadableAnswer: if there is no instruction.
    """
    said = said_in(text)
    for piece in json_pieces(said, stated_in):
        for record in mappings(piece.value, stated_in):
            instruction = instruction_of(value_of(record, INSTRUCTION_KEYS))
            if instruction and piece.whole:
                return Relevant(index=0, stance=stance_of(value_of(record, ("stance",))), instruction=instruction)
    tagged = instruction_of(tag("instruction", said))
    if tagged:
        return Relevant(index=0, stance=stance_of(tag("stance", said)), instruction=tagged)
    if re.search(r"[{}<>]", said):
        # The JSON or XML is broken, or holds something else.
        raise UnreadableAnswer("it gives no instruction")
    said = own_lines(said)
    labelled = INSTRUCTION_LINE.search(said)
    if labelled and instruction_of(labelled.group(1)):
        stance = STANCE_LINE.search(said)
        return Relevant(
            index=0,
            stance=stance_of(stance.group(1) if stance else ""),
            instruction=instruction_of(labelled.group(1)),
        )
    plain = said.strip()
    if _SENTENCE.match(plain) and not _NO_INSTRUCTION.match(plain):
        return Relevant(index=0, instruction=instruction_of(plain))
    raise UnreadableAnswer("it gives no instruction")


def read_rewrite(text: str) -> str:
    """Return the text in an answer of the Rewriter.

    Raises:
        UnreadableAnswer: if there is none.
    """
    said = said_in(text)
    for piece in json_pieces(said, stated_in):
        for record in mappings(piece.value, stated_in):
            written = value_of(record, TEXT_KEYS)
            if piece.whole and isinstance(written, str) and re.search(r"\w", written):
                return paired(written).strip()
    for name in _TEXT_TAGS:
        tagged = tag(name, said)
        if tagged:
            return tagged
    plain = _FENCE_LINE.sub("", said).strip()
    # A bare text is the rewritten text; a piece of JSON or XML is a broken answer.
    if re.search(r"\w", plain) and not plain.startswith(("{", "[", "<")) and not _BROKEN_TEXT.search(plain):
        return plain
    raise UnreadableAnswer("it gives no text")


def _agreed(answers: Sequence[tuple[Answer, bool]]) -> tuple[Answer, bool]:
    """Merge several answers with the same decision into one, with the preferences that the complete ones list."""
    if len({answer.decision for answer, _ in answers}) > 1:
        raise UnreadableAnswer("it states several decisions that differ")
    whole = [answer for answer, whole in answers if whole]
    if not whole:
        return answers[-1]
    relevant: dict[int, Relevant] = {}
    for one in (one for answer in whole for one in answer.relevant):
        if one.index not in relevant or not relevant[one.index].instruction:
            relevant[one.index] = one
    return replace(whole[0], relevant=tuple(relevant.values())), True


def _checked(found: tuple[Answer, bool], said: str, *, instructions: bool) -> Answer:
    answer, whole = found
    if answer.decision is not Decision.KEEP:
        return replace(answer, relevant=())
    if "keep" not in said.casefold():
        raise UnreadableAnswer("it keeps without saying Keep")
    relevant = answer.relevant if whole else answer.relevant[:-1]
    if not relevant:
        raise UnreadableAnswer(
            "it keeps the chunk, but for none of the preferences that were listed"
            if whole
            else "it keeps the chunk, but is cut off before it says what for"
        )
    if instructions and not all(one.instruction for one in relevant):
        raise UnreadableAnswer("it keeps the chunk, but gives no instruction")
    return replace(answer, relevant=relevant)
