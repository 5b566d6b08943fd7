# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Clients of the gateway: reads requests as JSON, sends them by some clients at a time, and prints the answers as JSON.

With ``until`` all of them are sent over and over again, until there is a file of that name. The gateway is at
``host``, or on this one; ``plain`` is for one without TLS. A request may be ``raw`` bytes, have a ``part`` of its body
only, or be a ``trickle``, whose bytes come one by one.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import ssl
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

ASKED = json.loads(sys.stdin.read())
TLS = ssl.create_default_context()
TLS.check_hostname = False
TLS.verify_mode = ssl.CERT_NONE


def connect() -> http.client.HTTPConnection:
    where = ASKED.get("host", "127.0.0.1"), ASKED["port"]
    if ASKED.get("plain"):
        return http.client.HTTPConnection(*where, timeout=60)
    return http.client.HTTPSConnection(*where, timeout=60, context=TLS)


def ask(one: dict[str, Any]) -> dict[str, Any]:
    """Send a request, and return its answer; status 0 where there is none."""
    connection = connect()
    try:
        if "raw" in one:
            return ask_raw(connection, one["raw"])
        connection.putrequest(one["method"], one["path"])
        data = one["text"].encode()
        chunked = one.get("chunked", False)
        connection.putheader(*(("Transfer-Encoding", "chunked") if chunked else ("Content-Length", len(data))))
        for name, value in one["headers"]:
            connection.putheader(name, value)
        connection.endheaders()
        if one.get("part"):  # It says that more will come, and sends no more.
            connection.send(data[: one["part"]])
        elif one.get("trickle"):
            with contextlib.suppress(OSError):
                for place in range(15):
                    connection.send(data[place : place + 1])
                    time.sleep(0.1)
        elif chunked:
            connection.send(b"%x\r\n%s\r\n0\r\n\r\n" % (len(data), data))
        else:
            connection.send(data)
        answer = connection.getresponse()
        headers = {name.lower(): value for name, value in answer.getheaders()}
        return {"status": answer.status, "headers": headers, "text": answer.read().decode()}
    except (OSError, http.client.HTTPException) as error:
        return {"status": 0, "headers": {}, "text": repr(error)}
    finally:
        connection.close()


def ask_raw(connection: http.client.HTTPConnection, text: str) -> dict[str, Any]:
    """Send these bytes, and return all that comes back, with the status of the first answer."""
    connection.connect()
    connection.sock.settimeout(2)
    connection.send(text.encode())
    said = b""
    with contextlib.suppress(OSError):
        while more := connection.sock.recv(1 << 16):
            said += more
    words = said.split(None, 2)
    return {"status": int(words[1]) if len(words) > 1 else 0, "headers": {}, "text": said.decode()}


with ThreadPoolExecutor(ASKED["clients"]) as pool:
    answers = list(pool.map(ask, ASKED["requests"]))
    while "until" in ASKED and not Path(ASKED["until"]).exists():
        answers += pool.map(ask, ASKED["requests"])
print(json.dumps(answers))
