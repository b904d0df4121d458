"""What a memory answers on whole made-up lives: choices, facts, and silence, against dense retrieval.

Each life (`shared/tools/written/everyday_lives`) was written by somebody who saw no code: 14 preferences, 70 notes, and
40 questions. Of 20 *choices* one note suits the user and one goes against a preference that the question does not
mention, both in the question's words; seven *facts* stand in a note, for some of them by its title alone; three more
facts stand in a note that conflicts with a preference; ten everyday prompts are *small talk* that no note answers.
Lives a and b were looked at while this was built, c, d and e were only run.

The columns: `dense` ranks titles and texts. The others are an `EpicMemory` with its default settings:

- `memory`: no model.
- `expansions`: a model reads each preference, and says what it means in practice.
- `verdicts`: the same model also judges what passes the coarse filter, when it is added.
- `asked only`: nothing is judged when it is added; only what questions find.
- `judged`: right verdicts on all pairs, by the life's writer.

The model is replayed: it takes the real prompts, and answers with what a strong language model said of each preference,
and of each note under it (`answers_*.json`, which saw neither questions nor the writer's verdicts). So the figures say
what the memory makes of good answers, and the calls are those that it makes.

The rows, k = 5:

- choices: the note that suits is the first hit; the one that conflicts is.
- facts: the note with the answer is the first hit; three more stand in a note that conflicts, and are not counted.
- silence: prompts of small talk with no hit.
- calls: of the model for each item added, without those that read the preferences; for each question, in an order drawn
  once.
- listed: of choices, the share whose context lists the preference that decides.

With `--held N` each memory holds N preferences: the life's, and others of the other lives and of `answers_*`.
"""

from __future__ import annotations

import json
import random
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from common import Judging, Known, Replayed, encoders, script_options, settled  # puts shared/tools on the path
from epic_memory import EpicMemory, Item
from epic_memory.context import those_that_matter
from epic_memory.encoders import embed
from epic_memory.encoders.base import Encoder
from epic_memory.lm.base import Schema
from epic_memory.lm.prompting import one_line, quoted
from epic_memory.preferences.parser import parse_aspects
from epic_memory.types import Alignment, Candidate, Decision, Preference, Stance, Verdict
from fitting import WRITTEN, preference_digest, written, written_expansions

LIVES = WRITTEN / "everyday_lives"
LOOKED_AT = ("a", "b")
K = 5


class Life(NamedTuple):
    """A made-up life.

    Attributes:
        verdicts: The writer's, by the note's text and the preference's id.
        readings: What a model says of each preference, by its text.
        judged: What a model says of the notes, by the note's id and the preference's text.
    """

    name: str
    preferences: list[str]
    items: list[Item]
    verdicts: dict[tuple[str, str], Alignment]
    questions: list[dict[str, Any]]
    readings: dict[str, dict[str, Any]]
    judged: dict[tuple[str, str], dict[str, Any]]


def life(name: str) -> Life:
    record = json.loads((LIVES / f"{name}.json").read_text(encoding="utf-8"))
    answers = json.loads((LIVES / f"answers_{name}.json").read_text(encoding="utf-8"))
    preferences = record["preferences"]
    texts = {note["id"]: note["text"] for note in record["notes"]}
    return Life(
        name=name,
        preferences=preferences,
        items=[
            Item(id=note["id"], text=note["text"], metadata={"title": note["title"]} if note.get("title") else {})
            for note in record["notes"]
        ],
        verdicts={
            (texts[one["note"]], preference.id): Alignment(
                preference_id=preference.id,
                instruction=one["instruction"],
                stance=Stance(one["stance"]),
                confidence=0.95,
            )
            for one in record["verdicts"]
            for preference in [Preference(text=preferences[one["preference"]])]
        },
        questions=record["questions"],
        readings=dict(zip(preferences, answers["preferences"], strict=True)),
        judged={(one["note"], preferences[one["preference"]]): one for one in answers["verdicts"]},
    )


def with_others(one: Life, count: int) -> Life:
    """Return a life with other people's preferences beside its own, `count` in all, in an order drawn once."""
    more: dict[str, dict[str, Any]] = {}
    for path in sorted(LIVES.glob("?.json")):
        if path.stem != one.name:
            more |= life(path.stem).readings
    known = written_expansions()
    for folder in ("answers_a", "answers_b"):
        for case in written(f"{folder}/choices.jsonl"):
            if (expansion := known.get(preference_digest(case["preference"]))) is not None:
                # Of these the model wrote no aspects, so that they are the parser's.
                aspects = parse_aspects(case["preference"])
                more[case["preference"]] = {"liked": aspects.liked, "avoided": aspects.avoided} | expansion.as_json()
    others = [text for text in more if text not in one.readings]
    draw = random.Random(0)
    chosen = [*one.preferences, *draw.sample(others, count - len(one.preferences))]
    draw.shuffle(chosen)
    questions = [
        asked | {"preference": chosen.index(one.preferences[asked["preference"]])} if "preference" in asked else asked
        for asked in one.questions
    ]
    readings = one.readings | {text: more[text] for text in chosen if text in more}
    return one._replace(preferences=chosen, questions=questions, readings=readings)


class ReplayedModel(Replayed):
    """A language model that answers each prompt with what a strong model said.

    What it is asked is told by the form of answer that is wanted, by the preferences and notes that stand in the
    prompt, and by their order; not by the prompt's words.
    """

    def __init__(self, one: Life) -> None:
        super().__init__()
        self.life = one

    def answer(self, prompt: str, schema: Schema | None) -> dict[str, Any]:
        assert schema is not None
        wanted = schema["properties"]
        preferences = standing_in(prompt, {text: one_line(text) for text in self.life.preferences})
        if "liked" in wanted:
            (preference,) = preferences
            return self.life.readings[preference]
        notes = standing_in(prompt, {item.id: quoted(item.content) for item in self.life.items})
        if "answers" not in wanted:
            (note,) = notes
            return self.judgement(note, preferences)
        answers = [{"chunk": number} | self.judgement(note, preferences) for number, note in enumerate(notes, start=1)]
        return {"answers": answers}

    def judgement(self, note: str, preferences: Sequence[str]) -> dict[str, Any]:
        said = {
            number: self.life.judged[note, preference]
            for number, preference in enumerate(preferences, start=1)
            if (note, preference) in self.life.judged
        }
        relevant = [
            {"preference": number, "stance": one["stance"], "instruction": one["instruction"]}
            for number, one in said.items()
        ]
        evidence = "; ".join(one["evidence"] for one in said.values()) or "nothing in it"
        return {"decision": "Keep" if said else "Discard", "rationale": evidence, "preferences": relevant}


def standing_in(prompt: str, written_as: dict[str, str]) -> list[str]:
    """Return the keys of the texts that stand in a prompt, in its order."""
    places = {key: prompt.find(text) for key, text in written_as.items()}
    return sorted((key for key, place in places.items() if place >= 0), key=places.__getitem__)


class Replay(Judging):
    """A verifier that gives the verdicts of a life's writer."""

    name = "replay"

    def __init__(self, verdicts: dict[tuple[str, str], Alignment]) -> None:
        self.verdicts = verdicts

    def verdict(self, candidate: Candidate) -> Verdict:
        pairs = [(candidate.item.text, preference.id) for preference in candidate.preferences]
        alignments = tuple(self.verdicts[pair] for pair in pairs if pair in self.verdicts)
        decision = Decision.KEEP if alignments else Decision.DISCARD
        return Verdict(decision=decision, rationale="as judged by the writer", alignments=alignments, confidence=0.95)


def titled(item: Item) -> str:
    title = item.metadata.get("title")
    return f"{title}\n{item.text}" if title else item.text


class Way(NamedTuple):
    """A way to find notes: their ids, best first; of a memory also the memory itself, and its model."""

    find: Callable[[str], list[str]]
    memory: EpicMemory | None = None
    model: ReplayedModel | None = None
    calls_adding: int = 0


def dense(one: Life, encoder: Encoder) -> Way:
    vectors = embed(encoder, [titled(item) for item in one.items])

    def find(question: str) -> list[str]:
        order = np.argsort(-(vectors @ embed(encoder, [question])[0]), kind="stable")[:K]
        return [one.items[row].id for row in order]

    return Way(find)


def held(one: Life, encoder: Encoder, model: ReplayedModel | None = None, **options: Any) -> Way:
    """Make a memory of a life with some options, and add the notes."""
    memory = EpicMemory(one.preferences, encoder=encoder, **settled(**options))
    read = model.calls if model is not None else 0
    memory.add(one.items)
    added = model.calls - read if model is not None else 0
    return Way(lambda question: [hit.item.id for hit in memory.search(question, K)], memory, model, added)


def expansions(one: Life, encoder: Encoder) -> Way:
    model = ReplayedModel(one)
    return held(one, encoder, model, expander=model)


def verdicts(one: Life, encoder: Encoder, **options: Any) -> Way:
    model = ReplayedModel(one)
    return held(one, encoder, model, llm=model, **{"on_demand": "off"} | options)


def judged(one: Life, encoder: Encoder) -> Way:
    return held(one, encoder, verifier=Replay(one.verdicts), tau=-1.0)


WAYS: dict[str, Callable[[Life, Encoder], Way]] = {
    "dense": dense,
    "memory": held,
    "expansions": expansions,
    "verdicts": verdicts,
    "asked only": lambda one, encoder: verdicts(one, encoder, on_demand="60 s", tau=1.0),
    "judged": judged,
}

ROWS = ("choices", "suits first", "conflicts first", "facts", "fact first", "small talk", "silent")


@dataclass
class Counts:
    """What a way answers: counts by the names of the rows, and what calls and contexts come to."""

    rows: dict[str, int] = field(default_factory=lambda: dict.fromkeys(ROWS, 0))
    items: int = 0
    calls_adding: int = 0
    calls: list[int] = field(default_factory=list)
    listed_right: list[bool] = field(default_factory=list)

    def add(self, one: Life, way: Way) -> None:
        """Ask all questions of a life, in an order drawn once."""
        self.items += len(one.items)
        self.calls_adding += way.calls_adding
        for asked in random.Random(0).sample(one.questions, len(one.questions)):
            before = 0 if way.model is None else way.model.calls
            found = way.find(asked["question"])
            self.calls.append(0 if way.model is None else way.model.calls - before)
            self.count(asked, found)
            if way.memory is not None and asked["kind"] == "choice":
                matters = those_that_matter(way.memory.search(asked["question"], K).matters)
                self.listed_right.append(one.preferences[asked["preference"]] in [each.text for each in matters])

    def count(self, asked: dict[str, Any], found: list[str]) -> None:
        rows = self.rows
        if asked["kind"] == "small_talk":
            rows["small talk"] += 1
            rows["silent"] += not found
        elif asked["kind"] == "choice":
            rows["choices"] += 1
            rows["suits first"] += found[:1] == [asked["suits"]]
            rows["conflicts first"] += found[:1] == [asked["conflicts"]]
        elif not asked.get("about_conflict", False):
            rows["facts"] += 1
            rows["fact first"] += bool(set(asked["answer"]) & set(found[:1]))

    def shares(self) -> dict[str, str]:
        """Return what calls and contexts come to, by the names of the rows."""
        if not self.listed_right:
            return {}
        return {
            "calls an item added": f"{self.calls_adding / self.items:.2f}",
            "calls a question": f"{np.mean(self.calls):.2f}",
            "choices: right one listed": f"{np.mean(self.listed_right):.2f}",
        }


def print_lives(lives: Sequence[Life], encoder: Encoder, ways: Sequence[str]) -> None:
    started = time.perf_counter()
    preferences = max(len(one.preferences) for one in lives)
    print(f"\n{encoder.name}: lives {', '.join(one.name for one in lives)}, {preferences} preferences each")
    columns: dict[str, Counts] = {}
    for name in ways:
        columns[name] = Counts()
        for one in lives:
            way = WAYS[name](one, encoder)
            columns[name].add(one, way)
            if way.memory is not None:
                way.memory.close()
    print(f"{'':28}" + "".join(f"{name:>14}" for name in ways))
    for row in ROWS:
        print(f"{row:28}" + "".join(f"{columns[name].rows[row]:>14}" for name in ways))
    shares = {name: counts.shares() for name, counts in columns.items()}
    for row in next((each for each in shares.values() if each), {}):
        print(f"{row:28}" + "".join(f"{shares[name].get(row, ''):>14}" for name in ways))
    print(f"{time.perf_counter() - started:.0f} s", flush=True)


def main() -> None:
    options = script_options(__doc__, encoders=True, lives=["a", "b", "c", "d", "e"], ways=list(WAYS), held=int)
    lives = [life(name) for name in options.lives]
    if options.held:
        lives = [with_others(one, options.held) for one in lives]
    for encoder in map(Known, encoders(options)):
        for looked_at in (True, False):
            some = [one for one in lives if (one.name in LOOKED_AT) == looked_at]
            if some:
                print_lives(some, encoder, options.ways)


if __name__ == "__main__":
    main()
