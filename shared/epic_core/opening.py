"""What happens when a memory is made, and when a file is opened again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from epic_core.encoders.base import embed
from epic_core.errors import EncoderMismatchError, InvalidInputError, PreferencesMismatchError, StoreError
from epic_core.fallback import SecondTier
from epic_core.maintenance import described
from epic_core.types import Preference

if TYPE_CHECKING:
    from epic_core.memory import EpicMemory


def found(memory: EpicMemory, preferences: Sequence[Preference]) -> None:
    """Write what a new memory, or a new namespace of one, starts with."""
    vectors = embed(memory.encoder, [preference.text for preference in preferences])
    with memory._store.transaction():
        if "encoder" not in memory._store.meta():
            memory._store.set_meta(encoder=described(memory.encoder))
        for preference, vector in zip(preferences, vectors, strict=True):
            memory._store.add_preference(memory.namespace, preference, vector)
        memory._store.set_meta(**_settings(memory))


def take_up(memory: EpicMemory, given: list[Preference] | None, *, sync: bool, reencode: bool) -> None:
    """Bring a memory and the file it was opened on together.

    Raises:
        EncoderMismatchError: if the file was made with another encoder, and `reencode` is off.
        PreferencesMismatchError: if it holds other preferences, and `sync` is off.
    """
    meta = memory._store.meta()
    if "encoder" not in meta:
        check_second_tier(memory)
        found(memory, given or [])
        return
    if reencode and _other_encoder(memory):
        asked = memory._tau
        memory.reencode(memory.encoder)
        memory._tau = asked
        meta = memory._store.meta()
    check_encoder(memory)
    tau, second_tier = (meta.get(f"{name}/{memory.namespace}") for name in ("tau", "second_tier"))
    if memory._tau is None and tau is not None:
        memory._tau = float(tau)
    check_second_tier(memory)
    if memory.fallback is None and second_tier is not None:
        # Not checked: after `reencode` it may lie above the new encoder's tau, and its items are still searched.
        memory.fallback = SecondTier(tau=float(second_tier))
    settings = _settings(memory)
    if any(meta.get(key) != value for key, value in settings.items()):
        with memory._store.transaction():
            memory._store.set_meta(**settings)
    if given is None:
        return
    if memory.namespace not in memory._store.namespaces():
        found(memory, given)
    else:
        _reconcile(memory, given, sync=sync)


def check_second_tier(memory: EpicMemory) -> None:
    """Refuse a second tier that nothing could be in.

    Raises:
        InvalidInputError: if its tau is not below the coarse filter's.
    """
    second = memory.fallback
    resolved = memory.keep_rate is None or memory._tau is not None
    if isinstance(second, SecondTier) and resolved and second.tau >= memory.tau:
        raise InvalidInputError(
            f"The second tier's tau {second.tau} must be below the coarse filter's, {memory.tau:.3f}."
        )


def check_encoder(memory: EpicMemory) -> None:
    """Refuse a file that was embedded by another encoder.

    Raises:
        EncoderMismatchError: if it was.
    """
    other = _other_encoder(memory)
    if other:
        raise EncoderMismatchError(
            f"{memory.path} was made with the encoder {_named(other)}, and is opened with"
            f" {_named(described(memory.encoder))}. Open it with that encoder, or embed it anew with this one:"
            " EpicMemory.open(path, reencode=True), or `epic reencode`."
        )


def _other_encoder(memory: EpicMemory) -> dict[str, Any] | None:
    """The encoder a file was made with, if it is another than the memory's."""
    made = memory._store.meta().get("encoder")
    if not isinstance(made, dict) or not {"name", "dimension", "fingerprint"} <= made.keys():
        raise StoreError(f"{memory.path} is damaged: it does not say which encoder it was made with.")
    return None if made == described(memory.encoder) else made


def _settings(memory: EpicMemory) -> dict[str, Any]:
    """What the file remembers of how a namespace is filtered."""
    settings: dict[str, Any] = {}
    if memory._tau is not None:
        settings[f"tau/{memory.namespace}"] = memory._tau
    if isinstance(memory.fallback, SecondTier):
        settings[f"second_tier/{memory.namespace}"] = memory.fallback.tau
    return settings


def _reconcile(memory: EpicMemory, given: list[Preference], *, sync: bool) -> None:
    held = {preference.id: preference for preference in memory.preferences}
    wanted = {preference.id: preference for preference in given}
    missing = [preference for key, preference in held.items() if key not in wanted]
    added = [preference for key, preference in wanted.items() if key not in held]
    if not sync and (missing or added):
        lines = [f"  only in the file: {p}" for p in missing] + [f"  only given: {p}" for p in added]
        raise PreferencesMismatchError(
            f"{memory.path} holds other preferences than those given:\n" + "\n".join(lines) + "\n"
            "Leave preferences out to use the file's, or open it with sync=True (`epic build --sync`) to change them."
        )
    for preference in added:
        memory.add_preference(preference)
    for preference in missing:
        memory.remove_preference(preference)
    if not sync or [preference.id for preference in memory.preferences] == list(wanted):
        return
    with memory._lock, memory._store.transaction():
        memory._spaces.clear()
        for position, preference in enumerate(given):
            memory._store.move_preference(memory.namespace, preference.id, position)


def _named(encoder: Mapping[str, Any]) -> str:
    return f"{encoder['name']} ({encoder['dimension']} dimensions, fingerprint {str(encoder['fingerprint'])[:8]})"
