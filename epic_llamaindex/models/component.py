"""Base of the LlamaIndex components that judge by preferences: their settings, serialisation and copies."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from llama_index.core.schema import BaseComponent
from pydantic import ConfigDict, PrivateAttr, ValidationError, field_serializer, field_validator
from typing_extensions import override

from epic_memory import EpicMemory, Preference, Settings
from epic_plugins.judging_memory import JudgingModel, Prepared


class JudgingComponent(JudgingModel, BaseComponent):
    """A component with preferences and models. Settings are checked together; models are stored by name."""

    # hide_input_in_errors: a model may hold a key.
    model_config = ConfigDict(
        extra="forbid", arbitrary_types_allowed=True, validate_assignment=True, hide_input_in_errors=True
    )

    _prepared: Prepared = PrivateAttr(default_factory=Prepared)

    @classmethod
    @override
    def class_name(cls) -> str:
        """Return the name under which LlamaIndex stores the component."""
        return cls.__name__

    @field_validator("settings", mode="before")
    @classmethod
    def _read(cls, settings: object) -> object:
        return Settings(**settings) if isinstance(settings, Mapping) else settings

    @field_serializer("settings")
    def _written(self, settings: Settings | None) -> dict[str, Any] | None:
        """Return the settings that differ from the defaults; models among them are stored by name."""
        held = {} if settings is None else vars(settings)
        plain = {name: value for name, value in held.items() if value is None or isinstance(value, (str, int, float))}
        return {name: value for name, value in plain.items() if value != getattr(Settings, name)} or None

    @field_serializer("preferences")
    def _plain(self, preferences: Sequence[str | Preference]) -> list[Any]:
        return [Preference.of(preference).as_json() for preference in preferences]

    def _judging_memory(self) -> EpicMemory:
        """Return the memory that judges by the present preferences; the first time, an encoder may ask a server."""
        if self.memory is not None:
            return self.memory
        return self._prepared.memory(self.preferences, encoder=self._encoder, settings=self._judging_settings)

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
