# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a BMC answers, and its errors in words: one sentence, without a secret.

Source: DMTF DSP0266, "Error responses"; DSP2065 for the registry of messages.
"""

from __future__ import annotations

import re
import socket
import ssl

from ..._errors import TuningError
from ..._notation.numbers import parse_whole

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from typing import Any

#: How much of a message of a BMC is told.
LONGEST = 300
#: Words of a licence that is missing: Supermicro's OEM message, and the standard one.
NO_LICENCE = ("OemLicenseNotPassed", "LicenseNotPassed", "LicenseRequired", "InsufficientLicense", "not licensed")


class BmcError(TuningError):
    """The BMC cannot be asked, or does not do what it is asked."""


class Busy(BmcError):
    """The BMC answers that it is busy, for longer than anybody waits."""


class RefusedByBmc(BmcError):
    """The BMC refused one request; ``answer`` is what it said."""

    def __init__(self, sentence: str, answer: Answer) -> None:
        super().__init__(sentence, status=answer.status)
        self.answer = answer


class Message:
    """One entry of ExtendedInfo, or of the messages of a settings object."""

    def __init__(self, told: Mapping[str, Any]) -> None:
        self.id = str(told.get("MessageId") or "")
        self.text = str(told.get("Message") or "")
        self.severity = str(told.get("MessageSeverity") or told.get("Severity") or "")
        self.arguments = [str(one) for one in told.get("MessageArgs") or ()]
        self.properties = [str(one).rsplit("/", 1)[-1].lstrip("#") for one in told.get("RelatedProperties") or ()]

    @property
    def good(self) -> bool:
        """Return whether it only says that something worked."""
        return self.id.rsplit(".", 1)[-1] in ("Success", "Created", "AccountModified", "NoOperation") or (
            self.severity.upper() == "OK"
        )

    def names(self, attribute: str) -> bool:
        """Return whether it speaks of an attribute."""
        return (
            attribute in self.properties
            or attribute in self.arguments
            or bool(re.search(rf"(?<![\w#]){re.escape(attribute)}(?![\w#])", self.text))
        )


class Answer:
    """Status, headers with names in lower case, and the JSON of the body."""

    def __init__(self, status: int, headers: Mapping[str, str], body: Any, secret: str = "") -> None:
        self.status = status
        self.headers = headers
        self.body: dict[str, Any] = body if isinstance(body, dict) else {}
        self._secret = secret

    @property
    def etag(self) -> str | None:
        """Return the entity tag, from the header or else from the resource."""
        tag = self.headers.get("etag") or self.body.get("@odata.etag")
        return str(tag) if tag else None

    @property
    def messages(self) -> list[Message]:
        """Return what is said in the body of an error, or beside the resource."""
        error = self.body.get("error")
        told = list(error.get("@Message.ExtendedInfo") or ()) if isinstance(error, dict) else []
        told += self.body.get("@Message.ExtendedInfo") or ()
        found = [Message(one) for one in told if isinstance(one, dict)]
        if not found and isinstance(error, dict):
            found = [Message({"MessageId": error.get("code"), "Message": error.get("message")})]
        return found

    def says(self, *words: str) -> bool:
        """Return whether a message holds one of the words."""
        text = " ".join(f"{one.id} {one.text}" for one in self.messages).lower()
        return any(word.lower() in text for word in words)

    @property
    def licence(self) -> bool:
        """Return whether a licence is missing."""
        return self.status in (400, 403) and self.says(*NO_LICENCE)

    def reason(self) -> str:
        """Return what the BMC says, in parentheses, to stand behind a word; empty where it says nothing."""
        said = self.said()
        return f" ('{said}')" if said else ""

    def said(self) -> str:
        """Return the messages that are no success, cut short, without the password."""
        texts = [one.text or one.id for one in self.messages if not one.good]
        text = " ".join(" ".join(texts).split())
        if self._secret:
            text = text.replace(self._secret, "***")
        return text if len(text) <= LONGEST else f"{text[:LONGEST]}..."

    def sentence(self) -> str:
        """Return status and message as a sentence."""
        return f"status {self.status}{self.reason()}."

    def seconds_to_wait(self) -> float | None:
        """Return what the header Retry-After says in seconds; None for a date or nothing."""
        return parse_whole(self.headers.get("retry-after", "").strip())


def messages_of(told: Iterable[Any]) -> Iterator[Message]:
    """Yield the messages of a list of a resource."""
    for one in told:
        if isinstance(one, dict):
            yield Message(one)


def explain(name: str, error: Exception, timeout: float) -> str:
    """Return why a BMC cannot be reached, and what to do."""
    cause: object = getattr(error, "reason", None) or error
    if isinstance(cause, ssl.SSLCertVerificationError):
        return (
            f"The certificate of the BMC {name} cannot be verified: {cause.verify_message}. Give the certificate of "
            "its authority as ca_path, or the SHA-256 of its own as fingerprint. No password was sent."
        )
    if isinstance(cause, ssl.SSLError):
        why = getattr(cause, "reason", None) or cause.args[-1]
        return f"The BMC {name} speaks no TLS that is safe: {why}. No password was sent."
    if isinstance(cause, socket.gaierror):
        return f"The name of the BMC {name} is not known here. Check the name and the name server of the controller."
    if isinstance(cause, (TimeoutError, socket.timeout)):
        return (
            f"The BMC {name} did not answer within {timeout:.0f} seconds. Check its network, or whether it hangs; its "
            "own reset does not touch the server."
        )
    words = getattr(cause, "strerror", None) or str(cause) or type(cause).__name__
    return f"The BMC {name} cannot be reached: {words}. Check its address, its network and whether it is on."
