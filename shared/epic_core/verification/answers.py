"""Answers to a verifier's prompts: a decision, or an error if the answer is not reliable.

An answer is JSON or the paper's XML, well-formed or not, among thinking, fences and chatter, or plain labelled lines. A
decision is read only if the answer states one, everything it states agrees, and it is complete. An answer that cannot
be understood, or that ends too early, is an `UnreadableAnswer`, which becomes Undecided: never Discard, and never a
Keep without the stance or the preference that was still to come.
"""

from __future__ import annotations

import html
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from epic_core.lm.answers import (
    Piece,
    Record,
    UnreadableAnswer,
    json_pieces,
    line_of,
    mappings,
    own_lines,
    paired,
    said_in,
    value_of,
    whole_pieces,
)
from epic_core.types import Decision
from epic_core.verification.values import (
    CHUNK_KEYS,
    INSTRUCTION_KEYS,
    TEXT_KEYS,
    Answer,
    Relevant,
    answer_in,
    decision_of,
    instruction_of,
    names_decision,
    relevance_of,
    stance_of,
    stated_in,
    whole_number,
)

_STATED = re.compile(
    r"""(?<![a-z])(?:decision|verdict|judge?ment|action|label|answer|result)["'”’]?\s{0,9}[:=]([^,{}\[\]\n]{0,80})""",
    re.I,
)
_DECISION_TAG = re.compile(r"<decision\b[^<>]{0,200}>([^<]*)", re.I)
_LIST_TAGS = ("relevant_preferences", "preferences", "relevant_preference")
_TEXT_TAGS = ("rewritten_chunk", "rewrite", "rewritten", "text", "chunk")
_TAG = re.compile(
    r"<(/?)\s{0,3}(reason|rationale|(?:relevant_)?preferences?|instruction|stance|number|text|relevant)\b[^<>]*(?<!/)>",
    re.I,
)

_BEGINS = r"^[^\w\n]{0,20}(?:\d{1,2}[.)][^\w\n]{0,9})?_{0,4}"
_DECISION_LINE = re.compile(
    _BEGINS + r"(?:(?:my|the|final)\s{1,3}){0,2}(?:(answer)|decision|verdict|judge?ment)\s{0,3}(?:\([^)\n]*\))?"
    r"(?:[ \t*_]{0,20}[:=–-][ \t*_]{0,20}\n{0,2}|[ \t*_]{0,20}\n{1,2})(.*)$",
    re.I | re.M,
)
_RATIONALE_LINE, _PREFERENCES_LINE, _INSTRUCTION_LINE, _STANCE_LINE = (
    re.compile(rf"{_BEGINS}{label}\s*(?:\([^)\n]*\))?[\s*_]{{0,20}}[:=–-][ \t*_]{{0,20}}(.*)$", re.I | re.M)
    for label in (
        "(?:rationale|reason(?:ing)?|explanation)",
        r"(?:relevant\s+|matched\s+)?preferences?(?:\s+numbers?)?",
        "instructions?",
        "stance",
    )
)
_PREFERENCE_LINE = re.compile(
    _BEGINS + r"preference\s{0,9}#?(\d+)\s{0,9}(?:\(([^)\n]*)\))?\s{0,9}[:=–-]\s*(.+)$", re.I | re.M
)
_FIRST_WORD = re.compile(
    r"^\W*(keep|discard)\b(?=(?:\s+it|\s+(?:the|this)\s+(?:chunk|document))?[*_\"'`]*\s*(?:$|[.,:;!(\n–—-]))", re.I
)
_WORD = re.compile("keep|discard", re.I)
_FENCED = re.compile(r"(?:(?!```).)*```[ \t]{0,20}\w{0,40}[ \t]{0,20}\n((?:(?!```).)*)```\s*", re.S)
# The last line of a text has an end if a sentence, a fence or the line itself has one.
_ENDED = re.compile(r"(?:[.!?…。！？][\"'”’*_`)]{0,9}\s*|\n[^\S\n]*)\Z")
# A bare sentence counts as an instruction if it is one line of several words and addresses the assistant.
_SENTENCE = re.compile(r"(?=[^\n]*[.!。！][\"'”’*)]{0,3}$)[^\n]*?\S[ \t]+\S[^\n]|[^\x00-\x7f][^\n]*[。！]$")
_NO_INSTRUCTION = re.compile(r"\W*(?:I|I['’]\w+|sorry|unfortunately|as an ai|(?:keep|discard)(?=\s*[.:,;]))\b", re.I)

# Patterns for another decision in words: as a sentence of its own, or after words such as "final answer:".
_ENDS = r"""[ \t*_"'`)\]]{0,9}(?:$|[.!;,:(–—]|[ \t]-)"""
_OTHER = r"(?:%s)\b(?:\s{1,3}(?:it|this|that|(?:the|this)\s{1,3}(?:chunk|document|one)))?"
_ADVERBS = r"(?:(?:so|then|thus|hence|therefore|actually|(?:or\s)?rather|instead|final(?:ly)?|now|but)\s{1,3}){0,2}"
_FINAL_WORDS = (
    r"\b(?:decision|verdict|answer|judge?ment|conclusion|final|correction|corrected)\b[^\n.:=!?]{0,20}"
    r"(?:[:=–—]|\s-|\b(?:is|(?:should|must)\s{1,3}be)\b)"
    r"|\b(?:meant|chang(?:e|ed|ing)\b[^\n.:=!?]{0,20}\sto)\b"
    r"|\b(?:it|this|that|chunk|document)\s{1,3}(?:should|must|has\sto|ought\sto)\s{1,3}(?:\w{1,9}\s{1,3})?be\b"
)
_SPACE = r"""[\s*_"'`#>(\[]{0,9}"""
_FIRST, _EARLIER, _LATER = (
    {
        decision: re.compile(form.replace("%s", words), re.I | re.M)
        for decision, words in ((Decision.KEEP, "keep|kept"), (Decision.DISCARD, "discard(?:ed)?"))
    }
    for form in (
        rf"\A\W*({_OTHER}){_ENDS}",
        rf"(?:(?:^[^\w\n]{{0,20}}|[.!?]{_SPACE}){_ADVERBS}({_OTHER})[ \t*_\"'`)\]]{{0,9}}(?:$|[.!])"
        rf"|(?:{_FINAL_WORDS}){_SPACE}({_OTHER}){_ENDS})",
        rf"(?:(?:^[^\w\n]{{0,20}}|[.!?:;,–—(→>]{_SPACE}|\s-{_SPACE}){_ADVERBS}|(?:{_FINAL_WORDS}){_SPACE})({_OTHER}){_ENDS}",
    )
)
_CONDITION = re.compile(r"\b(?:if|unless|otherwise|whether|when)\b", re.I)
_LONGEST_SENTENCE = 200
_ANSWER_TAG = re.compile(
    r"<(?:decision|reason|rationale|(?:relevant_)?preferences?|instruction|stance|number|text|id|relevant)\b"
    r"[^<>]{0,200}>[^<]*|</?[a-z][^<>]{0,200}>",
    re.I,
)


class _Stated(NamedTuple):
    """Statement of a decision in one place of an answer, with the position of the decision word if it is certain."""

    record: Record
    span: tuple[int, int] | None


def read_decision(text: str, preferences: Sequence[str], *, instructions: bool, closed: bool = False) -> Answer:
    """Return the decision that an answer states.

    Args:
        text: The answer.
        preferences: The preferences in the order of the prompt, which numbers them from 1.
        instructions: Whether every relevant preference needs an instruction.
        closed: Whether only JSON and XML count, in which it can be seen that an instruction was not cut off.

    Raises:
        UnreadableAnswer: if there is no decision, there are several that differ, it is cut off, or a Keep lacks a
            preference or an instruction.
    """
    said = said_in(text)
    pieces = whole_pieces(said)
    stated = [one for piece in pieces for one in _json_stated(piece, said)]
    stated += _xml_stated(said, closed=closed)
    beside = _outside(pieces, said)
    # Labelled lines next to JSON or XML must not contradict it, and need not be complete.
    lines = _line_stated(beside, alone=not stated)
    if not stated and (closed or not lines):
        raise UnreadableAnswer("it states no decision, Keep or Discard" if said.strip() else "it is empty")
    answer = _agreed([answer_in(one.record, preferences, one.span) for one in stated or lines])
    if any(decision_of(one.record["decision"]) is not answer.decision for one in lines):
        raise UnreadableAnswer("it states several decisions that differ")
    begins = [piece.begin for piece in pieces if _records(piece)]
    begins += [one.span[0] for one in (*stated, *lines) if one.span]
    if _says_otherwise(beside, min(begins, default=0), answer.decision):
        raise UnreadableAnswer("it states one decision and then says the other")
    return _checked(answer, said, instructions=instructions)


def read_batch(
    text: str, preferences: Sequence[str], asked: Sequence[Sequence[int]], *, instructions: bool
) -> dict[int, Answer]:
    """Return the decisions that an answer states for several chunks: the place of a chunk, from 0, to its answer.

    Chunks without a reliable decision are left out, as is the last one of an answer that is cut off. `asked` holds for
    each chunk the places of the preferences under which it was to be judged; others are ignored.
    """
    said = said_in(text)
    try:
        found = [one for piece in json_pieces(said) for one in _json_stated(piece, said)]
    except UnreadableAnswer:
        return {}
    numbers = [whole_number(value_of(one.record, CHUNK_KEYS)) for one in found]
    if not all(numbers):
        # Answers without numbers from 1 count as being in order, if there are as many as chunks.
        numbers = list(range(1, len(found) + 1)) if len(found) == len(asked) else []
    several: dict[int, list[_Stated]] = {}
    for number, one in zip(numbers, found, strict=False):
        if number is not None and 1 <= number <= len(asked):
            several.setdefault(number - 1, []).append(one)
    readable: dict[int, Answer] = {}
    for place, stated in several.items():
        try:
            answer = _agreed([answer_in(one.record, preferences, one.span) for one in stated])
            relevant = tuple(one for one in answer.relevant if one.index in asked[place])
            readable[place] = _checked(replace(answer, relevant=relevant), said, instructions=instructions)
        except UnreadableAnswer:
            continue
    return readable


def read_instruction(text: str) -> Relevant:
    """Return the instruction and the stance in an answer of the Instruction Generator, which has to be complete."""
    said = said_in(text)
    found = [record for piece in whole_pieces(said) for record in mappings(piece.value, stated_in)]
    found.append({"instruction": _tag("instruction", said), "stance": _tag("stance", said)})
    if not re.search(r"[{}<>]", said):
        # Broken JSON or XML is not plain text.
        own = own_lines(said)
        plain = own.strip()
        if _ENDED.search(own):
            found.append({"instruction": _first(_INSTRUCTION_LINE, own), "stance": _first(_STANCE_LINE, own)})
        if _SENTENCE.match(plain) and plain.count('"') % 2 == 0 and not _NO_INSTRUCTION.match(plain):
            found.append({"instruction": plain})
    for record in found:
        instruction = instruction_of(value_of(record, INSTRUCTION_KEYS))
        if instruction:
            return Relevant(index=0, stance=stance_of(value_of(record, ("stance",))), instruction=instruction)
    raise UnreadableAnswer("it gives no instruction")


def read_rewrite(text: str) -> str:
    """Return the text in an answer of the Rewriter, which has to be complete: in JSON, between tags, or in a fence."""
    said = said_in(text)
    pieces = whole_pieces(said)
    found = [value_of(record, TEXT_KEYS) for piece in pieces for record in mappings(piece.value, stated_in)]
    found += [_tag(name, said) for name in _TEXT_TAGS]
    fenced = _FENCED.fullmatch(said)
    if fenced and not pieces and "<" not in said:
        found.append(fenced.group(1))
    for written in found:
        if isinstance(written, str) and re.search(r"\w", written):
            return paired(written).strip()
    raise UnreadableAnswer("it gives no text, or one without an end")


# JSON


def _records(piece: Piece) -> list[Record]:
    """Return the objects in a piece that state a decision, or that do not settle on one."""
    return [record for record in mappings(piece.value, stated_in) if stated_in(record)]


def _json_stated(piece: Piece, said: str) -> list[_Stated]:
    """Return what a piece states; the last of a piece without an end is left out."""
    records = _records(piece)
    words = [match for match in _STATED.finditer(said, piece.begin, piece.end) if names_decision(match.group(1))]
    stated = [decision_of(match.group(1)) for match in words]
    if records and not piece.strict:
        made = [decision for record in records for decision in stated_in(record)]
        same = len(set(made)) == 1 and set(stated) == set(made)
        if None in stated or not (same or Counter(stated) == Counter(made)):
            raise UnreadableAnswer("it does not settle on one decision")
    certain = len(words) == len(records)
    return [
        _Stated(record, _word_in(words[place], 1) if certain else None)
        for place, record in enumerate(records if piece.whole else records[:-1])
    ]


def _word_in(match: re.Match[str], group: int) -> tuple[int, int]:
    """Return where the decision word stands in a group of a match."""
    word = _WORD.search(match.string, *match.span(group))
    return word.span() if word else match.span(group)


# XML


def _xml_stated(said: str, *, closed: bool) -> list[_Stated]:
    """Return what XML states, in the paper's form or in models' variants of it, if it is not cut off."""
    stated = list(_DECISION_TAG.finditer(said))
    tags = Counter((name.casefold(), bool(slash)) for slash, name in _TAG.findall(said))
    if stated and (re.search(r"<[^<>]*\Z", said) or any(tags[name, False] > tags[name, True] for name, _ in tags)):
        raise UnreadableAnswer("it is cut off")
    made = []
    for match, following in zip(stated, [*stated[1:], None], strict=False):
        # The values of a decision may come before it, if there is no other decision.
        block = said if len(stated) == 1 else said[match.end() : following.start() if following else len(said)]
        record = {
            "decision": match.group(1),
            "rationale": _tag("reason", block) or _tag("rationale", block),
            "stance": _tag("stance", block),
            "instruction": _tag("instruction", block),
            "preferences": _xml_preferences(block),
        }
        # Preferences in no list have no end: another one may have been cut off, or an instruction.
        if not re.search(rf"<(?:{'|'.join(_LIST_TAGS)})\b", block, re.I):
            _check_complete(record, ended=not closed)
        made.append(_Stated(record, _word_in(match, 1)))
    return made


def _xml_preferences(block: str) -> list[Any]:
    listed = next(filter(None, (_tag(name, block) for name in _LIST_TAGS)), "")
    given: list[Any] = []
    for attributes, content in _elements("preference", listed or block):
        number, stance, relevant = (
            re.search(rf"""\b(?:{names})\s{{0,3}}=\s{{0,3}}["']?(\w+)""", attributes, re.I)
            for names in ("number|id|index|n", "stance", "relevant")
        )
        plain = line_of(content.split("<")[0])
        given.append(
            {
                "preference": number.group(1) if number else _tag("number", content) or _tag("text", content) or plain,
                "stance": stance.group(1) if stance else _tag("stance", content) or None,
                "relevant": relevant.group(1) if relevant else _tag("relevant", content) or None,
                "instruction": _tag("instruction", content) or (plain if number else ""),
            }
        )
    return given or [line for line in re.sub(r"<[^<>]*>", "\n", listed).splitlines() if line.strip()]


def _elements(name: str, text: str) -> Iterator[tuple[str, str]]:
    """Yield attributes and content of the elements with a name, as far as they are closed."""
    opening, closing = (re.compile(rf"<{slash}{name}\b([^<>]*)>", re.I) for slash in ("", r"/\s{0,3}"))
    begun = opening.search(text)
    while begun is not None and (ended := closing.search(text, begun.end())) is not None:
        yield begun.group(1), html.unescape(text[begun.end() : ended.start()]).strip()
        begun = opening.search(text, ended.end())


def _tag(name: str, text: str) -> str:
    """Return the content of the first pair of these tags; empty if there is none."""
    return next((content for _, content in _elements(name, text)), "")


# plain lines


def _line_stated(said: str, *, alone: bool) -> list[_Stated]:
    """Return what labelled lines state; or, if nothing else was stated, a text that begins with its decision."""
    made = []
    for match in _DECISION_LINE.finditer(said):
        value = match.group(2)
        if decision_of(value) is not None:
            record = _labelled(said) | {"decision": value}
            if alone:
                fenced = _FENCED.fullmatch(said) is not None
                _check_complete(record, ended=_ENDED.search(said) is not None, fenced=fenced)
            made.append(_Stated(record, _word_in(match, 2)))
        elif names_decision(value) or (alone and not match.group(1) and value.strip()):
            raise UnreadableAnswer(f"its decision is {line_of(value)[:40]!r}, neither Keep nor Discard")
    first = _FIRST_WORD.match(said)
    if alone and not made and first:
        made.append(_Stated(_labelled(said) | {"decision": said[first.start(1) :]}, first.span(1)))
    return made


def _first(pattern: re.Pattern[str], said: str) -> str:
    match = pattern.search(said)
    return line_of(match.group(1)) if match else ""


def _labelled(said: str) -> dict[str, Any]:
    given = [
        {"preference": number, "stance": stance or None, "instruction": instruction}
        for number, stance, instruction in _PREFERENCE_LINE.findall(said)
    ]
    return {
        "rationale": _first(_RATIONALE_LINE, said),
        "stance": _first(_STANCE_LINE, said),
        "instruction": _first(_INSTRUCTION_LINE, said),
        "preferences": given or _first(_PREFERENCES_LINE, said),
    }


def _check_complete(record: Record, *, ended: bool, fenced: bool = False) -> None:
    """Raise an error if a Keep in a form without an end may be cut off: it has to say for what, and how it stands."""
    if decision_of(record["decision"]) is not Decision.KEEP or fenced:
        return
    given = record["preferences"]
    entries = [one if isinstance(one, Mapping) else {} for one in given]
    how = all(record["stance"] or one.get("stance") or relevance_of(one) is False for one in entries)
    if not (ended and given and how):
        raise UnreadableAnswer("it is cut off, or does not say what it keeps the chunk for and with which stance")


def _agreed(answers: Sequence[Answer]) -> Answer:
    """Merge several answers with the same decision into one, with the preferences that they list."""
    if len({answer.decision for answer in answers}) > 1:
        raise UnreadableAnswer("it states several decisions that differ")
    relevant: dict[int, Relevant] = {}
    for one in (one for answer in answers for one in answer.relevant):
        if one.index not in relevant or not relevant[one.index].instruction:
            relevant[one.index] = one
    return replace(answers[0], relevant=tuple(relevant.values()))


def _checked(answer: Answer, said: str, *, instructions: bool) -> Answer:
    if answer.decision is not Decision.KEEP:
        return replace(answer, relevant=())
    if "keep" not in said.casefold():
        raise UnreadableAnswer("it keeps without saying Keep")
    if not answer.relevant:
        raise UnreadableAnswer("it keeps the chunk, but for none of the preferences that were listed")
    if instructions and not all(one.instruction for one in answer.relevant):
        raise UnreadableAnswer("it keeps the chunk, but gives no instruction")
    return answer


# words that take a decision back


def _outside(pieces: Sequence[Piece], said: str) -> str:
    """Return the text of an answer outside of its JSON, with all else in place."""
    for piece in pieces:
        if isinstance(piece.value, Mapping) or any(map(stated_in, mappings(piece.value))):
            said = said[: piece.begin] + _gap(piece.end - piece.begin) + said[piece.end :]
    return own_lines(said)


def _says_otherwise(said: str, begin: int, decision: Decision) -> bool:
    """Tell whether the words around a decision, which is stated first at `begin`, state the other one."""
    said = _ANSWER_TAG.sub(lambda tag: _gap(tag.end() - tag.start()), said)
    other = Decision.DISCARD if decision is Decision.KEEP else Decision.KEEP
    found = [
        *_FIRST[other].finditer(said, 0, begin),
        *_EARLIER[other].finditer(said, 0, begin),
        *_LATER[other].finditer(said, begin),
    ]
    return any(not _conditional(said, match.start(match.lastindex or 0)) for match in found)


def _gap(length: int) -> str:
    """Return white space in place of a part of an answer, such that the next part begins a line."""
    return " " * (length - 1) + "\n"


def _conditional(said: str, place: int) -> bool:
    """Tell whether the sentence that leads to a place is conditional."""
    sentence = re.split(r"[.!?\n]", said[max(0, place - _LONGEST_SENTENCE) : place])[-1]
    return _CONDITION.search(sentence) is not None
