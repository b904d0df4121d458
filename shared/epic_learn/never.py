"""Topics that the user has ruled out: what is about one of them is counted, and not kept.

Some are parts of a life, such as health or money, that a sentence can be about without naming them: "I can't have
penicillin" shares no word with "my health". A logistic regression of each on the bundled encoder's embedding knows what
people write about it, whatever encoder a memory uses. `shared/tools/fit_sensitive.py` fitted it on sentences by people
who saw no code, and says how it does on those of another.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import lru_cache
from importlib.resources import files
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from epic_memory.encoders.base import Embed, default_tau
from epic_memory.encoders.static import default_encoder
from epic_memory.errors import decoding
from epic_memory.pipeline.session import Session
from epic_memory.runtime.effects import Effects
from epic_memory.text.chunking import sentences
from epic_memory.text.language import ENGLISH, language_of
from epic_memory.text.stems import content_stems
from epic_memory.types import FloatArray
from epic_memory.types.weights import StageWeights


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
    with decoding(session.store.path):
        return Rules.of(session.rules())


@contextmanager
def changing_rules(session: Session) -> Iterator[Rules]:
    """Yield the rules as they are now in the file, and write what becomes of them."""
    session.store.check_writable()
    with session.lock, session.store.transaction():
        session.never = None  # others may have changed them; should writing fail, they are read again
        rules = rules_of(session)
        yield rules
        stored = {"topics": rules.topics, "folders": rules.folders, "counts": dict(rules.counts)}
        session.never = None
        session.store.set_meta(**{session.rules_key: stored if rules.topics or rules.folders else None})


def ruled_out(session: Session, texts: Sequence[str]) -> Effects[list[bool]]:
    """Tell for each text whether it is about a topic that is ruled out, and count those that are."""
    with session.lock:
        topics = tuple(rules_of(session).topics)
    about = yield from topics_of(session, topics, texts)
    if any(about):
        with changing_rules(session) as rules:
            rules.counts.update(topic for found in about for topic in found if topic in rules.topics)
    return list(map(bool, about))


def topics_of(session: Session, topics: Sequence[str], texts: Sequence[str]) -> Effects[list[list[str]]]:
    """Return for each text the topics that one of its sentences is about.

    A sentence is about a topic if it has all of its words, is as near to it as to a preference that may matter, or is
    about a part of life that the topic names.
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


@dataclass(frozen=True, kw_only=True)
class SensitiveWeights(StageWeights):
    """Threshold of what is about a sensitive topic."""

    about: float  # chance from which a sentence is about a topic


class _Model(NamedTuple):
    names: tuple[frozenset[str], ...]
    fillers: frozenset[str]
    embedding: FloatArray
    bias: FloatArray


@lru_cache(maxsize=1)
def _model() -> _Model:
    shipped = json.loads((files("epic_learn") / "data" / "sensitive.json").read_text(encoding="utf-8"))
    return _Model(
        names=tuple(frozenset(content_stems(words)) for words in shipped["topics"].values()),
        fillers=frozenset(content_stems(shipped["fillers"])),
        embedding=np.array(shipped["embedding"], dtype=np.float32) / 100.0,
        bias=np.array(shipped["bias"], dtype=np.float32),
    )


def sensitive_topics(rule: str) -> list[int]:
    """Return the numbers of the sensitive topics that a rule such as "my health" names, if it names nothing else."""
    model = _model()
    words = set(content_stems(rule)) - model.fillers
    if not words <= frozenset().union(*model.names):
        return []
    return [number for number, names in enumerate(model.names) if words & names]


def about_topics(vectors: FloatArray) -> NDArray[np.bool_]:
    """Tell what sentences with embeddings `(n, d)` by the bundled encoder are about, shape `(n, topics)`."""
    model, least = _model(), SensitiveWeights.shipped().about
    about: NDArray[np.bool_] = vectors @ model.embedding + model.bias >= np.log(least / (1.0 - least))
    return about
