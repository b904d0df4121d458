"""Topics that the user has ruled out: what is about one of them is counted, and not kept."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from epic_memory.encoders.base import Embed, default_tau
from epic_memory.encoders.static import default_encoder
from epic_memory.errors import decoding
from epic_memory.pipeline.sensitive import about_topics, sensitive_topics
from epic_memory.pipeline.session import Session
from epic_memory.runtime.effects import Effects
from epic_memory.text.chunking import sentences
from epic_memory.text.language import ENGLISH, language_of
from epic_memory.text.stems import content_stems
from epic_memory.types import FloatArray


@dataclass
class Rules:
    """Rules about what is never kept.

    Attributes:
        topics: Topics, such as "my health".
        folders: Folders from which programs read nothing, with absolute paths.
        counts: How many texts each topic kept out so far.
    """

    topics: list[str] = field(default_factory=list)
    folders: list[str] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)

    @classmethod
    def of(cls, stored: Any) -> Rules:
        """Return rules from what is stored of them, or none for None; anything else is a ValueError."""
        read = {"topics": [], "folders": [], "counts": {}, **(stored or {})}
        texts = [*read["topics"], *read["folders"], *read["counts"]]
        if not all(isinstance(text, str) and text for text in texts):
            raise ValueError("a rule about what is never kept is no text")
        counts = Counter({topic: int(count) for topic, count in read["counts"].items()})
        return cls(list(read["topics"]), list(read["folders"]), counts)


def rules_of(session: Session) -> Rules:
    """Return the rules of the session's namespace. Call it under the lock."""
    if session.never is None:
        with decoding(session.store.path):
            session.never = Rules.of(session.store.meta_of(_key(session)))
    rules: Rules = session.never
    return rules


def write_rules(session: Session, rules: Rules) -> None:
    """Write the rules into the file."""
    # Should writing fail, they are read again from the file.
    session.never = None
    session.store.check_writable()
    with session.lock, session.store.transaction():
        _put(session, rules)
    session.never = rules


def _put(session: Session, rules: Rules) -> None:
    stored = {"topics": rules.topics, "folders": rules.folders, "counts": dict(rules.counts)}
    session.store.set_meta(**{_key(session): stored if rules.topics or rules.folders else None})


def ruled_out(session: Session, texts: Sequence[str]) -> Effects[list[bool]]:
    """Tell for each text whether it is about a topic that is ruled out, and count those that are."""
    with session.lock:
        topics = tuple(rules_of(session).topics)
    about = yield from topics_of(session, topics, texts)
    if any(about):
        session.store.check_writable()
        with session.lock, session.store.transaction():
            # As they are now: others may have changed them while the texts were embedded.
            session.never = None
            rules = rules_of(session)
            rules.counts.update(topic for found in about for topic in found if topic in rules.topics)
            _put(session, rules)
    return list(map(bool, about))


def topics_of(session: Session, topics: Sequence[str], texts: Sequence[str]) -> Effects[list[list[str]]]:
    """Return for each text the topics that one of its sentences is about.

    A sentence is about a topic if it has all of its words, is as near to it as to a preference that may matter, or is
    about a part of life that the topic names (`sensitive`).
    """
    if not topics or not texts:
        return [[] for _ in texts]
    encoder = session.encoder
    said = [sentences(text) or [text] for text in texts]
    flat = [sentence for several in said for sentence in several]
    vectors: FloatArray = yield Embed(encoder, [*topics, *flat], "embedding")
    count = len(topics)
    near = np.asarray(vectors[count:] @ vectors[:count].T >= default_tau(encoder))
    words = [set(content_stems(topic)) for topic in topics]
    for row, sentence in enumerate(flat):
        stems = set(content_stems(sentence))
        near[row] |= [bool(topic) and topic <= stems for topic in words]
    sensitive = [sensitive_topics(topic) for topic in topics]
    if any(sensitive):
        bundled = default_encoder()
        known = vectors[count:] if encoder.fingerprint == bundled.fingerprint else None
        about_life = about_topics((yield Embed(bundled, flat, "embedding")) if known is None else known)
        for row in np.flatnonzero(about_life.any(axis=1)).tolist():
            about_life[row] &= language_of(flat[row]) in (None, ENGLISH)  # it knows English
        near |= np.stack([about_life[:, numbers].any(axis=1) for numbers in sensitive], axis=1)
    ends = np.cumsum([len(several) for several in said])
    about = [np.flatnonzero(part.any(axis=0)) for part in np.split(near, ends[:-1])]
    return [[topics[place] for place in found.tolist()] for found in about]


def _key(session: Session) -> str:
    return f"never/{session.namespace}"
