# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The lab's BMC without TLS and sockets, as a function in place of Ansible's HTTP: a thousand runs take seconds."""

from __future__ import annotations

import io
import json
import urllib.error
from email.message import Message
from typing import Any
from urllib.parse import urlsplit

from ansible_collections.sovereign.epyc.plugins.module_utils._redfish.connection.client import BmcAccess, RedfishClient
from vepyc.bmc import Faults
from vepyc.bmc.accounts import Accounts
from vepyc.bmc.errors import RefusedRequest
from vepyc.bmc.host import Host
from vepyc.bmc.personality import load_personality
from vepyc.bmc.requests import Answer, Requests

PASSWORD = 'p:a/s@s%w"\u00f6rd x'


class Reply:
    """What Ansible's HTTP returns."""

    def __init__(self, answer: Answer) -> None:
        self.status = answer.status
        self.headers: Message[str, str] = Message()
        for name, value in answer.headers.items():
            self.headers[name] = value
        body = answer.text.encode() or (b"" if answer.document is None else json.dumps(answer.document).encode())
        self.read = io.BytesIO(body).read

    def __enter__(self) -> Reply:
        return self

    def __exit__(self, *dummy: object) -> None:
        pass


class DirectBmc:
    """A BMC with a machine, called as Ansible's HTTP is."""

    def __init__(self, vendor: str, faults: Faults) -> None:
        personality = load_personality(vendor)
        self.faults = faults
        self.host = Host(personality, faults, {})
        self.accounts = Accounts("ops", PASSWORD, faults, vendor)
        self.requests = Requests(self.host, self.accounts)
        self.slept: list[float] = []
        self.log: list[tuple[str, str, int]] = []

    def client(self, **more: Any) -> RedfishClient:
        return RedfishClient(BmcAccess("bmc7", "ops", PASSWORD, **more), self, self.slept.append)

    def __call__(self, method: str, url: str, data: bytes | None, headers: dict[str, str], **dummy: Any) -> Reply:
        parts = urlsplit(url)
        sent: Message[str, str] = Message()
        for name, value in headers.items():
            sent[name] = value
        body = json.loads(data) if data else None if method in ("GET", "DELETE") else {}
        try:
            answer, dummy_auth = self.requests.answer_request(method, parts.path, sent, body, parts.query)
        except RefusedRequest as error:
            answer = Answer(error.status, error.error_document(), error.headers)
        self.log.append((method, parts.path, answer.status))
        reply = Reply(answer)
        if answer.status >= 300:
            raise urllib.error.HTTPError(url, answer.status, "", reply.headers, io.BytesIO(reply.read()))
        return reply
