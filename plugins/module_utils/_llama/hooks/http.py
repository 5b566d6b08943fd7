# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""HTTP requests to a llama.cpp server, and how to wait until it serves or until it is idle.

``/health`` answers 503 while the model is read and 200 from then on, without a key, also when all slots are busy.
``/metrics`` needs the key and reports how many requests are in progress. A server that gets SIGTERM while a request
that is not streamed is in progress hangs until the client disconnects.
Source: tools/server/README.md of llama.cpp.
"""

from __future__ import annotations

import http.client
import os
import time
from contextlib import suppress
from urllib.parse import urlsplit

from ..._errors import BadRequest, TuningError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Optional

    #: The status, None where there was no answer; and the body, or the reason why there is none.
    Answer = tuple[Optional[int], str]

IN_WORK = ("llamacpp:requests_processing", "llamacpp:requests_deferred")
#: Seconds between two requests, and the timeout of one health check.
PAUSE = 0.2
HEALTH_TIMEOUT = 5.0
LARGEST_ANSWER = 1 << 20
REFUSED = "the connection is refused"


def await_health(url: str, timeout: float, process: int | None = None, clock: Any = time) -> str:
    """Wait until a server serves and return a sentence on it; stop waiting as soon as its process has ended."""
    begun = clock.monotonic()
    last = REFUSED
    while True:
        left = timeout - (clock.monotonic() - begun)
        if left <= 0:
            raise TuningError(
                f"{url} does not serve after {timeout:g} s: {last}. The journal of the unit says how far it came; a "
                "large model needs more time."
            )
        status, text = ask(url, "/health", min(left, HEALTH_TIMEOUT))
        if status == 200 and _is_llama(text):
            return f"{url} serves after {clock.monotonic() - begun:.1f} s."
        if status not in (None, 503):
            raise TuningError(
                f"{url}/health answers {status} and is not a llama.cpp server: another program uses this port."
            )
        last = text if status is None else "it is reading the model (503)"
        # Checked after the request, because the server may have ended during it.
        if process is not None and _ended(process):
            raise TuningError(
                f"{url} will not serve: its process {process} has ended. The journal of the unit says why."
            )
        clock.sleep(PAUSE)


def drain(url: str, timeout: float, key: str | None = None, clock: Any = time) -> str:
    """Wait until a server is idle and return a sentence on it; a server that has ended is idle."""
    begun = clock.monotonic()
    found = "it has not answered"
    while True:
        left = timeout - (clock.monotonic() - begun)
        if left <= 0:
            raise TuningError(
                f"{url} is not idle after {timeout:g} s: {found}. Stopping it now cuts these requests off."
            )
        # The server answers between two batches, and a long prompt takes many batches.
        status, text = ask(url, "/metrics", left, key)
        if status is None and text == REFUSED:
            return f"{url} refuses connections: it has no request in progress."
        if status == 503:
            return f"{url} is still reading its model: it has no request in progress."
        if status == 200:
            count = in_work(url, text)
            if not count:
                return f"{url} is idle after {clock.monotonic() - begun:.1f} s."
            found = f"{count} request{'' if count == 1 else 's'} in progress"
        elif status is not None:
            raise TuningError(f"{url}/metrics answers {status}: {_why(status, key)}")
        else:
            found = text
        clock.sleep(PAUSE)


def in_work(url: str, metrics: str) -> int:
    """Return how many requests are in progress or wait for a slot."""
    numbers = parse_metrics(metrics)
    if IN_WORK[0] not in numbers:
        raise TuningError(f"{url}/metrics has no {IN_WORK[0]}: this is not a llama.cpp server.")
    return round(sum(numbers.get(name, 0) for name in IN_WORK))


def parse_metrics(text: str) -> dict[str, float]:
    """Return the numbers of a Prometheus text by metric name, summed over all labels."""
    numbers: dict[str, float] = {}
    for line in text.splitlines():
        name, dummy, rest = line.partition("{")
        # A label may hold anything.
        words = [name, *rest.rpartition("}")[2].split()] if rest else line.split()
        with suppress(ValueError, IndexError):
            numbers[words[0]] = numbers.get(words[0], 0) + float(words[1])
    return numbers


def ask(url: str, path: str, timeout: float, key: str | None = None) -> Answer:
    """Send one GET request and return the answer."""
    connection, base = connect(url, timeout)
    try:
        connection.request("GET", base + path, headers=authorization(key))
        response = connection.getresponse()
        return response.status, response.read(LARGEST_ANSWER).decode("utf-8", "replace")
    except ConnectionRefusedError:
        return None, REFUSED
    except (OSError, http.client.HTTPException) as error:
        return None, f"it does not answer ({error or type(error).__name__})"
    finally:
        connection.close()


def connect(url: str, timeout: float) -> tuple[http.client.HTTPConnection, str]:
    """Return a connection that is not open yet, and the prefix of all paths."""
    parts = urlsplit(url)
    try:
        host, port = parts.hostname, parts.port
    except ValueError:
        host = None
    if parts.scheme != "http" or not host or parts.query or parts.fragment:
        raise BadRequest(f"'{url}' is not the URL of a server; write it like http://127.0.0.1:8080.")
    return http.client.HTTPConnection(host, port or 80, timeout=max(timeout, 0.1)), parts.path.rstrip("/")


def authorization(key: str | None) -> dict[str, str]:
    """Return the header with which a key is sent."""
    # A header is sent as Latin-1, and the server compares bytes.
    return {"Authorization": f"Bearer {key}".encode().decode("latin-1")} if key else {}


def _is_llama(text: str) -> bool:
    import json

    try:
        data = json.loads(text)
    except ValueError:
        return False
    return isinstance(data, dict) and "status" in data


def _ended(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return True
    except PermissionError:
        pass
    return False


def _why(status: int, key: str | None) -> str:
    if status in (401, 403):
        return "it does not accept this key." if key else "it needs a key; name the key file with --key-file."
    if status in (404, 501):
        return "it has no metrics; start the server with --metrics."
    return "this is not a llama.cpp server."
