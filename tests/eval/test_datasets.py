"""Datasets: what is read, what is sampled, and what is refused."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from command_line import Epic, jsonl
from epic_eval.datasets import read_cases, read_data, read_dataset, read_passages
from epic_eval.journal import read_lines
from epic_memory import Item
from epic_memory.errors import InvalidInputError
from evaluation_data import OPTIONS, QUIET, VEGAN, tiny_data

SETS = ("PrefWiki", "PrefRQ")


def test_a_folder_is_read_whole(tmp_path: Path) -> None:
    data = read_data(tiny_data(tmp_path / "data"), sets=SETS)
    assert [dataset.name for dataset in data.datasets] == list(SETS)
    first = data.datasets[0].personas[0]
    assert len(first.preferences) == len(first.questions) == 3
    ids = {item.id for item in data.corpus}
    assert all(Item(text=option).id in ids for options in OPTIONS.values() for option in options)
    assert [data.labels[QUIET][item] for item in data.labels[QUIET]] == ["supports"]
    assert list(data.labels[VEGAN].values()) == ["", ""]
    # The document that the labelled chunk was cut from does not come a second time.
    assert data.documents == 23


def test_the_sample_and_its_order_depend_on_the_seed_alone(tmp_path: Path) -> None:
    folder = tiny_data(tmp_path / "data")
    one, again, other = (read_data(folder, sets=SETS, passages=5, seed=seed).corpus for seed in (1, 1, 2))
    assert one == again != other
    assert len(one) == len(other) == 5 + 8 + 3


@pytest.mark.slow
def test_the_corpus_is_the_same_in_every_process(tmp_path: Path) -> None:
    folder = tiny_data(tmp_path / "data")
    code = (
        "import sys; from epic_eval import read_data\n"
        f"print([item.id for item in read_data({str(folder)!r}, sets=('PrefWiki', 'PrefRQ')).corpus])"
    )
    made = {
        subprocess.run(
            [sys.executable, "-c", code], env={**os.environ, "PYTHONHASHSEED": seed}, capture_output=True, check=True
        ).stdout
        for seed in "1234"
    }
    assert len(made) == 1


def test_only_the_first_personas_and_questions(tmp_path: Path) -> None:
    path = tiny_data(tmp_path / "data", personas=4) / "personas" / "PrefRQ.json"
    assert [persona.index for persona in read_dataset(path, personas=2).personas] == [0, 1]
    assert read_dataset(path, questions=0).personas[0].questions == ()


def test_passages_are_cut_into_chunks_of_whole_sentences(tmp_path: Path) -> None:
    text = " ".join(f"Sentence {n} has exactly seven words here." for n in range(40))
    path = jsonl(tmp_path / "passages.jsonl", {"id": "a", "title": "Title", "text": text}, {"text": "Short."})
    chunks = list(read_passages(path))
    assert [name for name, _ in chunks][-1] == "passages-1"
    assert chunks[0][1].startswith("Title. Sentence 0")
    assert all(chunk.endswith(".") for _, chunk in chunks)


@pytest.mark.parametrize(
    "content", ["[{", '{"a": 1}', '[{"persona_index": 0}]', '[{"persona_index": 0, "preference_blocks": [{}]}]']
)
def test_a_file_of_another_form_is_refused(tmp_path: Path, content: str) -> None:
    path = tmp_path / "set.json"
    path.write_text(content, encoding="utf-8")
    with pytest.raises(InvalidInputError, match=r"set\.json"):
        read_dataset(path)


def test_missing_files_and_odd_lines_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidInputError, match="no folder"):
        read_data(tmp_path / "nowhere")
    with pytest.raises(InvalidInputError, match="cannot be read"):
        read_dataset(tmp_path / "nowhere.json")
    with pytest.raises(InvalidInputError, match="two options"):
        read_cases(jsonl(tmp_path / "mcq.jsonl", {"preference": "a", "question": "b", "options": ["c"]}))


def test_a_corpus_is_drawn_by_its_seed_and_long_turns_are_cut(tmp_path: Path, epic: Epic) -> None:
    made, drawn = tmp_path / "wiki_passages.jsonl", []
    dump = jsonl(tmp_path / "wiki_00", *({"id": f"{n}", "title": "T", "text": f"Text {n}."} for n in range(30)))
    for seed in ("0", "0", "1"):
        given = ("eval", "make-corpus", "wikipedia", str(made), str(dump), "--count", "6", "--seed", seed)
        assert epic(*given).code == 0
        drawn.append([record["id"] for record in read_lines(made)])
    assert drawn[0] == drawn[1] != drawn[2] and len(set(drawn[0])) == 6
    long = {"role": "user", "content": "A sentence of seven words it is. " * 40}
    chats = jsonl(tmp_path / "chats.jsonl", {"conversation_id": "b", "conversation": [long]})
    assert epic("eval", "make-corpus", "lmsys", str(made), str(chats)).code == 0
    texts = [record["text"] for record in read_lines(made)]
    assert len(texts) > 1 and all(len(text.split()) < 200 for text in texts)
    assert [text for _, text in read_passages(made)] == texts
