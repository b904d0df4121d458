"""Servers of models over HTTP: their clients, checks of arguments, and messages that can be sent."""

from __future__ import annotations

import asyncio
import json
import re
import socket
import threading
import time
import weakref
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeout
from contextlib import contextmanager
from contextvars import copy_context
from functools import cache
from ipaddress import IPv6Address, ip_address
from numbers import Real
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from epic_memory.errors import InvalidInputError, LMError, LMUnavailableError
from epic_memory.lm.base import LoopClients, Message
from epic_memory.lm.failures import of_status, too_slow

if TYPE_CHECKING:
    import ssl

    import httpx

R = TypeVar("R")

_KEY = re.compile(r"[!-~]+")
# One class from Python 3.11 on.
_TIMEOUTS = (TimeoutError, FutureTimeout)
# The largest answer that is accepted, in bytes.
_MOST_BYTES = 16 * 2**20
# How many characters of a server's text a message shows.
_MOST_SHOWN = 300


@cache
def tls_context() -> ssl.SSLContext:
    """Return the TLS context that httpx would make anew for each client, at a cost of some 50 ms."""
    import httpx

    return httpx.create_ssl_context()


def client_settings(address: httpx.URL, *, timeout: float, concurrency: int, key: str | None = None) -> dict[str, Any]:
    """Return the settings with which clients of a server are made.

    By default httpx allows at most 100 calls at once, and sends requests to this machine, and keys without TLS, through
    a proxy that the environment names. Ollama's client follows redirects to another server, and sends any server the
    key in `OLLAMA_API_KEY`.
    """
    import httpx

    def authorize(request: httpx.Request) -> httpx.Request:
        """Put the key, and no other one, into a request."""
        request.headers.pop("Authorization", None)
        if key is not None:
            request.headers["Authorization"] = f"Bearer {key}"
        return request

    encrypted = address.scheme == "https"
    return {
        "timeout": timeout,
        "limits": httpx.Limits(max_connections=None, max_keepalive_connections=concurrency),
        "verify": tls_context(),
        "trust_env": not is_this_machine(address.host) and (encrypted or key is None),
        "follow_redirects": False,
        "auth": authorize,
    }


def within(seconds: float, call: Callable[[], R]) -> R:
    """Return what a call to a server returns.

    The time limits of httpx hold for each piece that arrives, and a server can send one byte of a header after the
    other. So the call has a thread of its own, which is left alone when the time is over.

    Raises:
        httpx.ReadTimeout: if it takes longer.
    """
    done: Future[R] = Future()

    def work() -> None:
        try:
            done.set_result(call())
        except BaseException as error:
            done.set_exception(error)

    threading.Thread(target=copy_context().run, args=(work,), daemon=True).start()
    try:
        return done.result(seconds)
    except _TIMEOUTS as error:
        raise (error if done.done() else _too_late()) from None


async def awithin(seconds: float, call: Awaitable[R]) -> R:
    """Return what a call returns as `within` does; it is cancelled when the time is over."""
    task = asyncio.ensure_future(call)
    try:
        # Before Python 3.12 `wait_for` loses a cancellation that comes with the answer.
        await asyncio.wait([task], timeout=seconds)
        if not task.done():
            raise _too_late()
        return task.result()
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def _too_late() -> httpx.ReadTimeout:
    import httpx

    return httpx.ReadTimeout("the answer is not complete in time")


class ModelServer:
    """A server of models, whose answers are whole and in time; every failure is an `LMError`.

    Args:
        address: Where it is.
        who: How messages name it.
        client, async_client, aclose: What makes its clients, of httpx's settings, and closes an asynchronous one.
        silent: The message where nothing answers.
        unknown: The message where it does not know the model.
        timeout: Seconds for an answer as a whole.
        concurrency, key: As `client_settings` takes them.
    """

    def __init__(
        self,
        address: httpx.URL,
        who: str,
        client: Callable[..., Any],
        async_client: Callable[..., Any],
        aclose: Callable[[Any], Awaitable[None]],
        *,
        silent: str,
        unknown: str,
        timeout: float,
        concurrency: int,
        key: str | None,
    ) -> None:
        self._who, self._silent, self.unknown = who, silent, unknown
        self._timeout, self._key = timeout, key
        made = client_settings(address, timeout=timeout, concurrency=concurrency, key=key)
        self.client = client(**made)
        weakref.finalize(self, self.client.close)
        self.clients = LoopClients(lambda: async_client(**made), aclose)

    def shown(self, text: str) -> str:
        """Return the beginning of a server's text, without the key, which it may have repeated."""
        return (text if self._key is None else text.replace(self._key, "***"))[:_MOST_SHOWN]

    def refusal(self, status: int, text: str, headers: Mapping[str, str]) -> LMError:
        """Return the error that the status of an answer stands for."""
        told = self.shown(headers.get("location", "") if status < 400 else text)
        unknown, wait = f"{self.unknown} (The server says: {status} {told})", headers.get("retry-after")
        return of_status(self._who, status, told, unknown=unknown, wait=wait)

    @contextmanager
    def explaining(self) -> Iterator[None]:
        """Return a context in which any failure is raised as an `LMError`."""
        import httpx

        try:
            yield
        except LMError:
            raise
        except (ConnectionError, httpx.ConnectError, httpx.ConnectTimeout) as error:
            raise LMUnavailableError(self._silent) from error
        except httpx.TimeoutException as error:
            raise too_slow(self._who, self._timeout) from error
        except Exception as error:
            said = self.shown(str(error)) or type(error).__name__
            raise LMUnavailableError(f"{self._who} gave no usable answer: {said}") from error


class Reply(NamedTuple):
    """A server's answer as it came."""

    status: int
    headers: Mapping[str, str]
    text: str


class HttpServer(ModelServer):
    """A server of models that httpx alone asks; its answers are of limited size, too.

    Args:
        address, who, settings: As `ModelServer` takes them.
    """

    def __init__(self, address: httpx.URL, who: str, **settings: Any) -> None:
        import httpx

        super().__init__(address, who, httpx.Client, httpx.AsyncClient, httpx.AsyncClient.aclose, **settings)
        self._url = str(address).rstrip("/")

    def send(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> Reply:
        """Return the server's answer to a request."""

        def sent() -> Reply:
            received, until = bytearray(), time.monotonic() + self._timeout
            with self.client.stream(method, self._url + path, json=body) as answer:
                for piece in answer.iter_bytes():
                    _take(received, piece)
                    if time.monotonic() > until:  # nobody waits any more: let the connection go
                        raise too_slow(self._who, self._timeout)
            return _reply(answer, received)

        with self.explaining():
            return within(self._timeout, sent)

    async def asend(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> Reply:
        """Return an answer as `send` does, without blocking the event loop."""

        async def sent() -> Reply:
            received = bytearray()
            async with self.clients.client() as client, client.stream(method, self._url + path, json=body) as answer:
                async for piece in answer.aiter_bytes():
                    _take(received, piece)
            return _reply(answer, received)

        with self.explaining():
            return await awithin(self._timeout, sent())

    def json_of(self, reply: Reply) -> Any:
        """Return the JSON of an answer, or raise the error that its status stands for."""
        with self.explaining():
            if reply.status < 300:
                return json.loads(reply.text)
            raise self.refusal(reply.status, reply.text, reply.headers)


def _take(received: bytearray, piece: bytes) -> None:
    received += piece
    if len(received) > _MOST_BYTES:
        raise LMUnavailableError("The server does not end its answer, which is longer than it may be.")


def _reply(answer: httpx.Response, received: bytearray) -> Reply:
    return Reply(answer.status_code, answer.headers, received.decode(answer.encoding or "utf-8", "replace"))


def is_this_machine(host: str) -> bool:
    """Tell whether a host is a name or an address of this machine itself, in any spelling that reaches it."""
    host = host.strip("[]").rstrip(".").lower()
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        address = ip_address(host)
    except ValueError:
        try:
            address = ip_address(socket.inet_aton(host))  # short forms, such as 127.1
        except OSError:
            return False
    if isinstance(address, IPv6Address) and address.ipv4_mapped:
        address = address.ipv4_mapped
    return address.is_loopback or address.is_unspecified


def sendable(messages: Sequence[Message]) -> list[dict[str, str]]:
    """Return messages as dicts, as both protocols have them; lone surrogates, which UTF-8 cannot hold, are replaced."""
    return [{"role": each.role, "content": each.content.encode("utf-8", "replace").decode()} for each in messages]


def count(given: Any) -> int:
    """Return a number of tokens as a server counts them, or 0 for a value that is not a possible count."""
    return int(given) if isinstance(given, (int, float)) and 0 < given < 2**53 else 0


def check_model(kind: str, model: object, api_key: object, timeout: float) -> None:
    """Raise an `InvalidInputError` for a model's name, a key or a timeout that cannot be used."""
    if not isinstance(model, str) or not model.strip():
        raise InvalidInputError(f"{kind} needs the name of a model, such as 'qwen3:4b', not {model!r}.")
    if api_key is not None and not (isinstance(api_key, str) and _KEY.fullmatch(api_key)):
        raise InvalidInputError("api_key must be printable ASCII without spaces or line ends. (It is not shown here.)")
    if not isinstance(timeout, Real) or isinstance(timeout, bool) or not 0.0 < timeout < float("inf"):
        raise InvalidInputError(f"timeout must be a number of seconds above 0, not {timeout!r}.")
