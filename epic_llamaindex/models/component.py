"""Base of the LlamaIndex components that judge by preferences: their settings, serialisation and copies."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from typing import Any

from llama_index.core.schema import BaseComponent
from pydantic import ConfigDict, Field, PrivateAttr, ValidationError, field_serializer, field_validator
from typing_extensions import Self, override

from epic_memory import BuildReport, EpicMemory, Preference
from epic_memory.encoders import Encoder
from epic_memory.errors import InvalidInputError
from epic_memory.runtime.batching import unique_preferences
from epic_memory.verification import Verifier
from epic_plugins.copies import CopiedModel
from epic_plugins.judging_memory import Prepared

# The models that `from_dict` compares by name; their other settings may change with an update of an integration.
_NAMED = ("encoder", "embed_model", "verifier")


class JudgingComponent(CopiedModel, BaseComponent):
    """A component with preferences and models. Settings are checked together; models are stored by name."""

    # hide_input_in_errors: a model may hold a key.
    model_config = ConfigDict(
        extra="forbid", arbitrary_types_allowed=True, validate_assignment=True, hide_input_in_errors=True
    )

    # A list once validated; a Sequence, so that type checkers accept a list of texts.
    preferences: Sequence[str | Preference] = Field(default_factory=list)

    _encoder: Encoder = PrivateAttr()
    _verifier: Verifier = PrivateAttr()
    _prepared: Prepared = PrivateAttr(default_factory=Prepared)
    _report: BuildReport = PrivateAttr(default_factory=BuildReport)

    @field_validator("preferences", mode="before")
    @classmethod
    def _listed(cls, preferences: object) -> object:
        if isinstance(preferences, (str, Preference)):
            return [preferences]
        return list(preferences) if isinstance(preferences, (tuple, Set)) else preferences

    @field_serializer("preferences")
    def _plain(self, preferences: Sequence[str | Preference]) -> list[Any]:
        return [Preference.of(preference).as_json() for preference in preferences]

    def _memory_with(
        self, *, tau: float | None, keep_rate: float | None = None, coarse: bool = True, fine: bool = True
    ) -> EpicMemory:
        """Return the memory that judges by the present preferences; the first time, an encoder may ask a server."""
        return self._prepared.memory(
            unique_preferences(self.preferences),
            encoder=self._encoder,
            verifier=self._verifier,
            tau=tau,
            keep_rate=keep_rate,
            coarse=coarse,
            fine=fine,
        )

    @override
    def __setattr__(self, name: str, value: Any) -> None:
        before = self.__dict__.get(name)
        try:
            super().__setattr__(name, value)
        except ValidationError:
            # pydantic assigns the value before the validator checks all settings together.
            if name in self.__dict__:
                self.__dict__[name] = before
            raise

    @classmethod
    @override
    def from_dict(cls, data: dict[str, Any], **kwargs: Any) -> Self:
        """Make a component from the output of `to_dict`.

        Models are stored by name only: give them again as `llm=`, `embed_model=` or `memory=`.

        Raises:
            InvalidInputError: if they are not the models it was stored with.
        """
        stored = data.get("models") or {}
        made = super().from_dict({name: value for name, value in data.items() if name != "models"}, **kwargs)
        own: Mapping[str, Any] = made.models  # type: ignore[attr-defined]
        others = [f"{name} {stored[name]!r}" for name in _NAMED if name in stored and stored[name] != own.get(name)]
        if others:
            raise InvalidInputError(
                f"It was stored with {' and '.join(others)}. Give the same: from_dict(data, llm=..., embed_model=...)."
            )
        return made

    @override
    def model_copy(self, *, update: Mapping[str, Any] | None = None, deep: bool = False) -> Self:
        """Return a component with some settings changed, which are checked; cached verdicts are not shared."""
        return type(self)(**{**self._fields(), **(update or {})})

    @override
    def __copy__(self) -> Self:
        return self.model_copy()

    @override
    def __deepcopy__(self, memo: dict[int, Any] | None = None) -> Self:
        return self.model_copy()

    @override
    def _arguments(self) -> dict[str, Any]:
        return {name: value for name, value in self._fields().items() if name != "callback_manager"}
