"""Public formats of benchmarks, read into histories with questions; nothing of their data is part of this project.

The schemas are those of the benchmarks' own repositories, as of November 2026:

- LongMemEval: github.com/xiaowu0162/LongMemEval, README, "Dataset Format".
- LoCoMo: github.com/snap-research/locomo, data/locomo10.json; and the shape of it that docs/data.md describes.
- LoCoMo-Plus: github.com/xjtuleeyf/Locomo-Plus, data/locomo_plus.json.
- PrefEval: github.com/amazon-science/PrefEval, benchmark_dataset/mcq_options/TOPIC.json; and docs/data.md.
- PersonaMem-v2: github.com/bowen-upenn/PersonaMem-v2, inference.py: benchmark.csv and the files that its column
  `chat_history_32k_link` names, beside it or above.
- MemBench: github.com/import-myself/Membench, README, its data and `data2test`.
- ConvoMem: github.com/SalesforceAIResearch/ConvoMem, EvidenceItem of src/main/scala, files of evidence_questions.
- PERMA: github.com/PolarisLiu1/PERMA, data/tasks/USER and data/evaluation/USER/meta/overall.
- LaMP: github.com/LaMP-Benchmark/LaMP, NAME_questions.json with NAME_outputs.json beside it; LongLaMP:
  huggingface.co/datasets/LongLaMP/LongLaMP, rows of `input`, `output` and `profile` as JSON lines.
"""

from __future__ import annotations

import ast
import csv
import json
import lzma
import random
import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

from epic_eval.journal import read_lines
from epic_memory.errors import InvalidInputError

Message: TypeAlias = dict[str, Any]
Place: TypeAlias = tuple[str, int]
"""A turn: its session's name, and its number there, from 1."""

LOOKED_AT, UNSEEN = "looked at", "unseen"
LOCOMO_LOOKED_AT = ("conv-26", "conv-41", "conv-43", "conv-47", "conv-49")
"""Those of LoCoMo's conversations on which numbers were chosen (docs/data.md)."""


class Session(NamedTuple):
    """A part of a history: messages with `role`, `content` and perhaps `time`."""

    name: str
    messages: Sequence[Message]


class Asked(NamedTuple):
    """A question about a history: what answers it, or what there is to choose from."""

    question: str
    kind: str  # its type, as the benchmark names it
    after: int | None = None  # how many of the sessions come before it; None for all
    sessions: frozenset[str] = frozenset()  # those that answer it, if turns are not named
    turns: frozenset[Place] = frozenset()
    options: Sequence[str] = ()
    right: int = 0
    part: str = UNSEEN
    answer: str = ""  # what the user wrote, where that is compared

    @property
    def evidence(self) -> frozenset[str]:
        """Names of the sessions that answer it."""
        return self.sessions or frozenset(name for name, _ in self.turns)


class History(NamedTuple):
    """Sessions in their order, the questions about them, and preferences that are stated as such."""

    sessions: Sequence[Session]
    asked: Sequence[Asked]
    preferences: tuple[str, ...] = ()


def read(name: str, path: Path) -> Iterator[History]:
    """Read the histories of a benchmark.

    Raises:
        InvalidInputError: for a file that is not there, or is of another shape.
    """
    try:
        yield from READERS[name](path)
    except OSError as error:
        raise InvalidInputError(f"{error.filename or path} cannot be read: {error.strerror}.") from None
    except (ValueError, TypeError, KeyError, IndexError, AttributeError, SyntaxError) as error:
        said = f"{type(error).__name__}: {error}"
        raise InvalidInputError(f"{path} has not the public format of {name} ({said}): docs/benchmarks.md.") from error


def records(path: Path) -> Iterator[Any]:
    """Yield the elements of a JSON list of perhaps gigabytes one by one; it may be compressed by xz."""
    decoder, rest = json.JSONDecoder(), ""
    with lzma.open(path, "rt", encoding="utf-8") if path.suffix == ".xz" else path.open(encoding="utf-8") as file:
        if file.read(1) != "[":
            raise ValueError("no list")
        while more := file.read(1 << 24):
            rest += more
            while rest := rest.lstrip(" \t\r\n,"):
                try:
                    element, end = decoder.raw_decode(rest)
                except ValueError:
                    break
                yield element
                rest = rest[end:]
    if rest.strip() != "]":
        raise ValueError("the list does not end")


def _of_json(path: Path) -> Any:
    return json.loads(path.read_text(encoding="utf-8"))


def _longmemeval(path: Path) -> Iterator[History]:
    for record in records(path):
        sessions = [
            Session(str(name), [{"role": m["role"], "content": m["content"], "time": time} for m in messages])
            for name, time, messages in zip(
                record["haystack_session_ids"], record["haystack_dates"], record["haystack_sessions"], strict=True
            )
        ]
        evidence = frozenset(map(str, record["answer_session_ids"]))
        yield History(sessions, [Asked(record["question"], record["question_type"], sessions=evidence)])


def _locomo(path: Path) -> Iterator[History]:
    for record in records(path):
        by_session: dict[str, list[Message]] = {}
        for turn in record["turns"] if "turns" in record else _locomo_turns(record["conversation"]):
            name, _, _ = turn["id"].partition(":")
            said = {"role": turn["speaker"], "content": turn["text"], "time": turn["time"]}
            by_session.setdefault(name, []).append(said)
        sessions = [Session(name, messages) for name, messages in by_session.items()]
        part = LOOKED_AT if record.get("id", record.get("sample_id")) in LOCOMO_LOOKED_AT else UNSEEN
        asked = []
        for each in record["questions"] if "questions" in record else record["qa"]:
            # A few of its evidences are several ids in one text, or name a turn that is not there.
            named = re.findall(r"D(\d+):(\d+)", " ".join(each.get("evidence") or []))
            places = {(f"D{int(session)}", int(number)) for session, number in named}
            there = frozenset(p for p in places if 0 < p[1] <= len(by_session.get(p[0], ())))
            if there and (kind := _LOCOMO_KINDS.get(each["category"])):
                asked.append(Asked(each["question"], kind, turns=there, part=part))
        yield History(sessions, asked)


_LOCOMO_KINDS = {1: "several facts", 2: "time", 3: "inference", 4: "one fact"}


def _locomo_turns(conversation: dict[str, Any]) -> Iterator[dict[str, Any]]:
    for name in (key for key in conversation if re.fullmatch(r"session_\d+", key)):
        for turn in conversation[name]:
            yield {**turn, "id": turn["dia_id"], "time": conversation[f"{name}_date_time"]}


def _locomo_plus(path: Path) -> Iterator[History]:
    sessions, asked = [], []
    for number, record in enumerate(records(path)):
        lines, name = _lines(record["cue_dialogue"]), f"cue {number}"
        sessions.append(Session(name, [{"role": speaker, "content": text} for speaker, text in lines]))
        places = frozenset((name, place) for place in range(1, len(lines) + 1))
        query = " ".join(text for _, text in _lines(record["trigger_query"]))
        asked.append(Asked(query, str(record["relation_type"]), turns=places))
    yield History(sessions, asked)


def _lines(dialogue: str) -> list[tuple[str, str]]:
    """Return speakers and words of a dialogue, whose lines begin with `A:` or `B:`."""
    parts = re.split(
        r"(?m)^\s*(\w{1,20})\s*:", dialogue if re.match(r"\s*\w{1,20}\s*:", dialogue) else f"A: {dialogue}"
    )
    return [(speaker, text.strip()) for speaker, text in zip(parts[1::2], parts[2::2], strict=True)]


def _prefeval(path: Path) -> Iterator[History]:
    cases = [
        (str(record.get("topic", file.stem)), record)
        for file in _files(path)
        for record in (read_lines(file) if file.suffix == ".jsonl" else records(file))
    ]
    every, draw = list(dict.fromkeys(record["preference"] for _, record in cases)), random.Random(0)
    for topic, record in cases:
        others = [one for one in every if one != record["preference"]]
        persona = [record["preference"], *draw.sample(others, min(9, len(others)))]
        draw.shuffle(persona)
        options = record["options"] if "options" in record else record["classification_task_options"]
        yield History([], [_choice(record["question"], options, topic, part=LOOKED_AT)], tuple(persona))


def _files(path: Path) -> list[Path]:
    return sorted(path.rglob("*.json")) if path.is_dir() else [path]


def _choice(question: str, options: Sequence[str], kind: str, **more: Any) -> Asked:
    """Return a choice, of whose options the first is right, in an order that depends on the question only."""
    shuffled = random.Random(question).sample(options, len(options))
    return Asked(question, kind, options=shuffled, right=shuffled.index(options[0]), **more)


def _personamem(path: Path) -> Iterator[History]:
    with path.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    by_history: dict[str, list[dict[str, str]]] = {}
    for row in rows:
        by_history.setdefault(row["chat_history_32k_link"], []).append(row)
    for link, asking in by_history.items():
        history = _of_json(next((up / link for up in path.parents if (up / link).exists()), path.parent / link))
        messages = history["chat_history"] if isinstance(history, dict) else history
        asked = []
        for row in asking:
            query = ast.literal_eval(row["user_query"])
            question = query["content"] if isinstance(query, dict) else str(query)
            options = [row["correct_answer"], *ast.literal_eval(row["incorrect_answers"])]
            asked.append(_choice(question, options, row["pref_type"]))
        # What the system is told of the user is no part of the conversation.
        yield History([Session(Path(link).stem, [m for m in messages if m["role"] != "system"])], asked)


def _membench(path: Path) -> Iterator[History]:
    for kind, dialogue in _dialogues(_of_json(path)):
        steps, asking = dialogue["message_list"], dialogue["QA"]
        # A list of sessions, or of the steps of one: what both say, or what was seen.
        nested = steps if isinstance(steps[0], list) else [steps]
        said = [[_said(step) for step in each] for each in nested]
        turns: set[Place] = set()
        for named in asking["target_step_id"]:
            place, step = named[:2] if isinstance(named, list) and len(nested) > 1 else (0, named)
            step = step[0] if isinstance(step, list) else step
            before = sum(map(len, said[place][:step]))
            turns |= {(f"session {place}", before + number) for number in range(1, len(said[place][step]) + 1)}
        sessions = [Session(f"session {n}", [m for step in each for m in step]) for n, each in enumerate(said)]
        letters = sorted(asking["choices"])
        options, right = [str(asking["choices"][one]) for one in letters], letters.index(asking["ground_truth"])
        asked = Asked(asking["question"], kind, turns=frozenset(turns), options=options, right=right)
        yield History(sessions, [asked])


def _said(step: Any) -> list[Message]:
    if isinstance(step, str):
        return [{"role": "user", "content": step}]
    both = {"user": ("user", "user_message", "message"), "assistant": ("agent", "assistant", "assistant_message")}
    return [{"role": role, "content": step[key]} for role, keys in both.items() for key in keys if key in step]


def _dialogues(found: Any, kind: str = "") -> Iterator[tuple[str, Any]]:
    """Yield the dialogues, which lie in lists in mappings by category and topic, with their category."""
    if isinstance(found, list):
        yield from ((kind, dialogue) for dialogue in found)
    else:
        for key, inner in found.items():
            yield from _dialogues(inner, kind or key)


def _convomem(path: Path) -> Iterator[History]:
    for file in _files(path):
        found = _of_json(file)
        kind = file.parent.parent.name if file.parent.name.endswith("_evidence") else file.stem
        for item in found["evidence_items"] if isinstance(found, dict) else found:
            named = {message["text"].strip().lower() for message in item["message_evidences"]}
            sessions, turns = [], set()
            for number, conversation in enumerate(item["conversations"]):
                name = str(conversation.get("id") or f"conversation {number}")
                said = [{"role": m["speaker"].lower(), "content": m["text"]} for m in conversation["messages"]]
                turns |= {
                    (name, place) for place, m in enumerate(said, start=1) if m["content"].strip().lower() in named
                }
                sessions.append(Session(name, said))
            yield History(sessions, [Asked(item["question"], kind, turns=frozenset(turns))])


def _perma(path: Path) -> Iterator[History]:
    for user in sorted((path / "tasks").iterdir()):
        topics = _of_json(user / "raw_dialogues_c.json")
        dialogues = {each["task_id"]: each["conversation"] for topic in topics for each in topic["dialogs"]}
        timeline = sorted((each["date"][:10], each["task_id"]) for each in _of_json(user / "interleaved_timeline.json"))
        sessions = [Session(task, [{**said, "time": day} for said in dialogues[task]]) for day, task in timeline]
        asked = []
        for file in sorted((path / "evaluation" / user.name / "meta" / "overall").glob("*.json")):
            task = _of_json(file)
            before = sum(day <= task["question_date"][:10] for day, _ in timeline)
            options = dict(re.findall(r"(?ms)^([A-Z]):\s(.*?)(?=\n[A-Z]:\s|\Z)", task["options"]))
            right, kind = list(options).index(task["gold_label"]), f"{file.stem[:2]}, type {task['task_type']}"
            asked.append(Asked(task["question"], kind, before, options=list(options.values()), right=right))
        yield History(sessions, asked)


def _lamp(path: Path) -> Iterator[History]:
    beside, kind = path.with_name(path.name.replace("questions", "outputs")), path.stem
    golds: dict[str, Any] = {}
    if beside != path:
        known = _of_json(beside)
        golds, kind = {str(gold["id"]): gold["output"] for gold in known["golds"]}, known["task"]
    for row in read_lines(path) if path.suffix == ".jsonl" else records(path):
        answer = str(row["output"] if beside == path else golds[str(row["id"])])
        written = (
            ", ".join(f"{name}: {value}" for name, value in one.items() if name not in ("id", "date"))
            for one in row["profile"]
        )
        sessions = [Session(f"record {n}", [{"role": "user", "content": text}]) for n, text in enumerate(written)]
        yield History(sessions, [Asked(row["input"], kind, answer=answer)])


_ALL = (_longmemeval, _locomo, _locomo_plus, _prefeval, _personamem, _membench, _convomem, _perma, _lamp)
READERS: dict[str, Callable[[Path], Iterator[History]]] = {
    reader.__name__[1:].replace("_", "-"): reader for reader in _ALL
}
