"""Rules of a memory about what it never keeps."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from epic_learn.never import Rules, changing_rules, rules_of, topics_of
from epic_memory.errors import InvalidInputError
from epic_memory.groups.live import Live
from epic_memory.pipeline.session import Session
from epic_memory.runtime.effects import run
from epic_memory.types import checked_text


class MemoryNever(Live[str]):
    """The topics of which nothing is kept: a sequence, and what changes it.

        memory.never.add("my health")
        memory.never.add_folder("notes/private")
        print(list(memory.never), memory.never.counts)

    What comes and has a sentence about such a topic is not kept, neither as an item or a fact nor as a proposal; how
    many there were is counted. What is held already stays: `memory.forget`.
    """

    def __init__(self, session: Session) -> None:
        self._session = session

    def _rules(self) -> Rules:
        with self._session.lock:
            self._session.space()  # sees what another process has changed
            return rules_of(self._session)

    def _read(self) -> list[str]:
        return list(self._rules().topics)

    @property
    def folders(self) -> list[Path]:
        """Folders of which importers, sync and builds read nothing."""
        return [Path(each) for each in self._rules().folders]

    @property
    def counts(self) -> Mapping[str, int]:
        """How many texts each topic kept out so far."""
        return dict(self._rules().counts)

    def topic_of(self, text: str) -> str | None:
        """Return the topic that keeps a text out, or None."""
        rules = self._rules()
        found = run(topics_of(self._session, tuple(rules.topics), [checked_text(text, "The text")]))
        return next(iter(found[0]), None)

    def add(self, topic: str) -> None:
        """Rule a topic out, in a few words such as "my health" or "my sister".

        Raises:
            InvalidInputError: for an empty text, or one that is ruled out already.
        """
        topic = checked_text(topic, "The topic").strip()
        with changing_rules(self._session) as rules:
            if topic in rules.topics:
                raise InvalidInputError(f"{topic!r} is ruled out already.")
            rules.topics.append(topic)

    def add_folder(self, folder: str | Path) -> None:
        """Rule a folder out."""
        path = str(Path(folder).resolve())
        with changing_rules(self._session) as rules:
            rules.folders = list(dict.fromkeys([*rules.folders, path]))

    def remove(self, rule: str | Path) -> None:
        """Lift a rule, given as the topic or the folder.

        Raises:
            InvalidInputError: if there is none like it.
        """
        with changing_rules(self._session) as rules:
            if rule in rules.topics:
                rules.topics.remove(str(rule))
                del rules.counts[str(rule)]
            elif str(Path(rule).resolve()) in rules.folders:
                rules.folders.remove(str(Path(rule).resolve()))
            else:
                raise InvalidInputError(f"{str(rule)!r} is not ruled out. memory.never lists what is.")
