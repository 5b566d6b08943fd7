# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Reads the streamed answer of a server: the server-sent events of a completion.

Source: tools/server/README.md of llama.cpp, and the section on server-sent events of the HTML standard.
"""

from __future__ import annotations

import http.client
import json
import socket
import time

from ..._errors import TuningError
from ..._io.foreign_json import parse_json
from . import server_http

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Generator, Mapping
    from typing import Any

LONGEST_LINE = 1 << 20


def stream_events(
    url: str, body: Mapping[str, Any], deadline: float, key: str | None, clock: Any = time, path: str = "/completion"
) -> Generator[dict[str, Any], None, None]:
    """Yield the events of a streamed answer, one for each token, until the deadline or the end of the answer.

    ``path`` is the path of the API below the URL. TuningError for an answer with an error, and for one that breaks off.
    """
    connection, base = server_http.make_connection_and_path_prefix(url, deadline - clock.monotonic())
    headers = {"Content-Type": "application/json", **server_http.authorization_headers(key)}
    try:
        connection.request("POST", base + path, json.dumps(body), headers)
        # The connection drops its socket when the server announces that it will close, so the socket is stored here.
        channel = connection.sock
        response = connection.getresponse()
        if response.status != 200:
            answer = parse_json_or_none(response.read(LONGEST_LINE).decode("utf-8", "replace"))
            raise TuningError(f"{path} answers {response.status}{server_error_message(answer)}.")
        while clock.monotonic() < deadline:
            channel.settimeout(max(deadline - clock.monotonic(), 0.1))
            line = response.readline(LONGEST_LINE)
            if not line:
                return
            word, dummy, text = line.decode("utf-8", "replace").partition(":")
            event = parse_json_or_none(text)
            if word == "error" or (isinstance(event, dict) and "error" in event):
                raise TuningError(f"{path} broke off{server_error_message(event)}.")
            if word == "data" and isinstance(event, dict):
                yield event
    except socket.timeout:
        return
    except (OSError, http.client.HTTPException) as error:
        raise TuningError(f"{path} broke off ({error or type(error).__name__}).") from None
    finally:
        connection.close()


def parse_json_or_none(text: str) -> Any:
    """Return the value of a JSON text; None for other texts."""
    try:
        return parse_json(text)
    except ValueError:
        return None


def server_error_message(answer: Any) -> str:
    """Return the message of the server about an error, after a colon; "" without one."""
    error = answer.get("error", answer) if isinstance(answer, dict) else None
    message = error.get("message") if isinstance(error, dict) else None
    return f": {str(message).rstrip('.')}" if message else ""


def select_numeric_values(value_or_object: Any) -> dict[str, float]:
    """Return the numeric values of a JSON object by key; nothing for other values."""
    items = value_or_object.items() if isinstance(value_or_object, dict) else ()
    return {key: value for key, value in items if isinstance(value, (int, float))}
