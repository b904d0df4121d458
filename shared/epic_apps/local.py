"""Listening on this machine alone, for the servers of `epic_apps`."""

from __future__ import annotations

import os
import socket

from epic_memory.errors import InvalidInputError

HOST = "127.0.0.1"
"""The only address that a server of ours listens on."""


def listening_socket(port: int | None) -> socket.socket:
    """Return a socket bound to a port of this machine, or to a free one for None; close it after use.

    Raises:
        InvalidInputError: for a port that cannot be used.
    """
    listening = socket.socket()
    if os.name == "posix":
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        if port == 0:
            raise OverflowError("a server needs a number")
        listening.bind((HOST, port or 0))
    except (OSError, OverflowError) as error:
        listening.close()
        raise InvalidInputError(f"Port {port} cannot be used: {error}. Give another.") from None
    return listening
