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
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
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
        fails: An error that takes the place of the rest, in the middle of a body with status 200.
        not_json: The body is a page of HTML.
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
    not_json: bool = False
    pieces: Callable[[], Iterable[bytes]] | None = None

    def given_tokens(self) -> Sequence[tuple[str, float]]:
        """The tokens, which are the words with the space before them if there are no others."""
        if self.tokens is not None:
            return self.tokens
        return [(word, -0.1) for word in re.findall(r"\s*\S+|\s+$", self.text)]

    def parts(self) -> list[tuple[str, Sequence[tuple[str, float]]]]:
        """The pieces of text that a stream consists of, with the tokens of each."""
        tokens = self.given_tokens()
        if "".join(text for text, _ in tokens) == self.text:
            return [(token[0], [token]) for token in tokens]
        return [(self.text, tokens)]


Answer: TypeAlias = Callable[[Json], "str | Reply"]
Embed: TypeAlias = Callable[[str], Iterable[float]]


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

    It may be stopped and started again, on the same port. What `answer` raises becomes a status of 500.

    Args:
        answer: Says what to answer to the decoded body of a request; may be exchanged at any time.
        models: The names of the models there are.
        api_key: A key that requests must bear.
        embed: Makes the embedding of a text; None for a server that does not embed. What it raises becomes a
            status of 500.
        context: How many tokens its models take, as Ollama shows it; None if it does not say.

    Attributes:
        elsewhere: Where requests for embeddings are sent on to, if they are.
        requests: Every request, in the order of arrival.
        served: Each chat's request, and the seconds from its arrival until the response was written.
        connections: How many connections were made.
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
        self.elsewhere = ""
        self.requests: list[Request] = []
        self.served: list[tuple[Json, float]] = []
        self.connections = 0
        self.most_at_once = 0
        self._under_way = 0
        self._lock = threading.Lock()
        self._port = 0
        self._http: _HTTPServer | None = None
        self._thread: threading.Thread | None = None

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

    def start(self) -> None:
        """Begin to listen, on the port of the last time if there was one."""
        self._http = _HTTPServer(("127.0.0.1", self._port), self)
        self._port = self._http.server_address[1]
        self._thread = threading.Thread(target=self._http.serve_forever, args=(0.002,), daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Die: connections end, and requests that are under way get no answer."""
        if self._http is None or self._thread is None:
            return
        self._http.die()
        self._thread.join()
        self._http = self._thread = None

    def __enter__(self) -> LMServer:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def note(self, request: Request) -> None:
        """Remember a request."""
        with self._lock:
            self.requests.append(request)

    def note_connection(self) -> None:
        """Count a connection."""
        with self._lock:
            self.connections += 1

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
    """Keeps its open connections, to end them when it dies."""

    request_queue_size = 256

    def __init__(self, address: tuple[str, int], models: LMServer) -> None:
        super().__init__(address, _Handler)
        self.models = models
        self.dead = threading.Event()
        self._open: set[socket.socket] = set()
        self._lock = threading.Lock()

    def opened(self, connection: socket.socket) -> None:
        self.models.note_connection()
        with self._lock:
            self._open.add(connection)
        if self.dead.is_set():
            connection.shutdown(socket.SHUT_RDWR)

    def closed(self, connection: socket.socket) -> None:
        with self._lock:
            self._open.discard(connection)

    def die(self) -> None:
        self.dead.set()
        self.shutdown()
        self.server_close()
        with self._lock:
            for connection in self._open:
                try:
                    connection.shutdown(socket.SHUT_RDWR)
                except OSError:  # the client was faster
                    continue

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing: clients that go away in the middle are part of the tests."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: _HTTPServer

    def setup(self) -> None:
        super().setup()
        self.server.opened(self.connection)

    def finish(self) -> None:
        self.server.closed(self.connection)
        super().finish()

    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing."""

    def do_GET(self) -> None:
        models = self.server.models
        models.note(Request(self.path, dict(self.headers), {}))
        if self._refused():
            return
        if self.path == "/api/tags":
            names = [name if ":" in name else f"{name}:latest" for name in models.models]
            self._whole({"models": [{"name": name, "model": name, "digest": "0" * 64} for name in names]})
        elif self.path == "/v1/models":
            data = [{"id": name, "object": "model", "created": 0, "owned_by": "tests"} for name in models.models]
            self._whole({"object": "list", "data": data})
        else:
            self._whole({"error": "not found"}, 404)

    def do_POST(self) -> None:
        models = self.server.models
        request: Json = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        models.note(Request(self.path, dict(self.headers), request))
        protocol = _PROTOCOLS.get(self.path)
        if self.path == "/api/embed" and models.embed is not None:
            self._embed(models.embed, request)
        elif self.path == "/api/show":
            self._show(request["model"])
        elif protocol is None:
            self._whole({"error": "not found"}, 404)
        elif self._refused():
            return
        elif not models.has(request["model"]):
            self._whole(protocol.error(protocol.unknown(request["model"])), 404)
        else:
            began = time.perf_counter()
            self._chat(protocol, request)
            models.served.append((request, time.perf_counter() - began))

    def _embed(self, embed: Embed, request: Json) -> None:
        if self.server.models.elsewhere:
            self._head(Reply(status=307), {"Location": self.server.models.elsewhere + self.path, "Content-Length": "0"})
            return
        if not self.server.models.has(request["model"]):
            self._whole(_Ollama.error(_Ollama.unknown(request["model"])), 404)
            return
        try:
            given = request["input"]
            texts = [given] if isinstance(given, str) else given
            vectors = [[float(value) for value in embed(text)] for text in texts]
        except Exception as error:
            self._whole(_Ollama.error(f"{type(error).__name__}: {error}"), 500)
            return
        self._whole({"model": request["model"], "embeddings": vectors})

    def _show(self, model: str) -> None:
        models = self.server.models
        if not models.has(model):
            self._whole(_Ollama.error(_Ollama.unknown(model)), 404)
            return
        known = {} if models.context is None else {"tiny.context_length": models.context}
        self._whole({"model_info": {"general.architecture": "tiny", **known}})

    def _refused(self) -> bool:
        key = self.server.models.api_key
        given = self.headers.get("Authorization")
        if key is None or given == f"Bearer {key}":
            return False
        self._whole(_OpenAI.error(f"Incorrect API key provided: {given}."), 401)
        return True

    def _chat(self, protocol: _Protocol, request: Json) -> None:
        streaming = request.get("stream", protocol.streams_by_default)
        # The last part is sent when the chat no longer counts: its end may be the beginning of the next one.
        with self.server.models.under_way():
            reply = self.server.models.reply(request)
            if self.server.dead.wait(reply.delay):
                self.close_connection = True
                return
            if reply.pieces is not None:
                self._send_pieces(reply, reply.pieces())
                return
            parts = self._parts(protocol, reply, request)
            streaming = streaming and reply.status < 400 and not reply.not_json
            if streaming:
                self._head(reply, {"Content-Type": protocol.streamed, "Transfer-Encoding": "chunked"})
                half = len(parts) // 2
                for number, part in enumerate(parts[:-1]):
                    if reply.break_off and number == half:
                        break
                    self._send_chunk(part)
            else:
                kind = "text/html" if reply.not_json else "application/json"
                self._head(reply, {"Content-Type": kind, "Content-Length": str(len(parts[0]))})
        if reply.break_off:
            self.wfile.write(b"" if streaming else parts[0][: len(parts[0]) // 2])
            self.close_connection = True
        elif streaming:
            self._send_chunk(parts[-1])
            self.wfile.write(b"0\r\n\r\n")
        else:
            self.wfile.write(parts[0])

    @staticmethod
    def _parts(protocol: _Protocol, reply: Reply, request: Json) -> list[bytes]:
        """What the body consists of."""
        if reply.status >= 400:
            return [json.dumps(protocol.error(reply.text)).encode()]
        if reply.not_json:
            return [b"<html><body>Welcome.</body></html>"]
        if request.get("stream", protocol.streams_by_default):
            return [protocol.line(part) for part in protocol.stream(reply, request)]
        return [json.dumps(protocol.whole(reply, request)).encode()]

    def _send_pieces(self, reply: Reply, pieces: Iterable[bytes]) -> None:
        self._head(reply, {"Content-Type": "application/json", "Transfer-Encoding": "chunked"})
        for piece in pieces:
            self._send_chunk(piece)
        self.wfile.write(b"0\r\n\r\n")

    def _head(self, reply: Reply, headers: Mapping[str, str]) -> None:
        self.send_response(reply.status)
        for name, value in {**headers, **reply.headers}.items():
            self.send_header(name, value)
        self.end_headers()

    def _send_chunk(self, part: bytes) -> None:
        self.wfile.write(b"%x\r\n%b\r\n" % (len(part), part))

    def _whole(self, body: Json, status: int = 200) -> None:
        content = json.dumps(body).encode()
        self._head(Reply(status=status), {"Content-Type": "application/json", "Content-Length": str(len(content))})
        self.wfile.write(content)


def _counts(reply: Reply, request: Json) -> tuple[int, int]:
    prompt, completion = reply.prompt_tokens, reply.completion_tokens
    if prompt is None:
        prompt = sum(len(message["content"].split()) for message in request["messages"])
    return prompt, len(reply.given_tokens()) if completion is None else completion


def _logprobs(tokens: Iterable[tuple[str, float]]) -> list[Json]:
    return [
        {"token": token, "logprob": logprob, "bytes": list(token.encode()), "top_logprobs": []}
        for token, logprob in tokens
    ]


class _Ollama:
    streamed = "application/x-ndjson"
    streams_by_default = True

    @staticmethod
    def error(said: str) -> Json:
        return {"error": said}

    @staticmethod
    def unknown(model: str) -> str:
        return f"model '{model}' not found"

    @staticmethod
    def line(part: Json | str) -> bytes:
        return json.dumps(part).encode() + b"\n"

    @classmethod
    def whole(cls, reply: Reply, request: Json) -> Json:
        if reply.fails:
            return cls.error(reply.fails)
        part = cls._part(request, reply.text, reply.given_tokens(), reply.thinking)
        return part if reply.unfinished else part | cls._end(reply, request)

    @classmethod
    def stream(cls, reply: Reply, request: Json) -> list[Json]:
        parts = [cls._part(request, text, tokens) for text, tokens in reply.parts()]
        if reply.thinking:
            parts.insert(0, cls._part(request, "", (), reply.thinking))
        if reply.fails:
            return [*parts[: len(parts) // 2], cls.error(reply.fails)]
        return parts if reply.unfinished else [*parts, cls._part(request, "", ()) | cls._end(reply, request)]

    @staticmethod
    def _part(request: Json, text: str, tokens: Iterable[tuple[str, float]], thinking: str = "") -> Json:
        message = {"role": "assistant", "content": text} | ({"thinking": thinking} if thinking else {})
        part = {"model": request["model"], "created_at": "2026-01-01T00:00:00Z", "message": message, "done": False}
        logprobs = _logprobs(tokens) if request.get("logprobs") else []
        return part | ({"logprobs": logprobs} if logprobs else {})

    @staticmethod
    def _end(reply: Reply, request: Json) -> Json:
        prompt, completion = _counts(reply, request)
        reason = "length" if reply.cut else "stop"
        return {"done": True, "done_reason": reason, "prompt_eval_count": prompt, "eval_count": completion}


class _OpenAI:
    streams_by_default = False

    @staticmethod
    def error(said: str) -> Json:
        return {"error": {"message": said, "type": "error", "param": None, "code": None}}

    @staticmethod
    def unknown(model: str) -> str:
        return f"The model `{model}` does not exist."

    @classmethod
    def whole(cls, reply: Reply, request: Json) -> Json:
        if reply.fails:
            return cls.error(reply.fails)
        message: Json = {"role": "assistant", "content": reply.text}
        if reply.thinking:
            message["reasoning_content"] = reply.thinking
        choice = cls._choice({"message": message}, request, reply.given_tokens())
        if reply.unfinished:
            return cls._body(request, "chat.completion", [])
        choice["finish_reason"] = cls._reason(reply)
        return cls._body(request, "chat.completion", [choice]) | {"usage": cls._usage(reply, request)}

    @staticmethod
    def _choice(said: Json, request: Json, tokens: Iterable[tuple[str, float]]) -> Json:
        logprobs = _logprobs(tokens) if request.get("logprobs") else []
        return {"index": 0, **said, "logprobs": {"content": logprobs} if logprobs else None, "finish_reason": None}

    @staticmethod
    def _reason(reply: Reply) -> str:
        return "length" if reply.cut else "stop"

    @staticmethod
    def _body(request: Json, kind: str, choices: list[Json]) -> Json:
        return {"id": "chat-1", "object": kind, "created": 0, "model": request["model"], "choices": choices}

    @staticmethod
    def _usage(reply: Reply, request: Json) -> Json:
        prompt, completion = _counts(reply, request)
        return {"prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": prompt + completion}


_Protocol: TypeAlias = "type[_Ollama] | type[_OpenAI]"
"""How requests are answered: in one piece, or as a stream of parts."""
_PROTOCOLS: dict[str, _Protocol] = {"/api/chat": _Ollama, "/v1/chat/completions": _OpenAI}


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
