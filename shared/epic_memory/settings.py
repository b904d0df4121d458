"""Settings of a memory: the language model that a user named or gave, and the budget that it is held to."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from epic_memory.errors import InvalidInputError

if TYPE_CHECKING:
    from epic_memory.lm.base import LanguageModel
    from epic_memory.lm.budget import ModelBudget


def asked_model(llm: Any, budget: object = None) -> tuple[LanguageModel | None, ModelBudget | None]:
    """Return the language model that a user named or gave, held to a daily budget if there is one, and the budget.

    Raises:
        InvalidInputError: for what is no model or no budget, or a budget without a model.
    """
    if llm is None:
        if budget is not None:
            raise InvalidInputError("model_budget says how much a model is asked; llm says which.")
        return None, None
    # Models are imported where there is one.
    from epic_memory.lm.budget import BudgetedLM, ModelBudget
    from epic_memory.lm.by_name import lm_of

    lm, allowed = lm_of(llm), ModelBudget.of(budget)
    if isinstance(lm, BudgetedLM) and allowed is None:
        return lm, lm.budget
    return (lm if allowed is None else BudgetedLM(lm, allowed)), allowed
