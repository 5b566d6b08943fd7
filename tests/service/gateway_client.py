# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Clients of the gateway: reads requests as JSON, sends them by some clients at a time, and prints the answers as JSON.

With ``until`` all of them are sent over and over again, until there is a file of that name.
"""

from __future__ import annotations

import http.client
import json
import ssl
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

ASKED = json.loads(sys.stdin.read())
TLS = ssl.create_default_context()
TLS.check_hostname = False
TLS.verify_mode = ssl.CERT_NONE


def ask(one: dict[str, Any]) -> dict[str, Any]:
    """Send a request, and return its answer; status 0 where there is none."""
    connection = http.client.HTTPSConnection("127.0.0.1", ASKED["port"], timeout=60, context=TLS)
    try:
        connection.putrequest(one["method"], one["path"])
        data = one["text"].encode()
        chunked = one.get("chunked", False)
        connection.putheader(*(("Transfer-Encoding", "chunked") if chunked else ("Content-Length", len(data))))
        for name, value in one["headers"]:
            connection.putheader(name, value)
        connection.endheaders()
        if one.get("part"):  # It says that more will come, and sends no more.
            connection.send(data[: one["part"]])
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


with ThreadPoolExecutor(ASKED["clients"]) as pool:
    answers = list(pool.map(ask, ASKED["requests"]))
    while "until" in ASKED and not Path(ASKED["until"]).exists():
        answers += pool.map(ask, ASKED["requests"])
print(json.dumps(answers))
