"""Tags in a memory: written to the metadata of what comes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from epic_memory.pipeline.session import Session
from epic_memory.runtime.effects import Call, Effects
from epic_memory.text.tagging import PREFIX, Tagger, Tags, tag_metadata
from epic_memory.types import BuildReport, Item


def tagged(session: Session, tagger: Tagger, items: Sequence[Item], report: BuildReport) -> Effects[list[Item]]:
    """Return items with their tags as metadata; what is held with the same text keeps those it has."""
    with session.lock, session.store.reading():
        store, namespace = session.store, session.namespace
        rows = [store.items.row(namespace, item.id) for item in items]
        held = store.items.at([row for row in rows if row is not None])
    known = {
        item.id: (item.text, {key: value for key, value in item.metadata.items() if key.startswith(PREFIX)})
        for item in held.values()
    }
    fresh = [item for item in items if not known.get(item.id, ("", {}))[1] or known[item.id][0] != item.text]
    answers: list[Tags | None] = yield Call(tagger.tag, tagger.atag, [item.text for item in fresh], part="tags")
    if (without := sum(tags is None for tags in answers)) > 0:
        report.warnings.append(f"{without} items have no tags: {tagger.name} failed. Add them again.")
    tags_of = {key: tags for key, (_, tags) in known.items()}
    tags_of |= {item.id: tag_metadata(tags or {}) for item, tags in zip(fresh, answers, strict=True)}
    return [replace(item, metadata={**tags, **item.metadata}) if (tags := tags_of[item.id]) else item for item in items]
