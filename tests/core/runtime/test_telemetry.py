"""Telemetry: spans and log lines of building, verifying and searching; they carry counts and never texts."""

from __future__ import annotations

import logging
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from epic_memory import Candidate, EpicMemory
from epic_memory.errors import EpicError, VerifierError
from epic_plugins.tools import memory_tools
from helpers import FakeVerifier, method

AVOIDS = "I avoid hotels with on-site casinos."
ITEMS = ["The Golden Ace is a hotel with an on-site casino.", "Steam engines need water."]
QUESTION = "Which hotel with a casino should Xanthippe book?"

Spans = Callable[[], dict[str, ReadableSpan]]


@pytest.fixture(scope="module")
def exporter() -> InMemorySpanExporter:
    made = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(made))
    trace.set_tracer_provider(provider)
    return made


@pytest.fixture
def spans(exporter: InMemorySpanExporter) -> Spans:
    """Returns the spans that ended so far, by name."""
    exporter.clear()
    return lambda: {span.name: span for span in exporter.get_finished_spans()}


class Quoting(FakeVerifier):
    """A verifier whose error quotes the user."""

    def verdicts(self, candidates: Sequence[Candidate]) -> Iterator[object]:
        raise ValueError(candidates[0].item.text)


@pytest.mark.parametrize("twin", [False, True])
async def test_building_verifying_and_searching_are_spans_with_counts_and_seconds(spans: Spans, twin: bool) -> None:
    with EpicMemory([AVOIDS]) as memory, trace.get_tracer("app").start_as_current_span("app") as app:
        for name, *arguments in (("add", ITEMS), ("search", QUESTION, 3)):
            done = method(memory, name, twin=twin)(*arguments)
            if twin:
                await done
    made = spans()
    build, verify, search = (dict(made[f"epic.{name}"].attributes or {}) for name in ("build", "verify", "search"))

    assert (build["epic.seen"], build["epic.kept"]) == (2, 1)
    assert (verify["epic.candidates"], verify["epic.kept"]) == (build["epic.passed"], 1)
    assert (search["epic.k"], search["epic.hits"]) == (3, 1)
    assert build["epic.seconds.embedding"] > 0 and search["epic.seconds.index"] > 0  # type: ignore[operator]
    assert made["epic.verify"].parent.span_id == made["epic.build"].context.span_id  # type: ignore[union-attr]
    outside = app.get_span_context().span_id
    assert {made[f"epic.{name}"].parent.span_id for name in ("build", "search")} == {outside}  # type: ignore[union-attr]


def test_no_text_of_the_user_is_in_a_span_or_a_log(spans: Spans, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG, "epic_memory"), EpicMemory([AVOIDS]) as memory:
        memory.add(ITEMS)
        memory.search(QUESTION)
        search, remember, *_ = memory_tools(memory, allowed=True)
        remember(text="My sister Xanthippe plays chess.", kind="fact")
        memory.verifier = Quoting()
        report = memory.add(["Another hotel has an on-site casino too."])
        with pytest.raises(EpicError):
            memory.add([5])  # type: ignore[list-item]
    with caplog.at_level(logging.DEBUG, "epic_memory"):
        assert "error" in search(query="Xanthippe")
    everything = caplog.text + "".join(span.to_json() for span in spans().values())

    assert report.undecided == 1
    assert all(word in caplog.text for word in ("build", "verify", "search", "search_memory failed"))
    for word in ("casino", "Golden", "Steam", "hotel", "Xanthippe", "chess"):
        assert word.lower() not in everything.lower()


def test_an_error_leaves_its_type(spans: Spans, caplog: pytest.LogCaptureFixture) -> None:
    def broken() -> Iterator[str]:
        yield ITEMS[0]
        raise VerifierError("Xanthippe")

    with caplog.at_level(logging.DEBUG, "epic_memory"), EpicMemory([AVOIDS]) as memory, pytest.raises(VerifierError):
        memory.add(broken())
    build = spans()["epic.build"]

    assert dict(build.attributes or {})["error.type"] == "VerifierError" and not build.status.is_ok
    assert "ended with VerifierError" in caplog.text and "Xanthippe" not in caplog.text + build.to_json()


@pytest.mark.slow  # a process of its own
def test_the_core_is_silent_by_default_and_does_not_import_opentelemetry() -> None:
    code = (
        "import sys\n"
        "from epic_memory import EpicMemory\n"
        "from epic_plugins.tools import memory_tools\n"
        "memory = EpicMemory(['I like tea.'])\n"
        "tool = memory_tools(memory)[0]\n"
        "memory.close()\n"
        "assert 'error' in tool(query='tea')\n"
        "assert 'opentelemetry' not in sys.modules\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)

    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
