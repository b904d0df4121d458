"""GraphMemory: what happens to a memory while its passages are read."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from epic_memory import Item
from graph_helpers import Marked, made


class Acting(Marked):
    """Does something after it has read."""

    def __init__(self, act: Callable[[], Any]) -> None:
        super().__init__()
        self.act = act

    def answers(self, texts: Sequence[str]) -> Iterator[tuple[int, Any]]:
        yield from super().answers(texts)
        self.act()


def test_the_spelling_of_what_went_while_it_was_read_is_not_written(tmp_path: Path) -> None:
    path = tmp_path / "me.epic"
    with made(path, extractor=Acting(lambda: graph.memory.forget("loud"))) as graph:
        graph.add(
            [Item(id="loud", text="[OSCARREED] drinks red wine"), Item(id="low", text="[OscarReed] and red wine")]
        )
        assert graph.entities() == ["OscarReed"]
    assert b"OSCARREED" not in path.read_bytes()
