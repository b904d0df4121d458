"""Readers of e-mail: one message, or a mailbox of them."""

from __future__ import annotations

import codecs
import mailbox
import re
from collections.abc import Iterator
from email import message_from_bytes, policy
from email.header import decode_header, make_header
from email.message import Message
from email.utils import getaddresses, parsedate_to_datetime
from pathlib import Path
from typing import Any

from epic_apps.cli.readers.base import Left, Section, content_of, opened
from epic_apps.cli.readers.pages import page_of

_LARGEST_MESSAGE = 30_000_000
_LONGEST_HEADER = 1000
# What an answer quotes, and what is passed on, is in the words of somebody else.
_QUOTED = re.compile(
    r"^[ \t]*>|^[ \t]*-{3,} ?[^\W\d_][^\n-]{3,60}-{3,}|^[ \t]*_{20,}[ \t]*$|^begin forwarded message:|"
    r"^[ \t]*(?:on|am|le|el|il|op|em)\b[^\n]{5,200}(?:\n[^\n]{0,200})?"
    r"(?:wrote|schrieb|\u00e9crit|escribi\u00f3|scritto|schreef|escreveu)\b[^\n]{0,100}:[ \t]*$|"
    r"^[ \t]*\*?(?:from|von|de|da|van):[^\n]{1,300}\n(?:[^\n]{0,300}\n){0,3}?"
    r"[ \t]*\*?(?:sent|date|to|subject|gesendet|datum|an|betreff|envoy\u00e9|enviado|inviato|verzonden) ?:",
    re.I | re.M,
)
_SPECIAL = re.compile(r"[^\w .'-]")


class _Cut(policy.Compat32):
    """A policy that cuts each header: the standard library reads them in time that is not linear."""

    def header_source_parse(self, sourcelines: list[str]) -> tuple[str, str]:
        """Return the name and the value of a header."""
        name, value = super().header_source_parse(sourcelines)
        return name, value[:_LONGEST_HEADER]


_POLICY = _Cut()


def read_eml(path: Path) -> Iterator[Section | Left]:
    """Read a message: its plain text, else its HTML; sender, receivers, subject and time are metadata."""
    yield from _message(content_of(path, _LARGEST_MESSAGE), str(path))


def read_mbox(path: Path) -> Iterator[Section | Left]:
    """Read a mailbox, message by message; one that cannot be read is reported."""
    opened(path).close()
    box = mailbox.mbox(path, create=False)
    try:
        for key in box.iterkeys():
            place = f"{path}, message {int(key) + 1}"
            try:
                with box.get_file(key) as file:
                    content = file.read(_LARGEST_MESSAGE + 1)
                if len(content) > _LARGEST_MESSAGE:
                    yield Left(f"{place} has more than {_LARGEST_MESSAGE // 1_000_000} MB")
                else:
                    yield from _message(content, place)
            except Exception as error:
                yield Left(f"{place} cannot be read ({type(error).__name__}: {str(error)[:200]})")
    finally:
        box.close()


def _message(content: bytes, place: str) -> Iterator[Section | Left]:
    message = message_from_bytes(content, policy=_POLICY)
    subject = _header(message, "subject")
    names = {"from": _senders(message), "to": _header(message, "to"), "time": _time(message), "title": subject}
    texts: dict[str, list[str]] = {"text/plain": [], "text/html": []}
    is_quoting = False
    attached = []
    for part in message.walk():
        if part.get_content_maintype() == "multipart":
            continue
        kind, name = part.get_content_type(), part.get_filename()
        if kind not in texts or name is not None:
            attached.append(str(name or kind)[:_LONGEST_HEADER])
            continue
        payload: Any = part.get_payload(decode=True) or b""
        charset = part.get_content_charset("utf-8")
        is_quoting = is_quoting or (kind == "text/html" and b"<blockquote" in payload.lower())
        if kind == "text/html":
            texts[kind] += [section.text for section in page_of(payload)[1]] if not texts["text/plain"] else []
        else:
            texts[kind].append(_decoded(payload, charset))
    text = "\n\n".join(texts["text/plain"]).strip() or "\n\n".join(texts["text/html"]).strip()
    if attached:
        yield Left(f"{place}: attachments {', '.join(attached)[:1000]}", failed=False)
    if text or subject:
        known = {name: value for name, value in names.items() if value}
        if is_quoting or _QUOTED.search(text.replace("\r\n", "\n")):
            # Said of the whole mail: a piece of it does not show that what it holds is quoted.
            known["origin"] = "other"
        yield Section(text or subject, subject if text and len(subject) <= 200 else "", known)
    else:
        yield Left(f"{place} has no text", failed=False)


def _decoded(payload: bytes, charset: str) -> str:
    try:
        # These two are for names of hosts, and take time that is not linear.
        return payload.decode("utf-8" if codecs.lookup(charset).name in ("punycode", "idna") else charset)
    except (LookupError, ValueError):
        return payload.decode("utf-8", "replace")


def _header(message: Message, name: str) -> str:
    return _decoded_header(str(message.get(name, "")))


def _decoded_header(value: str) -> str:
    try:
        return " ".join(str(make_header(decode_header(value))).split())
    except (LookupError, ValueError):
        return " ".join(value.split())


def _senders(message: Message) -> str:
    """Return names and addresses, read before the names are decoded: a name may look like an address."""
    headers = [" ".join(str(each).split()) for each in message.get_all("from", [])]
    pairs = [(_quoted(_decoded_header(name)), address) for name, address in getaddresses(headers)]
    said = [f"{name} <{address}>" if name and address else name or address for name, address in pairs]
    return ", ".join(filter(None, said)) or _header(message, "from")


def _quoted(name: str) -> str:
    escaped = name.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"' if _SPECIAL.search(name) else name


def _time(message: Message) -> str:
    try:
        return parsedate_to_datetime(_header(message, "date")).isoformat()
    except (TypeError, ValueError, OverflowError):
        return ""
