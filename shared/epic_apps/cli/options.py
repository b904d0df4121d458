"""Options that several commands share, in groups; the memory and the models that they name."""

from __future__ import annotations

import inspect
import logging
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import MISSING, dataclass, fields, is_dataclass, replace
from difflib import get_close_matches
from functools import wraps
from typing import TYPE_CHECKING, Annotated, Any, TypeVar, Union, get_args, get_origin, get_type_hints

from rich.console import RenderableType
from typer import Argument, Option, Typer
from typer.core import TyperGroup

from epic_apps.cli.printing import show, show_json, visible
from epic_memory.errors import InvalidInputError, UnknownItemError

if TYPE_CHECKING:
    from epic_memory.lm import OllamaLM, OpenAICompatibleLM
    from epic_memory.lm.base import LanguageModel
    from epic_memory.memory import EpicMemory
    from epic_memory.settings import Settings

_Command = TypeVar("_Command", bound=Callable[..., None])
ENCODERS = (
    "static, minilm (the default if installed), multilingual (for other languages than English),"
    " sentence-transformers/NAME_OR_FOLDER, or ollama/MODEL"
)
"""As `epic_memory.encoders.by_name.NAMES`, which would take numpy to show the help."""
_KEY = "EPIC_LLM_KEY"
MODELS = "ollama:MODEL, openai:MODEL@URL, or auto"
"""As `epic_memory.lm.by_name.NAMES`, likewise."""
_PANEL = f"Language model (a key for its server is read from {_KEY})"


class Group(TyperGroup):
    """Commands that show their help if none is named."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse the arguments of the group itself."""
        return super().parse_args(ctx, args or ([] if ctx.resilient_parsing else ["--help"]))


def new_app(*, cls: type[Group] = Group, **settings: Any) -> Typer:
    """Return an app, for all commands or those below one."""
    names = {"help_option_names": ["-h", "--help"]}
    return Typer(cls=cls, rich_markup_mode="rich", context_settings=names, **settings)


def command(app: Typer, name: str | None = None, **settings: Any) -> Callable[[_Command], _Command]:
    """Add a function to an app as a command whose help is its docstring; parameters can be groups of options."""

    def add(function: _Command) -> _Command:
        app.command(name or function.__name__.strip("_").replace("_", "-"), **settings)(_expanded(function))
        return function

    return add


def _expanded(function: Callable[..., None]) -> Callable[..., None]:
    """Return the function with the fields of each group of options as parameters in place of the group."""
    hints = {name: _annotated(hint) for name, hint in get_type_hints(function, include_extras=True).items()}
    parameters: list[inspect.Parameter] = []
    groups: dict[str, Any] = {}
    for name, parameter in inspect.signature(function).parameters.items():
        if is_dataclass(kind := hints[name]):
            groups[name] = kind
            inside = get_type_hints(kind, include_extras=True)
            given = {
                field.name: parameter.replace(
                    name=field.name,
                    default=parameter.empty if field.default is MISSING else field.default,
                    annotation=inside[field.name],
                )
                for field in fields(kind)
            }
        else:
            given = {name: parameter.replace(annotation=hints[name])}
        parameters += [each.replace(kind=inspect.Parameter.KEYWORD_ONLY) for each in given.values()]

    @wraps(function)
    def run(**values: Any) -> None:
        for name, kind in groups.items():
            values[name] = kind(**{field.name: values.pop(field.name) for field in fields(kind)})
        function(**values)

    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return run


def _annotated(hint: Any) -> Any:
    """Return a hint as it was written: Python 3.10 puts Optional around that of a parameter whose default is None."""
    inside = [part for part in get_args(hint) if get_origin(part) is Annotated] if get_origin(hint) is Union else []
    return inside[0] if inside else hint


@dataclass(kw_only=True)
class Common:
    """Options of every command, and the way to print."""

    encoder: Annotated[str | None, Option(help=ENCODERS)] = None
    namespace: Annotated[str, Option(help="whose memory, in a file of several users")] = "default"
    json: Annotated[bool, Option("--json", help="print JSON")] = False
    verbose: Annotated[bool, Option("--verbose", "-v", help="figures behind the reasons, and a log on stderr")] = False

    def __post_init__(self) -> None:
        if self.verbose:
            logger = logging.getLogger("epic_memory")
            logger.handlers = [handler for handler in logger.handlers if not isinstance(handler, _Log)] + [_Log()]
            logger.setLevel(logging.DEBUG)

    def settings(self, path: str, **more: Any) -> Settings:
        """Return the settings of the memory in a file: whose it is, the file's key, and others."""
        from epic_apps.keys import key_for
        from epic_memory import Settings

        return Settings(namespace=self.namespace, key=key_for(path), **more)

    def show(self, value: Any, *parts: RenderableType) -> None:
        """Print the value as JSON if that is asked for, else the parts; without parts, the value."""
        if self.json:
            show_json(value)
        else:
            show(*(parts or (str(value),)))


class _Log(logging.StreamHandler):  # type: ignore[type-arg]  # generic from Python 3.11 on only
    """A log on stderr, harmless to a terminal."""

    def format(self, record: logging.LogRecord) -> str:
        return visible(super().format(record))


@dataclass(kw_only=True)
class InFile(Common):
    """The memory in a file."""

    memory: Annotated[str, Argument(metavar="FILE", help="the memory's file")]

    def open(self, model: Model | None = None, **settings: Any) -> EpicMemory:
        """Open the memory, with the language model if one is asked for; it must exist unless a setting allows a new."""
        from epic_memory import EpicMemory

        lm, how = None, self.settings(self.memory, **{"must_exist": True, **settings})
        if model is not None:
            lm, how = model.asked(how)
        return EpicMemory.open(self.memory, encoder=self.encoder, llm=lm, settings=how)


def _asking(metavar: str, help: str) -> Any:
    """Return an option about a language model."""
    return Option(metavar=metavar, help=help, rich_help_panel=_PANEL)


@dataclass(kw_only=True)
class Server:
    """The server of a language model, and how it is asked."""

    llm_url: Annotated[str | None, _asking("URL", "the server, if the name does not hold it")] = None
    concurrency: Annotated[int | None, _asking("N", "calls at the same time (default 1)")] = None
    timeout: Annotated[float | None, _asking("S", "seconds for an answer (default 120)")] = None

    def model(self, name: str) -> OllamaLM | OpenAICompatibleLM:
        """Return the language model of a name, once its server has answered."""
        from epic_memory.lm import lm_of

        key = os.environ.get(_KEY) or None
        lm = lm_of(name, url=self.llm_url, api_key=key, timeout=self.timeout, concurrency=self.concurrency)
        # Check before anything is written: with its server down, a whole corpus would end in the retry queue.
        lm.check()
        return lm


@dataclass(kw_only=True)
class Model(Server):
    """A language model that does all that one can do for a memory, its server, and how much it is asked."""

    llm: Annotated[
        str | None, _asking("MODEL", f"explains preferences, decides, and reads: {MODELS}; default: none is asked")
    ] = None
    model_budget: Annotated[
        str | None, _asking("N", 'calls a day, or "50000 tokens"; what is left over waits for `epic retry`')
    ] = None
    on_demand: Annotated[
        str | None,
        _asking("TIME", 'how long an answer waits for verdicts on what it finds: "300 ms"; or "background", or "off"'),
    ] = None

    def asked(self, settings: Settings) -> tuple[LanguageModel | None, Settings]:
        """Return the model, once its server has answered, and the settings with how much it is asked.

        Raises:
            InvalidInputError: for options that say how a model is asked, and none that says which.
            LMError: if the model cannot be asked.
        """
        if self.llm is None:
            self._check_alone()
            return None, settings
        how_much = replace(settings, model_budget=self.model_budget, on_demand=self.on_demand)
        return self.model(self.llm), how_much

    def arguments(self) -> list[str]:
        """Return these options as they are given on a command line."""
        given = {each.name: getattr(self, each.name) for each in fields(self)}
        return [
            part
            for name, value in given.items()
            if value is not None
            for part in (f"--{name.replace('_', '-')}", str(value))
        ]

    def _check_alone(self, *named: str) -> None:
        """Raise an error if anything is given but the options that are named."""
        given = [each.name for each in fields(self) if each.name not in named and getattr(self, each.name) is not None]
        if given:
            raise InvalidInputError(f"--{given[0].replace('_', '-')} says how a model is asked; --llm says which.")


@dataclass(kw_only=True)
class Judging(Model):
    """The same, for commands that take texts in."""

    expand: Annotated[
        str | None, _asking("MODEL", "only reads preferences, and writes what they mean in practice; as --llm")
    ] = None

    def asked(self, settings: Settings) -> tuple[LanguageModel | None, Settings]:
        """Return the model and the settings as `Model.asked` does, with the model that only reads preferences."""
        lm, settings = super().asked(settings)
        return lm, settings if self.expand is None else replace(settings, expander=self.model(self.expand))

    def _check_alone(self, *named: str) -> None:
        asking = () if self.expand is None else ("expand", "llm_url", "concurrency", "timeout")
        super()._check_alone(*asking, *named)


@contextmanager
def suggesting(memory: EpicMemory, *ids: str) -> Iterator[None]:
    """Name the ids that are most like an unknown one in the error about it."""
    try:
        yield
    except UnknownItemError as error:
        known = [item.id for item in memory.items()]
        unknown = next((each for each in ids if each not in known), "")
        begun = [each for each in known if unknown and each.startswith(unknown)]
        if not (near := (begun or get_close_matches(unknown, known))[:3]):
            raise
        raise UnknownItemError(f"{error} Did you mean {', '.join(near)}?") from None
