"""Options that several commands share, the memory that they name, and printing."""

from __future__ import annotations

import argparse
import os
import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from epic_core.encoders.by_name import NAMES as ENCODERS
from epic_core.errors import InvalidInputError

if TYPE_CHECKING:
    from epic_core.lm import LanguageModel, OllamaLM, OpenAICompatibleLM
    from epic_core.memory import EpicMemory
    from epic_core.verification import Verifier

# Control characters, and those that change the direction or the line of what is shown.
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")
_MODELS = "ollama/MODEL, or openai/MODEL with --llm-url"
_KEY = "EPIC_LLM_KEY"


def visible(text: object) -> str:
    """Return text that may come from outside with a sign in place of control characters, which a terminal obeys."""
    return _CONTROL.sub("\N{REPLACEMENT CHARACTER}", str(text))


def show(text: object) -> None:
    """Print text that may come from a document."""
    print(visible(text))


class Parser(argparse.ArgumentParser):
    """A parser whose messages show what was typed without control characters."""

    def _print_message(self, message: str, file: Any = None) -> None:
        super()._print_message(visible(message), file)


def add_command(
    commands: Any, name: str, run: Callable[[argparse.Namespace], None] | None, about: str, *, path: bool = True
) -> argparse.ArgumentParser:
    """Add a command with the options that every command has; with `path`, also the memory's file."""
    parser: argparse.ArgumentParser = commands.add_parser(name, help=about)
    if path:
        parser.add_argument("memory", metavar="FILE", help="the memory's file")
    parser.add_argument("--encoder", default="static", help=ENCODERS)
    parser.add_argument("--namespace", default="default", help="whose memory, in a file of several users")
    if run is not None:
        parser.set_defaults(run=run)
    return parser


def add_verifying(parser: argparse.ArgumentParser, *, again: bool = False, expanding: bool = False) -> None:
    """Add the options of a language model; `again` for a parser below one that has them.

    With `expanding`, also add the option for a model that only reads preferences.
    """
    group = parser.add_argument_group(
        "verification by a language model", f"A key for the server, if it wants one, is read from {_KEY}."
    )

    def option(name: str, **settings: Any) -> None:
        group.add_argument(name, default=argparse.SUPPRESS if again else None, **settings)

    option("--llm", metavar="MODEL", help=f"{_MODELS}; without it, the embedded verifier decides")
    option("--llm-url", metavar="URL", help="the server: http://localhost:8000/v1 for openai/MODEL")
    option("--way", choices=("single", "paper", "batch"), help="how the model is asked (default single)")
    option("--refine", choices=("rewrite",), help="have kept items rewritten for their preferences")
    option("--concurrency", type=int, metavar="N", help="calls at the same time (default 1)")
    option("--timeout", type=float, metavar="S", help="seconds for an answer (default 120)")
    if expanding:
        group.add_argument(
            "--expand", metavar="MODEL", help="only reads preferences, and writes what they mean in practice; as --llm"
        )


def asked_verifier(options: argparse.Namespace) -> Verifier | None:
    """Return the verifier that the options ask for, once its server has answered; None without `--llm`."""
    if options.llm is None:
        asking = ("llm_url", "concurrency", "timeout") if _expanding(options) is None else ()
        given = [name for name in (*asking, "way", "refine") if vars(options)[name] is not None]
        if given:
            raise InvalidInputError(f"--{given[0].replace('_', '-')} says how a model is asked; --llm says which.")
        return None
    from epic_core.verification import LMVerifier

    return LMVerifier(asked_model(options.llm, options), way=options.way or "single", refine=options.refine)


def asked_expander(options: argparse.Namespace) -> LanguageModel | None:
    """Return the model that only reads preferences, if the options ask for one."""
    name = _expanding(options)
    return None if name is None else asked_model(name, options)


def _expanding(options: argparse.Namespace) -> str | None:
    name: str | None = vars(options).get("expand")
    return name


def asked_model(name: str, options: argparse.Namespace) -> OllamaLM | OpenAICompatibleLM:
    """Return the language model of a name, once its server has answered."""
    from epic_core.lm import lm_of

    key = os.environ.get(_KEY) or None
    lm = lm_of(name, url=options.llm_url, api_key=key, timeout=options.timeout, concurrency=options.concurrency)
    # Check before anything is written: with its server down, a whole corpus would end in the retry queue.
    lm.check()
    return lm


def open_memory(options: argparse.Namespace, *, read_only: bool = False) -> EpicMemory:
    """Open the memory that the options name."""
    from epic_core.memory import EpicMemory

    return EpicMemory.open(
        options.memory,
        encoder=options.encoder,
        verifier=asked_verifier(options) if "llm" in options else None,
        expander=asked_expander(options),
        namespace=options.namespace,
        must_exist=True,
        read_only=read_only,
    )
