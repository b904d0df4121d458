"""Guard of the page: who may read it, who may change something, and what a browser may do with it."""

from __future__ import annotations

import hashlib
import hmac
import logging
from collections.abc import Mapping
from urllib.parse import urlsplit

from starlette.datastructures import MutableHeaders
from starlette.requests import Request
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from epic_apps.local import HOST

_logger = logging.getLogger("epic_apps")

_HEADERS = {
    "content-security-policy": "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self';"
    " form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
    "x-content-type-options": "nosniff",
    "cross-origin-resource-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "cache-control": "no-store",
}
_CLOSED = "This page needs its token: open the address that `epic inspect` has shown."


class Guard:
    """ASGI middleware that lets nobody but the user's own browser read or change anything.

    The address that is shown has a token, which becomes a cookie with the first request. A request for another host is
    refused (a name that an attacker's DNS points here), and so is one that another page sends. A change must come from
    a form of ours.

    Args:
        app: The page.
        token: The secret of this run.
        port: The port that is listened on.
        write: Whether anything may be changed.
        once: A secret that opens the page once.
    """

    def __init__(self, app: ASGIApp, *, token: str, port: int, write: bool, once: str = "") -> None:
        self._app = app
        self._token = token
        self._once = once
        self._hosts = {f"{HOST}:{port}", f"localhost:{port}"}
        # Cookies do not tell ports apart: two pages at the same time must not take each other's.
        self._cookie = f"epic_inspect_{port}"
        self._write = write

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, or refuse it."""
        if scope["type"] != "http":
            if scope["type"] == "lifespan":
                await self._app(scope, receive, send)
            return

        async def guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in _HEADERS.items():
                    headers[name] = value
                # The browser says "null" as the origin of our own forms under "no-referrer". Only the address with
                # the token has to be kept from the next page, and its answer says so itself.
                headers.setdefault("referrer-policy", "same-origin")
            await send(message)

        refusal = self._refusal(Request(scope))
        await (refusal or self._app)(scope, receive, guarded)

    def _refusal(self, request: Request) -> Response | None:
        headers = request.headers
        if headers.get("upgrade", "").lower() == "websocket":
            _logger.warning("A websocket was refused: the page has none.")
            return PlainTextResponse("The page has no websocket.", 403)
        if headers.get("host") not in self._hosts:
            return PlainTextResponse("This is not the address of the page.", 421)
        if request.method not in ("GET", "HEAD", "POST"):
            return PlainTextResponse("The page knows no such method.", 405)
        # A link to the page is harmless; its content must not go to another page.
        navigates = headers.get("sec-fetch-mode", "navigate") == "navigate" and request.method == "GET"
        if headers.get("sec-fetch-site", "same-origin") not in ("same-origin", "none") and not navigates:
            return PlainTextResponse("Another page may not use this one.", 403)
        given = request.query_params.get("token")
        if given and request.method == "GET":
            if self._once and _same(given, self._once):
                self._once = ""
                return self._welcome()
            if _same(given, self._token):
                return self._welcome()
        if not _same(request.cookies.get(self._cookie, ""), self._token):
            return PlainTextResponse(_CLOSED, 401)
        if request.method != "POST":
            return None
        if not self._write:
            return PlainTextResponse("The memory was opened for reading. `epic inspect --write` may change it.", 403)
        origin = urlsplit(headers.get("origin", ""))
        if origin.scheme != "http" or origin.netloc != headers["host"]:
            return PlainTextResponse("A change must come from this page.", 403)
        return None

    def _welcome(self) -> Response:
        """Keep the token in a cookie, and take it out of the address."""
        answer = RedirectResponse("/", 303)
        answer.set_cookie(self._cookie, self._token, httponly=True, samesite="strict")
        answer.headers["referrer-policy"] = "no-referrer"
        return answer


def form_token(token: str) -> str:
    """Return the secret that every form of the page carries."""
    return hmac.new(token.encode(), b"form", hashlib.sha256).hexdigest()


def is_own_form(form: Mapping[str, str], token: str) -> bool:
    """Tell whether a form is one of the page's."""
    return _same(form.get("form_token", ""), form_token(token))


def _same(given: str, expected: str) -> bool:
    return hmac.compare_digest(given.encode(), expected.encode())
