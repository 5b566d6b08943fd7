# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Sends a request with a JSON body to a server, and reads the JSON value of the whole answer."""

from __future__ import annotations

import http.client
import json
import socket
import time

from ..._errors import TuningError
from . import event_stream, server_http

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

#: An embedding response is large: thousands of floats for each input text.
LONGEST_ANSWER = 64 << 20
#: The statuses with which a server turns a client away: it wants a key, refuses this key, or has a limit of requests.
CLIENT_REFUSED = (401, 403, 429)
#: The status with which llama-server refuses requests for a task that it was not started for.
NOT_IMPLEMENTED = 501


class NoAnswerInTime(TuningError):
    """The deadline has passed, and the server has not answered."""


class ErrorAnswer(TuningError):
    """The server answered with a ``status`` other than 200."""

    def __init__(self, sentence: str, status: int) -> None:
        super().__init__(sentence, status=status)
        self.status = status

    @property
    def is_about_client(self) -> bool:
        """Whether the server turns this client away, and may well serve other clients."""
        return self.status in CLIENT_REFUSED

    @property
    def is_about_request(self) -> bool:
        """Whether the server refuses the request itself, so that it refuses the same request of every client."""
        return (400 <= self.status < 500 or self.status == NOT_IMPLEMENTED) and not self.is_about_client


def post_json(url: str, path: str, body: Mapping[str, Any], deadline: float, key: str | None, clock: Any = time) -> Any:
    """Send a request and return the JSON value of its answer.

    NoAnswerInTime after the deadline, ErrorAnswer for an answer with an error, TuningError for a broken connection.
    """
    connection, base = server_http.make_connection_and_path_prefix(url, deadline - clock.monotonic(), is_hook=True)
    headers = {"Content-Type": "application/json", **server_http.authorization_headers(key)}
    try:
        connection.request("POST", f"{base}{path}", json.dumps(body), headers)
        response = connection.getresponse()
        text = response.read(LONGEST_ANSWER).decode("utf-8", "replace")
    except socket.timeout:
        raise NoAnswerInTime(f"{path} does not answer in time.") from None
    except (OSError, http.client.HTTPException) as error:
        raise TuningError(f"{path} broke off ({error or type(error).__name__}).") from None
    finally:
        connection.close()
    answer = event_stream.parse_json_or_none(text)
    if response.status != 200:
        raise ErrorAnswer(
            f"{path} answers {response.status}{event_stream.server_error_message(answer)}.", response.status
        )
    return answer


def add_model_name_to_request(model: str | None, body: dict[str, Any]) -> dict[str, Any]:
    """Return a request with the name of a router's model; without a name, the request itself."""
    return {**body, "model": model} if model else body
