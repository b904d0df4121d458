"""Column of texts judged for many people: a function over a column of pandas, and an expression of Daft.

    judge = column_judge({"ann": ["I follow a strict vegan diet."]})
    frame["judged"] = judge(frame["text"])
    frame = frame.with_column("judged", epic_keep(daft.col("text"), preferences="people.jsonl"))

A value is a list of judgements, each with the fields of `Judgement`: what a chunk is to a user under a preference. An
error is a field, and no exception.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import asdict
from typing import Any, TypeAlias

from epic_memory.errors import MissingExtraError
from epic_scale.judging import KINDS, Judge, judged_rows
from epic_scale.processor import EpicProcessorConfig

Judged: TypeAlias = list[list[dict[str, Any]]]


def column_judge(preferences: Any, **config: Any) -> Callable[[Iterable[Any]], Judged]:
    """Make a function from texts, such as a Series of pandas, to the judgements of each; once for a process.

    Args:
        preferences, config: As for `EpicProcessorConfig`.
    """
    how = EpicProcessorConfig(preferences=preferences, **config)
    judge = Judge(how.people(), how.encoder, how.llm, how.settings)
    return lambda texts: [[asdict(one) for one in each] for each in judged_rows(judge, [{"text": t} for t in texts])]


def epic_keep(text: Any, *, preferences: Any, batch_size: int = 256, **config: Any) -> Any:
    """Return the expression of the judgements of a column of texts.

    Args:
        text: An expression of Daft, such as `daft.col("text")`.
        preferences, batch_size, config: As for `EpicProcessorConfig`.

    Raises:
        MissingExtraError: without Daft.
    """
    try:
        import daft
    except ImportError:
        raise MissingExtraError("daft", "daft") from None
    types = {str: daft.DataType.string(), bool: daft.DataType.bool(), float: daft.DataType.float64()}
    fields = {name: types[kind] for name, kind in KINDS.items()}

    @daft.cls
    class Keeping:
        def __init__(self) -> None:
            self.judge = column_judge(preferences, **config)

        @daft.method.batch(return_dtype=daft.DataType.list(daft.DataType.struct(fields)), batch_size=batch_size)  # type: ignore[untyped-decorator]
        def judged(self, texts: Any) -> Judged:
            return self.judge(texts.to_pylist())

    return Keeping().judged(text)
