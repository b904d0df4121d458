"""A service with a memory for each of its users: FastAPI, a pool of files, and an agent of LangChain.

    pip install 'epic-memory[agents]' fastapi uvicorn langchain-ollama    # from a clone: '.[agents]'
    uvicorn app:app --app-dir examples/service
    H="content-type: application/json"
    curl localhost:8000/ann/preferences -H "$H" -d '{"text": "I follow a strict vegan diet."}'
    curl localhost:8000/ann/chat -H "$H" -d '{"text": "Where should I have dinner?"}'

EPIC_ROOT is the folder of the files, or an address such as s3://bucket/memories; EPIC_MODEL the chat model, as
`init_chat_model` of LangChain takes it. Who a user is says the path here; in your service it says your login.
"""

from __future__ import annotations

import gc
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import cache
from typing import Annotated, Any

from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse
from langchain.agents import create_agent
from langchain.chat_models import init_chat_model
from pydantic import BaseModel, StringConstraints

from epic_langchain.agents import EpicMemoryMiddleware
from epic_memory import Settings
from epic_memory.errors import DuplicatePreferenceError, InvalidInputError
from epic_scale import ConflictError, LeaseError, MemoryPool

# Thousands of open objects: a collection of all garbage takes a tenth of a second, in the middle of somebody's turn.
gc.set_threshold(50_000, 50, 50)
pool = MemoryPool(os.environ.get("EPIC_ROOT", "memories"), max_open=500, idle="5 min", settings=Settings(budget="2 MB"))


@asynccontextmanager
async def running(_: FastAPI) -> AsyncIterator[None]:
    """Close what is open when the service ends."""
    async with pool:
        yield


app = FastAPI(lifespan=running)


class Message(BaseModel):
    text: Annotated[str, StringConstraints(strip_whitespace=True, min_length=1)]


@app.exception_handler(InvalidInputError)
def refused(_: Request, error: InvalidInputError) -> JSONResponse:
    """Answer what cannot be done as asked."""
    code = 409 if isinstance(error, DuplicatePreferenceError) else 422
    return JSONResponse({"detail": str(error)}, code)


@app.exception_handler(LeaseError)
@app.exception_handler(ConflictError)
def busy(_: Request, error: LeaseError | ConflictError) -> JSONResponse:
    """Answer what was not done because another turn was in the way."""
    return JSONResponse({"detail": str(error)}, 409, {"retry-after": "5"})


@cache
def agent() -> Any:
    """One agent for all users: its middleware takes the memory of the user whose turn it is."""
    model = init_chat_model(os.environ.get("EPIC_MODEL", "ollama:qwen3:4b"))
    return create_agent(model, middleware=[EpicMemoryMiddleware(pool.in_use, k=5)])


@app.post("/{user}/preferences")
async def add_preference(user: str, message: Message) -> list[str]:
    async with pool.aget(user) as memory:
        await memory.preferences.aadd(message.text)
        return [one.text for one in memory.preferences]


@app.post("/{user}/chat")
async def chat(user: str, message: Message) -> str:
    async with pool.aget(user):
        said = {"messages": [("user", message.text)]}
        answer = await agent().ainvoke(said, context={"namespace": user})
    return str(answer["messages"][-1].content)


@app.delete("/{user}")
def forget(user: str) -> dict[str, Any]:
    proof = pool.forget_user(user)
    return {"user": proof.user, "removed": proof.removed}


@app.get("/health")
def health() -> dict[str, int]:
    return vars(pool.health())
