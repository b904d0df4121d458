"""ASGI application of the page: its addresses, its forms, and how it is served."""

from __future__ import annotations

import logging
import secrets
import threading
import webbrowser
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlencode

import jinja2
import python_multipart  # noqa: F401 - request.form needs it: it is missed here, not when a file is dropped
import uvicorn
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.middleware import Middleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import HTMLResponse, PlainTextResponse, RedirectResponse, Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from epic_apps.inspect import words
from epic_apps.inspect.bringing import LARGEST, MOST_FILES, Bringing
from epic_apps.inspect.changes import CHANGES, LONGEST_FORM, Change, editable, whole
from epic_apps.inspect.guard import Guard, form_token, is_own_form
from epic_apps.inspect.views import Tier, Views, known_preference
from epic_apps.local import HOST, listening_socket
from epic_apps.losses import why_not
from epic_memory import EpicMemory, SearchOptions
from epic_memory.errors import EpicError, InvalidInputError
from epic_memory.preferences.foreign import language_for

_logger = logging.getLogger("epic_apps")

_HERE = Path(__file__).parent
_LONGEST_QUERY = 10_000
_MOST_RESULTS = 200
_TABS = {
    "/": "Overview",
    "/query": "Ask",
    "/preferences": "Preferences",
    "/held": "Held",
    "/map": "Map",
    "/turned-away": "Turned away",
    "/facts": "Facts",
    "/proposals": "Proposals",
    "/bring": "Bring in",
    "/why-not": "Why not",
}


class _Page:
    """The handlers of the page."""

    def __init__(self, memory: EpicMemory, token: str, *, write: bool) -> None:
        self.memory = memory
        self.views = Views(memory)
        self._token = token
        self.bringing = Bringing(memory)
        self._changes: dict[str, Change] = {
            **CHANGES,
            "bring/import": Change(self.bringing.take, "/bring", "Imported."),
            "bring/leave": Change(self.bringing.leave, "/bring", "Nothing was imported."),
            "bring/sync": Change(self.bringing.sync, "/bring", "The memory holds what the folder holds."),
            "bring/unsync": Change(self.bringing.unsync, "/bring", "No longer in step, and forgotten."),
        }
        self._templates = jinja2.Environment(
            loader=jinja2.FileSystemLoader(_HERE / "templates"),
            autoescape=True,
            undefined=jinja2.StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
        )
        self._templates.filters.update(
            shown=words.shown,
            editable=editable,
            size=words.size,
            chance=words.chance,
        )
        self._templates.globals.update(
            words=words,
            tabs=_TABS,
            link=_link,
            write=write,
            form_token=form_token(token),
            path=str(memory.file.path or ""),
            most_results=_MOST_RESULTS,
            most_files=MOST_FILES,
        )

    def held(self, request: Request) -> dict[str, Any]:
        asked = request.query_params.get("tier")
        tier: Tier = "kept" if asked == "kept" else "light" if asked == "light" else "all"
        return self.views.held(self.preference(request), tier, _page(request), _asked(request))

    def query(self, request: Request) -> dict[str, Any]:
        text = _asked(request)
        k = min(max(whole(request.query_params.get("k", ""), 5), 1), _MOST_RESULTS)
        return self.views.query(text, k) if text else {"query": "", "k": k}

    def why_not(self, request: Request) -> dict[str, Any]:
        text = _asked(request)
        return {"query": text, "found": why_not(self.memory, text) if text else None}

    async def drop(self, request: Request) -> Response:
        """Keep dropped files for a moment, and show what is in them."""
        if _size_of(request) > LARGEST:
            return PlainTextResponse(f"At most {LARGEST // 10**9} GB at once: use epic import.", 413)
        try:
            async with request.form(max_files=MOST_FILES) as form:
                fields = {name: value for name, value in form.items() if isinstance(value, str)}
                if not is_own_form(fields, self._token):
                    return PlainTextResponse("A change must come from a form of this page.", 403)
                files = [each for each in form.getlist("files") if not isinstance(each, str)]
                await run_in_threadpool(self.bringing.drop, files, fields.get("user", ""))
        except ClientDisconnect:
            return Response(status_code=400)
        return RedirectResponse("/bring", 303)

    async def change(self, request: Request) -> Response:
        """Do what a form asks for, and lead to where it shows."""
        body = b""
        try:
            async for part in request.stream():
                body += part
                if len(body) > LONGEST_FORM:
                    return PlainTextResponse("The form is too long.", 413)
        except ClientDisconnect:
            _logger.warning("A form broke off before it was complete: nothing was changed.")
            return Response(status_code=400)
        try:
            fields = parse_qs(body.decode(), keep_blank_values=True, max_num_fields=50)
        except ValueError:
            return PlainTextResponse("This is no form of the page.", 400)
        form = {name: values[0].replace("\r\n", "\n") for name, values in fields.items()}
        if not is_own_form(form, self._token):
            return PlainTextResponse("A change must come from a form of this page.", 403)
        name = request.path_params["name"]
        if name not in self._changes:
            return PlainTextResponse("There is no such change.", 404)
        change = self._changes[name]
        try:
            await run_in_threadpool(change.do, self.memory, form)
        except KeyError:
            return PlainTextResponse("The form is not complete.", 400)
        return RedirectResponse(_link(change.leads_to, done=name), 303)

    def failed(self, request: Request, error: Exception) -> Response:
        """Say what went wrong, and what to do about it."""
        unknown = isinstance(error, LookupError)
        return self._shown(request, "error.html", {"message": words.shown(error, 2_000)}, 404 if unknown else 400)

    def _shown(self, request: Request, name: str, view: Mapping[str, Any], status: int = 200) -> Response:
        done = self._changes.get(request.query_params.get("done", ""))
        around: dict[str, Any] = {
            "tab": request.url.path,
            "done": done.done if done else "",
            "namespace": self.memory.namespace,
        }
        # An error page is without what frames the others: the file may be what fails.
        frame = self.views.frame() if status == 200 else {}
        language = self.memory.settings.language or language_for(frame.get("preferences", ()))
        around |= {"language": language, "_": words.said_in(language), "day": partial(words.day, language=language)}
        return HTMLResponse(self._templates.get_template(name).render({**around, **frame, **view}), status)

    def view(self, name: str, read: Callable[[Request], Mapping[str, Any]]) -> Callable[[Request], Response]:
        """Return the handler of a view, drawn from what is read for a request."""
        return lambda request: self._shown(request, f"{name}.html", read(request))

    def preference(self, request: Request) -> str:
        """Return the id of the held preference that a request names, or nothing."""
        return known_preference(self.memory.preferences, request.query_params.get("preference", ""))


def inspect_app(memory: EpicMemory, *, token: str, port: int, write: bool = False, once: str = "") -> Starlette:
    """Return the ASGI application of the page.

    Args:
        memory: The memory, open as long as the page is served; opened with `read_only=True` unless `write`.
        token: A secret of this run, as `secrets.token_urlsafe()` makes it.
        port: The port of 127.0.0.1 that it is served on: requests for another address are refused.
        write: Whether the page may change the memory.
        once: Another secret, which opens the page once: for an address that others on this machine may see.

    Raises:
        InvalidInputError: for a token that can be guessed.
    """
    if len(token) < 16 or not token.isascii():
        raise InvalidInputError("The token must have at least 16 ASCII characters.")
    page = _Page(memory, token, write=write)
    views = page.views
    read: dict[str, Callable[[Request], Mapping[str, Any]]] = {
        "overview": lambda request: views.overview(),
        "query": page.query,
        "preferences": lambda request: views.preferences(),
        "held": page.held,
        "item": lambda request: views.item(request.query_params.get("id", "") or "?"),
        "map": lambda request: views.map(page.preference(request)),
        "turned_away": lambda request: views.turned_away(_page(request)),
        "facts": lambda request: views.facts(),
        "proposals": lambda request: views.proposals(),
        "bring": lambda request: {**page.bringing.view(), "large": "large" in request.query_params},
        "why_not": page.why_not,
    }
    paths = {name: "/" if name == "overview" else f"/{name.replace('_', '-')}" for name in read}
    return Starlette(
        routes=[
            *(Route(paths[name], page.view(name, each)) for name, each in read.items()),
            Route("/drop", page.drop, methods=["POST"]),
            Route("/do/{name:path}", page.change, methods=["POST"]),
            Mount("/static", StaticFiles(directory=_HERE / "static")),
        ],
        middleware=[Middleware(Guard, token=token, port=port, write=write, once=once)],
        exception_handlers={EpicError: page.failed, OSError: page.failed},
    )


def run_inspect(
    memory: EpicMemory,
    announce: Callable[[str], object],
    *,
    write: bool = False,
    port: int | None = None,
    browser: bool = True,
) -> None:
    """Serve the page on 127.0.0.1, until it is interrupted.

    Args:
        memory: As for `inspect_app`.
        announce: Told the address, with its token.
        write: Whether the page may change the memory.
        port: The port; None for a free one.
        browser: Whether to open the page in the user's browser.

    Raises:
        InvalidInputError: for a port that cannot be used.
    """
    # Whoever lists the processes of this machine sees the address that a browser is started with.
    token, once = secrets.token_urlsafe(24), secrets.token_urlsafe(24)
    with listening_socket(port) as listening:
        number = listening.getsockname()[1]
        app = inspect_app(memory, token=token, port=number, write=write, once=once)
        # No access log: nobody needs to know from it what was looked at, and when. The server's warnings are of what
        # others send, and of a library for websockets.
        config = uvicorn.Config(app, ws="none", log_level="error", access_log=False, timeout_graceful_shutdown=2)
        address = f"http://{HOST}:{number}/?token="
        listening.listen()  # so that a visitor who is faster than the server waits
        announce(address + token)
        # Reading ahead while the browser starts; what fails here is said by the page that needs it.
        threading.Thread(target=read_ahead, args=(memory,), daemon=True).start()
        if browser:
            threading.Thread(target=partial(webbrowser.open, address + once), daemon=True).start()
        uvicorn.Server(config).run([listening])


def read_ahead(memory: EpicMemory) -> None:
    """Read what the first views need, so that they need not wait for it."""
    with suppress(EpicError):
        memory.file.outline()
        # A search reads all that any search needs; no text is that near, so nothing counts as used.
        memory.search("What is this about?", k=1, options=SearchOptions(min_score=1.0))


def _link(path: str, **query: object) -> str:
    """Return an address of the page, without what is empty."""
    given = {name: value for name, value in query.items() if value not in ("", None)}
    return f"{path}?{urlencode(given)}" if given else path


def _page(request: Request) -> int:
    return whole(request.query_params.get("page", ""), 1)


def _asked(request: Request) -> str:
    return request.query_params.get("q", "").strip()[:_LONGEST_QUERY]


def _size_of(request: Request) -> int:
    """Return the bytes that a request announces; more than is allowed if it announces none."""
    told = request.headers.get("content-length", "")
    return int(told) if told.isascii() and told.isdigit() else LARGEST + 1
