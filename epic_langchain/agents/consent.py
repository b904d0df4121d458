"""Consent to proposals: a request to a human as LangChain's human in the loop makes it, and how the answer is read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from langchain.agents.middleware.human_in_the_loop import ActionRequest, HITLRequest, ReviewConfig
from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.config import get_config
from langgraph.types import interrupt

from epic_learn.types import Proposal
from epic_memory.errors import InvalidInputError

Asked = dict[str, Any]
"""A proposal as an agent's state holds it: what `asked_of` returns."""


@dataclass(frozen=True, kw_only=True)
class Consent:
    """The human's decision about one proposal: accepted or not, and in which words if they were edited."""

    id: str
    accepted: bool
    text: str | None = None


def asked_of(proposal: Proposal) -> Asked:
    """Return what is asked about a proposal, as JSON can hold it: id, kind, arguments, description."""
    arguments = {"text": proposal.text, "old": proposal.old}
    return {
        "id": proposal.id,
        "kind": proposal.kind,
        "args": {name: value for name, value in arguments.items() if value},
        "description": f'{proposal}\nThe user said: "{proposal.quote}"',
    }


def can_ask() -> bool:
    """Tell whether the running graph can be interrupted: it has a checkpointer, and shows its config."""
    try:
        configurable = get_config().get("configurable", {})
    except RuntimeError:  # asynchronous code on Python 3.10
        return False
    return isinstance(configurable.get("__pregel_checkpointer"), BaseCheckpointSaver)


def ask(asked: Sequence[Asked]) -> list[Consent]:
    """Interrupt the graph with the proposals of a turn, and return the decisions; a wrong answer is asked for again."""
    problem = ""
    while True:
        # An error would be raised by every later answer, too: LangGraph replays the first.
        answer = interrupt(_request(asked, problem))
        try:
            return _decisions(asked, answer)
        except InvalidInputError as error:
            problem = f"{error}\n\n"


def _request(asked: Sequence[Asked], problem: str) -> HITLRequest:
    actions = [ActionRequest(name=one["kind"], args=one["args"], description=one["description"]) for one in asked]
    actions[0]["description"] = problem + asked[0]["description"]
    reviews = {
        one["kind"]: ReviewConfig(
            action_name=one["kind"],
            allowed_decisions=["approve", "edit", "reject"] if _has_text(one) else ["approve", "reject"],
        )
        for one in asked
    }
    return HITLRequest(action_requests=actions, review_configs=list(reviews.values()))


def _has_text(asked: Asked) -> bool:
    return "text" in asked["args"]


def _decisions(asked: Sequence[Asked], answer: Any) -> list[Consent]:
    decisions = answer.get("decisions") if isinstance(answer, Mapping) else None
    if not isinstance(decisions, Sequence) or isinstance(decisions, str) or len(decisions) != len(asked):
        raise InvalidInputError(
            f"Answer with {{'decisions': [...]}}, one for each of the {len(asked)} proposals, in their order."
        )
    return [_consent(one, decision) for one, decision in zip(asked, decisions, strict=True)]


def _consent(asked: Asked, decision: Any) -> Consent:
    kind = decision.get("type") if isinstance(decision, Mapping) else None
    if kind in ("approve", "reject"):
        return Consent(id=asked["id"], accepted=kind == "approve")
    if kind != "edit" or not _has_text(asked):
        raise InvalidInputError(
            f"A decision on {asked['kind']!r} is {{'type': 'approve'}} or {{'type': 'reject'}}"
            f"{', or an edit' if _has_text(asked) else ''}; not {decision!r}."
        )
    edited = decision.get("edited_action")
    if isinstance(edited, Mapping) and edited.get("name", asked["kind"]) != asked["kind"]:
        raise InvalidInputError(
            f"An edit changes the words of {asked['kind']!r}, not the action: {edited['name']!r}. Reject it instead."
        )
    arguments = edited.get("args") if isinstance(edited, Mapping) else None
    text = arguments.get("text") if isinstance(arguments, Mapping) else None
    if not isinstance(text, str) or not text.strip():
        raise InvalidInputError(
            "An edit gives the words: {'type': 'edit', 'edited_action': {'args': {'text': '...'}}}."
        )
    return Consent(id=asked["id"], accepted=True, text=text.strip())
