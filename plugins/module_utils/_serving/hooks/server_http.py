# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""HTTP requests to the server of an instance, and waiting until the server serves or is idle.

``/health`` of llama-server needs no key: it answers 503 while the model is read and 200 afterwards, also when all slots
are busy. ``/metrics`` has the number of requests in progress; it needs the key of llama-server, and none of vLLM. A
llama-server that gets SIGTERM during a request that is not streamed hangs until the client disconnects. Source:
tools/server/README.md of llama.cpp.
"""

from __future__ import annotations

import http.client
import os
import socket
import time
from contextlib import suppress
from urllib.parse import quote, urlsplit

from ..._errors import BadRequest, TuningError
from ..._io.kernelfs import KernelFS
from ..catalogue import LLAMA
from .read_progress import measure_read_progress

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any, Optional

    from ..catalogue import EngineRow

    #: The HTTP status and the body. Without an answer, None and the reason.
    Answer = tuple[Optional[int], str]

#: The seconds between two requests, and the timeout of a health check.
PAUSE_SECONDS = 0.2
HEALTH_TIMEOUT = 5.0
#: The seconds between two reports of how much of its model a server has read.
REPORT_SECONDS = 10.0
LARGEST_ANSWER = 1 << 20
#: Larger values of metrics are none; a sum of them would not be finite.
LARGEST_METRIC = 2.0**63
#: Marks the packets of hooks, which must reach the server of their unit also while update/handover.py redirects new
#: connections to another server. The number is one of those for local use (RFC 2474, pool 2), and needs no rights.
HOOK_DSCP = 43
CONNECTION_REFUSED = "the connection is refused"
#: The state that a router reports for a model in memory, and the status of its answers about another model.
LOADED, NOT_LOADED = "loaded", 400


def wait_for_health(
    url: str,
    timeout: float,
    server_process_id: int | None = None,
    clock: Any = time,
    key: str | None = None,
    models: Sequence[str] = (),
    row: EngineRow = LLAMA,
    model_bytes: int = 0,
    report: Callable[[str], None] | None = None,
) -> str:
    """Wait until a server serves and return a sentence with the time; stop as soon as ``server_process_id`` has ended.

    A router serves when all ``models`` are loaded, which it reports only to a client with a key. TuningError after the
    timeout, for an ended process, for a failed model, and for another program at the port.

    ``report`` gets a line now and then with the share of ``model_bytes`` that the process has read.
    """
    started_at = reported_at = clock.monotonic()
    latest_state = CONNECTION_REFUSED
    fs, processes = KernelFS(read_only=True), [server_process_id] if server_process_id else []
    while True:
        seconds_left = timeout - (clock.monotonic() - started_at)
        progress = measure_read_progress(fs, processes, model_bytes)
        if seconds_left <= 0:
            how_far = f"; {progress}" if progress else ""
            raise TuningError(
                f"{url} does not serve after {timeout:g} s: {latest_state}{how_far}. The journal of the unit shows the "
                "start; a large model or a slow disk needs a longer start_timeout."
            )
        if progress and report and clock.monotonic() - reported_at >= REPORT_SECONDS:
            reported_at = clock.monotonic()
            report(f"{url} does not serve yet: {progress}.")
        limit = min(seconds_left, HEALTH_TIMEOUT)
        status, text = send_get_request(url, "/health", limit, is_hook=True)
        healthy = status == 200 and (_has_json_status(text) or not row.health_is_json)
        not_loaded = _unloaded_model_message(url, models, limit, key) if healthy and models else ""
        if healthy and not not_loaded:
            return f"{url} serves after {clock.monotonic() - started_at:.1f} s."
        if not healthy and status not in (None, 503):
            raise TuningError(
                f"{url}/health answers {status} and is not a {row.project} server: another program uses this port."
            )
        latest_state = not_loaded or (text if status is None else "it is reading the model (503)")
        # The process is checked after the request, because it may have ended during the request.
        if server_process_id is not None and _has_process_ended(server_process_id):
            raise TuningError(
                f"{url} will not serve: its process {server_process_id} has ended. The journal of the unit says why."
            )
        clock.sleep(PAUSE_SECONDS)


def wait_until_idle(
    url: str,
    timeout: float,
    key: str | None = None,
    clock: Any = time,
    models: Sequence[str | None] = (None,),
    row: EngineRow = LLAMA,
) -> str:
    """Wait until a server, or each of a router's ``models``, has no request; return a sentence with the time.

    A server that has ended is idle. A server that runs is idle after two such answers in a row, because a request that
    it has accepted a moment ago is not counted yet in the first. TuningError after the timeout.
    """
    started_at = clock.monotonic()
    busy_reason, idle_answers = "it has not answered", 0
    while True:
        seconds_left = timeout - (clock.monotonic() - started_at)
        if seconds_left <= 0:
            raise TuningError(
                f"{url} is not idle after {timeout:g} s: {busy_reason}. Stopping it now cuts these requests off."
            )
        counts = [_count_requests_in_progress(url, model, seconds_left, key, row) for model in models]
        if all(count == 0 for count, dummy in counts):
            reason = counts[0][1]
            idle_answers += 1
            if reason:
                return f"{url} {reason}: it has no request in progress."
            if idle_answers > 1:
                return f"{url} is idle after {clock.monotonic() - started_at:.1f} s."
        else:
            busy_reason, idle_answers = next(words for count, words in counts if count != 0), 0
        clock.sleep(PAUSE_SECONDS)


def _count_requests_in_progress(
    url: str, model: str | None, timeout: float, key: str | None, row: EngineRow
) -> tuple[int | None, str]:
    """Return the number of requests in progress and a sentence on the answer; None for an unknown number."""
    # The server answers between two batches, and a long prompt has many batches.
    status, text = send_get_request(url, path_without_loading_model("/metrics", model), timeout, key, is_hook=True)
    if status is None:
        return (0, "refuses connections") if text == CONNECTION_REFUSED else (None, text)
    if status == 503:
        return 0, "is still reading its model"
    if status == NOT_LOADED and model:
        return 0, ""
    if status != 200:
        raise TuningError(f"{url}/metrics answers {status}: {_metrics_refusal_reason(status, key, row)}")
    count = parse_unfinished_request_count(url, text, row)
    return count, f"{count} request{'' if count == 1 else 's'} in progress" if count else ""


def path_without_loading_model(path: str, model: str | None) -> str:
    """Return the path at which a router answers for one of its models, without loading this model."""
    return f"{path}?model={quote(model, safe='')}&autoload=false" if model else path


def fetch_model_states(url: str, timeout: float, key: str | None) -> dict[str, str]:
    """Return the state of each model of a router, such as "loaded"; nothing where the router does not answer."""
    from ..._io.foreign_json import parse_json

    status, text = send_get_request(url, "/models", timeout, key, is_hook=True)
    try:
        rows = parse_json(text)["data"] if status == 200 else []
        return {row["id"]: "failed" if row["status"].get("failed") else row["status"]["value"] for row in rows}
    except (ValueError, KeyError, TypeError, AttributeError):
        return {}


def parse_unfinished_request_count(url: str, metrics: str, row: EngineRow = LLAMA) -> int:
    """Return the number of requests that are in progress or wait for a slot."""
    numbers = parse_prometheus_metrics(metrics)
    if row.active_request_metrics[0] not in numbers:
        raise TuningError(f"{url}/metrics has no {row.active_request_metrics[0]}: this is not a {row.project} server.")
    return round(sum(numbers.get(name, 0) for name in row.active_request_metrics))


def parse_prometheus_metrics(text: str) -> dict[str, float]:
    """Return the numbers of a Prometheus text by metric name, summed over all labels."""
    numbers: dict[str, float] = {}
    for line in text.splitlines():
        name, dummy, rest = line.partition("{")
        # The value of a label may contain blanks and braces.
        words = [name, *rest.rpartition("}")[2].split()] if rest else line.split()
        with suppress(ValueError, IndexError):
            number = float(words[1])
            # A summary without values has NaN.
            if abs(number) <= LARGEST_METRIC:
                numbers[words[0]] = numbers.get(words[0], 0) + number
    return numbers


def send_get_request(url: str, path: str, timeout: float, key: str | None = None, is_hook: bool = False) -> Answer:
    """Send a request and return its answer; that of a hook reaches the server of the unit and no temporary one."""
    connection, base = make_connection_and_path_prefix(url, timeout, is_hook)
    try:
        connection.request("GET", base + path, headers=authorization_headers(key))
        response = connection.getresponse()
        return response.status, response.read(LARGEST_ANSWER).decode("utf-8", "replace")
    except ConnectionRefusedError:
        return None, CONNECTION_REFUSED
    except (OSError, http.client.HTTPException) as error:
        return None, f"it does not answer ({error or type(error).__name__})"
    finally:
        connection.close()


class _DeadlineSocket(socket.socket):
    """A socket that receives until a deadline, so that a server which sends a byte now and then holds nobody up."""

    def __init__(self, connected: socket.socket) -> None:
        """Take over a connected socket; its timeout begins now, and is for everything that is received."""
        seconds = connected.gettimeout() or 0.0
        super().__init__(connected.family, connected.type, connected.proto, connected.detach())
        self.settimeout(seconds)
        self._deadline = time.monotonic() + seconds

    def recv_into(self, *arguments: Any) -> int:
        """Receive data into a buffer; socket.timeout after the deadline."""
        seconds_left = self._deadline - time.monotonic()
        if seconds_left <= 0:
            raise socket.timeout("timed out")
        self.settimeout(seconds_left)
        return super().recv_into(*arguments)


class _Connection(http.client.HTTPConnection):
    """A connection whose timeout is for the whole answer, and not for each part of it."""

    def connect(self) -> None:
        super().connect()
        self.sock = _DeadlineSocket(self.sock)


class _HookConnection(_Connection):
    """A connection whose packets are marked with HOOK_DSCP from the first one on."""

    def connect(self) -> None:
        for family, kind, protocol, dummy, address in socket.getaddrinfo(self.host, self.port, 0, socket.SOCK_STREAM):
            self.sock = socket.socket(family, kind, protocol)
            self.sock.settimeout(self.timeout)
            level, option = (
                (socket.IPPROTO_IPV6, socket.IPV6_TCLASS)
                if family == socket.AF_INET6
                else (socket.IPPROTO_IP, socket.IP_TOS)
            )
            self.sock.setsockopt(level, option, HOOK_DSCP << 2)
            refusal = self.sock.connect_ex(address)
            if not refusal:
                self.sock = _DeadlineSocket(self.sock)
                return
            self.sock.close()
        raise OSError(refusal, os.strerror(refusal))


def make_connection_and_path_prefix(
    url: str, timeout: float, is_hook: bool = False
) -> tuple[http.client.HTTPConnection, str]:
    """Return a connection that is not open yet, and the prefix of all paths. BadRequest for a bad URL.

    An answer that has not come as a whole after ``timeout`` seconds ends in socket.timeout.
    """
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError:
        parts, host, port = urlsplit(""), None, None
    if parts.scheme != "http" or not host or parts.query or parts.fragment:
        raise BadRequest(f"'{url}' is not the URL of a server; write it like http://127.0.0.1:8080.")
    make_connection = _HookConnection if is_hook else _Connection
    return make_connection(host, port or 80, timeout=max(timeout, 0.1)), parts.path.rstrip("/")


def authorization_headers(key: str | None) -> dict[str, str]:
    """Return the header with which a key is sent; nothing without a key."""
    # http.client sends a header as Latin-1, and the server compares bytes, so the key is passed as UTF-8 bytes.
    return {"Authorization": f"Bearer {key}".encode().decode("latin-1")} if key else {}


def _unloaded_model_message(url: str, models: Sequence[str], timeout: float, key: str | None) -> str:
    """Return a sentence on the first model that is not loaded; "" without one. TuningError for a failed model."""
    states = fetch_model_states(url, timeout, key)
    for model in models:
        if states.get(model) == "failed":
            raise TuningError(f"{url} has no {model}: its server ended. The journal of the unit says why.")
    return next((f"{model} is {states.get(model, 'not there')}" for model in models if states.get(model) != LOADED), "")


def _has_json_status(text: str) -> bool:
    from ..._io.foreign_json import parse_json

    try:
        data = parse_json(text)
    except ValueError:
        return False
    return isinstance(data, dict) and "status" in data


def _has_process_ended(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return True
    except PermissionError:
        pass
    return False


def _metrics_refusal_reason(status: int, key: str | None, row: EngineRow) -> str:
    if status in (401, 403):
        return "it does not accept this key." if key else "it needs a key; name the key file with --key-file."
    if status in (404, 501):
        return "it has no metrics; start the server with --metrics."
    return f"this is not a {row.project} server."
