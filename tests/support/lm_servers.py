"""A language-model server in this process, over real HTTP: it speaks Ollama's protocol and OpenAI's.

It embeds, too, by Ollama's: `LMServer(..., embed=lambda text: [1.0, 2.0])`, and tells the context of its models.

with LMServer(lambda request: "Yes.") as server:
    OllamaLM("tiny", host=server.url).complete([Message("user", "Hello?")])
    OpenAICompatibleLM(server.base_url, "tiny").complete([Message("user", "Hello?")])
assert server.calls == 2
"""

from __future__ import annotations

import json
import re
import socket
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple, TypeAlias

Json: TypeAlias = dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class Reply:
    """What the server answers to one request.

    Args:
        text: The model's answer; for a status of 400 and more, the server's error.
        status, headers: Of the HTTP response.
        tokens: The answer's tokens and their log-probabilities, which a request has to ask for. Default: the
            words of the text. Empty for a server that gives none.
        thinking: What the model thought, apart from its answer.
        prompt_tokens, completion_tokens: As the server counts them; default: the words, and the tokens.
        delay: Seconds until the response begins.
        cut: The answer ended because it grew too long.
        break_off: The connection ends in the middle of the body.
        unfinished: The body ends in good order, but without what says that the answer is complete.
        fails: An error that takes the place of the rest, in a body with status 200.
        pieces: Makes what the body consists of, in place of all else; sent as fast as it makes them.
    """

    text: str = ""
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    tokens: Sequence[tuple[str, float]] | None = None
    thinking: str = ""
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    delay: float = 0.0
    cut: bool = False
    break_off: bool = False
    unfinished: bool = False
    fails: str = ""
    pieces: Callable[[], Iterable[bytes]] | None = None

    def given_tokens(self) -> Sequence[tuple[str, float]]:
        """The tokens, which are the words with the space before them if there are no others."""
        if self.tokens is not None:
            return self.tokens
        return [(word, -0.1) for word in re.findall(r"\s*\S+|\s+$", self.text)]

    def logprobs(self, request: Json) -> list[Json]:
        """The tokens as both protocols have them, if the request asks for them."""
        return [
            {"token": token, "logprob": logprob, "bytes": list(token.encode()), "top_logprobs": []}
            for token, logprob in (self.given_tokens() if request.get("logprobs") else ())
        ]

    def counts(self, request: Json) -> tuple[int, int]:
        """How many tokens the prompt has, and the answer."""
        prompt, completion = self.prompt_tokens, self.completion_tokens
        if prompt is None:
            prompt = sum(len(message["content"].split()) for message in request["messages"])
        return prompt, len(self.given_tokens()) if completion is None else completion


Answer: TypeAlias = Callable[[Json], "str | Reply"]
Embed: TypeAlias = Callable[[str], "Iterable[float] | Reply"]

NOT_JSON = Reply(pieces=lambda: [b"<html><body>Welcome.</body></html>"])


def in_turn(*replies: str | Reply) -> Answer:
    """Answers with one reply after the other, and with the last one for good."""
    lock, left = threading.Lock(), list(replies)

    def answer(request: Json) -> str | Reply:
        with lock:
            return left.pop(0) if len(left) > 1 else left[0]

    return answer


class Request(NamedTuple):
    """A request the server got; the body of a GET is empty."""

    path: str
    headers: Mapping[str, str]
    body: Json


class LMServer:
    """A server for language models, running while it is used as a context manager.

    It may be stopped and started again, on the same port. What `answer` and `embed` raise becomes a status of 500.

    Args:
        answer: Says what to answer to the decoded body of a request; may be exchanged at any time.
        models: The names of the models there are.
        api_key: A key that requests must bear.
        embed: Makes the embedding of a text, or what is sent in place of one; None for a server that does not embed.
        context: How many tokens its models take, as Ollama shows it; None if it does not say.

    Attributes:
        requests: Every request, in the order of arrival.
        served: Each chat's request, and the seconds from its arrival until the response was written.
        connected: The connections that were made.
        most_at_once: The largest number of chats that were under way at the same time.
    """

    def __init__(
        self,
        answer: Answer,
        *,
        models: Sequence[str] = ("tiny",),
        api_key: str | None = None,
        embed: Embed | None = None,
        context: int | None = 32768,
    ) -> None:
        self.answer = answer
        self.context = context
        self.embed = embed
        self.models = tuple(models)
        self.api_key = api_key
        self.requests: list[Request] = []
        self.served: list[tuple[Json, float]] = []
        self.connected: list[socket.socket] = []
        self.most_at_once = 0
        self._under_way = 0
        self._lock = threading.Lock()
        self._port = 0
        self._http: _HTTPServer | None = None

    @property
    def url(self) -> str:
        """The address, as Ollama's clients take it."""
        return f"http://127.0.0.1:{self._port}"

    @property
    def base_url(self) -> str:
        """The address, as OpenAI's clients take it."""
        return f"{self.url}/v1"

    @property
    def asked(self) -> list[Json]:
        """The bodies of all requests for an answer of a model."""
        others = ("/api/embed", "/api/show")
        return [request.body for request in list(self.requests) if request.body and request.path not in others]

    @property
    def calls(self) -> int:
        """How many requests for an answer of a model there were."""
        return len(self.asked)

    @property
    def connections(self) -> int:
        """How many connections were made."""
        return len(self.connected)

    def start(self) -> None:
        """Begin to listen, on the port of the last time if there was one."""
        self._http = _HTTPServer(("127.0.0.1", self._port), self)
        self._port = self._http.server_address[1]
        threading.Thread(target=self._http.serve_forever, args=(0.002,), daemon=True).start()

    def stop(self) -> None:
        """Die: connections end, and requests that are under way get no answer."""
        if self._http is not None:
            self._http.die()
            self._http = None

    def __enter__(self) -> LMServer:
        self.start()
        return self

    def __exit__(self, *error: object) -> None:
        self.stop()

    @contextmanager
    def under_way(self) -> Iterator[None]:
        """Count a chat as under way."""
        with self._lock:
            self._under_way += 1
            self.most_at_once = max(self.most_at_once, self._under_way)
        try:
            yield
        finally:
            with self._lock:
                self._under_way -= 1

    def has(self, model: str) -> bool:
        """Whether there is a model of that name."""
        return model in self.models or model.removesuffix(":latest") in self.models

    def reply(self, request: Json) -> Reply:
        """What to answer."""
        try:
            given = self.answer(request)
        except Exception as error:
            return Reply(status=500, text=f"{type(error).__name__}: {error}")
        return Reply(text=given) if isinstance(given, str) else given


class _HTTPServer(ThreadingHTTPServer):
    """Knows its connections, to end them when it dies."""

    request_queue_size = 256

    def __init__(self, address: tuple[str, int], models: LMServer) -> None:
        super().__init__(address, _Handler)
        self.models = models
        self.dead = threading.Event()

    def die(self) -> None:
        self.dead.set()
        self.shutdown()
        self.server_close()
        for connection in self.models.connected:
            with suppress(OSError):  # it has ended before
                connection.shutdown(socket.SHUT_RDWR)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing: clients that go away in the middle are part of the tests."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: _HTTPServer

    def setup(self) -> None:
        super().setup()
        self.server.models.connected.append(self.connection)
        if self.server.dead.is_set():
            self.connection.shutdown(socket.SHUT_RDWR)

    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing."""

    def do_GET(self) -> None:
        models = self.server.models
        models.requests.append(Request(self.path, dict(self.headers), {}))
        if self._is_refused():
            return
        if self.path == "/api/tags":
            names = [name if ":" in name else f"{name}:latest" for name in models.models]
            self._send({"models": [{"name": name, "model": name, "digest": "0" * 64} for name in names]})
        elif self.path == "/v1/models":
            data = [{"id": name, "object": "model", "created": 0, "owned_by": "tests"} for name in models.models]
            self._send({"object": "list", "data": data})
        else:
            self._send({"error": "not found"}, 404)

    def do_POST(self) -> None:
        models, began = self.server.models, time.perf_counter()
        request: Json = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        models.requests.append(Request(self.path, dict(self.headers), request))
        protocol = _OpenAI if self.path.startswith("/v1") else _Ollama
        embed = models.embed if self.path == "/api/embed" else None
        if embed is None and self.path not in ("/api/show", "/api/chat", "/v1/chat/completions"):
            self._send({"error": "not found"}, 404)
        elif self._is_refused():
            return
        elif not models.has(request["model"]):
            self._send(protocol.error(protocol.unknown(request["model"])), 404)
        elif embed is not None:
            self._embed(embed, request)
        elif self.path == "/api/show":
            known = {} if models.context is None else {"tiny.context_length": models.context}
            self._send({"model_info": {"general.architecture": "tiny", **known}})
        else:
            self._chat(protocol, request)
            models.served.append((request, time.perf_counter() - began))

    def _is_refused(self) -> bool:
        key = self.server.models.api_key
        given = self.headers.get("Authorization")
        if key is None or given == f"Bearer {key}":
            return False
        self._send(_OpenAI.error(f"Incorrect API key provided: {given}."), 401)
        return True

    def _embed(self, embed: Embed, request: Json) -> None:
        given = request["input"]
        try:
            made = [embed(text) for text in ([given] if isinstance(given, str) else given)]
        except Exception as error:
            self._send(_Ollama.error(f"{type(error).__name__}: {error}"), 500)
            return
        if isinstance(reply := made[0], Reply):
            self._send(_Ollama.error(reply.text), reply.status, reply.headers)
        else:
            self._send({"model": request["model"], "embeddings": [[float(value) for value in row] for row in made]})

    def _chat(self, protocol: _Protocol, request: Json) -> None:
        # The body is sent when the chat no longer counts: its end may be the beginning of the next one.
        with self.server.models.under_way():
            reply = self.server.models.reply(request)
            if self.server.dead.wait(reply.delay):
                self.close_connection = True
                return
            if reply.pieces is not None:
                self._head(reply.status, {"Transfer-Encoding": "chunked", **reply.headers})
                for piece in reply.pieces():
                    self.wfile.write(b"%x\r\n%b\r\n" % (len(piece), piece))
                self.wfile.write(b"0\r\n\r\n")
                return
            if reply.status >= 400 or reply.fails:
                made = protocol.error(reply.fails or reply.text)
            else:
                made = protocol.body(reply, request)
            # A stream is one line.
            body = json.dumps(made).encode() + b"\n"
            self._head(reply.status, {"Content-Length": str(len(body)), **reply.headers})
        if reply.break_off:
            self.close_connection = True
        self.wfile.write(body[: len(body) // 2] if reply.break_off else body)

    def _head(self, status: int, headers: Mapping[str, str]) -> None:
        self.send_response(status)
        for name, value in {"Content-Type": "application/json", **headers}.items():
            self.send_header(name, value)
        self.end_headers()

    def _send(self, body: Json, status: int = 200, headers: Mapping[str, str] | None = None) -> None:
        content = json.dumps(body).encode()
        self._head(status, {"Content-Length": str(len(content)), **(headers or {})})
        self.wfile.write(content)


class _Ollama:
    @staticmethod
    def error(said: str) -> Json:
        return {"error": said}

    @staticmethod
    def unknown(model: str) -> str:
        return f"model '{model}' not found"

    @staticmethod
    def body(reply: Reply, request: Json) -> Json:
        message = {"role": "assistant", "content": reply.text, "thinking": reply.thinking or None}
        body: Json = {"model": request["model"], "created_at": "2026-01-01T00:00:00Z", "message": message}
        body["logprobs"] = reply.logprobs(request) or None
        prompt, completion = reply.counts(request)
        reason = "length" if reply.cut else "stop"
        end = {"done": True, "done_reason": reason, "prompt_eval_count": prompt, "eval_count": completion}
        return body | ({"done": False} if reply.unfinished else end)


class _OpenAI:
    @staticmethod
    def error(said: str) -> Json:
        return {"error": {"message": said, "type": "error", "param": None, "code": None}}

    @staticmethod
    def unknown(model: str) -> str:
        return f"The model `{model}` does not exist."

    @staticmethod
    def body(reply: Reply, request: Json) -> Json:
        thought = {"reasoning_content": reply.thinking} if reply.thinking else {}
        choice = {
            "index": 0,
            "message": {"role": "assistant", "content": reply.text, **thought},
            "logprobs": {"content": logprobs} if (logprobs := reply.logprobs(request)) else None,
            "finish_reason": "length" if reply.cut else "stop",
        }
        prompt, completion = reply.counts(request)
        usage = {"prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": prompt + completion}
        body = {"id": "chat-1", "object": "chat.completion", "created": 0, "model": request["model"], "usage": usage}
        return body | {"choices": [] if reply.unfinished else [choice]}


_Protocol: TypeAlias = "type[_Ollama] | type[_OpenAI]"


@contextmanager
def serving(app: Any, listening: socket.socket) -> Iterator[None]:
    """Serves an ASGI application in a thread, on a socket."""
    import uvicorn

    server = uvicorn.Server(uvicorn.Config(app, log_level="error", timeout_graceful_shutdown=1))
    thread = threading.Thread(target=server.run, args=([listening],))
    thread.start()
    try:
        while thread.is_alive() and not server.started:
            time.sleep(0.01)
        yield
    finally:
        server.should_exit = True
        thread.join()
