# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Responses of a BMC, and its error messages as a sentence without secrets.

Source: DMTF DSP0266, "Error responses"; DSP2065 for the registry of messages.
"""

from __future__ import annotations

import re
import socket
import ssl

from ..._errors import TuningError
from ..._notation.numbers import parse_whole_number
from .shapes import list_or_empty, object_or_empty

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from typing import Any

    from .scrubbing import Scrubber

#: The number of characters after which a message of a BMC is cut.
MAX_MESSAGE_LENGTH = 300
#: Words in a message that a licence is missing: Supermicro's OEM message, and the standard ones.
NO_LICENCE_WORDS = ("OemLicenseNotPassed", "LicenseNotPassed", "LicenseRequired", "InsufficientLicense", "not licensed")


class BmcError(TuningError):
    """The BMC cannot be reached, or does not do what was requested."""


class BmcBusy(BmcError):
    """The BMC was busy during the whole time in which the request was repeated."""


class NoRedfish(BmcError):
    """The BMC answers with something that is no resource, so nothing is known of the resource."""


class RequestRefused(BmcError):
    """The BMC refused a request; ``response`` has the reason."""

    def __init__(self, sentence: str, response: Response) -> None:
        super().__init__(sentence, status=response.status)
        self.response = response


class Message:
    """A message of a BMC: an entry of ExtendedInfo, or of the messages of a settings object."""

    def __init__(self, entry: Mapping[str, Any]) -> None:
        self.id = str(entry.get("MessageId") or "")
        self.text = str(entry.get("Message") or "")
        self.severity = str(entry.get("MessageSeverity") or entry.get("Severity") or "")
        self.arguments = [str(argument) for argument in list_or_empty(entry.get("MessageArgs"))]
        self.properties = [
            str(path).rsplit("/", 1)[-1].lstrip("#") for path in list_or_empty(entry.get("RelatedProperties"))
        ]

    @property
    def is_success(self) -> bool:
        """Return whether the message only confirms that something worked."""
        return self.id.rsplit(".", 1)[-1] in ("Success", "Created", "AccountModified", "NoOperation") or (
            self.severity.upper() == "OK"
        )

    def mentions_attribute(self, attribute: str) -> bool:
        """Return whether the message is about an attribute, by its properties, its arguments or its text."""
        return (
            attribute in self.properties
            or attribute in self.arguments
            or bool(re.search(rf"(?<![\w#]){re.escape(attribute)}(?![\w#])", self.text))
        )


class Response:
    """One HTTP response: status, headers with names in lower case, and the JSON object of the body."""

    def __init__(
        self, status: int, headers: Mapping[str, str], body: Any, scrubber: Scrubber | None = None, flaw: str = ""
    ) -> None:
        self.status = status
        self.headers = headers
        #: Why the body is no JSON object, "" where it is one.
        self.flaw = flaw
        self.body: dict[str, Any] = body if isinstance(body, dict) else {}
        self._scrubber = scrubber

    @property
    def is_object(self) -> bool:
        """Return whether the body is a JSON object."""
        return not self.flaw

    @property
    def is_success(self) -> bool:
        """Return whether the BMC took a request that changes something."""
        return self.status in (200, 201, 202, 204)

    @property
    def etag(self) -> str | None:
        """Return the entity tag, from the header or else from the body; None without an entity tag."""
        tag = self.headers.get("etag") or self.body.get("@odata.etag")
        return str(tag) if tag else None

    @property
    def messages(self) -> list[Message]:
        """Return the messages in the body: first those of the error, then those of the resource."""
        error = self.body.get("error")
        entries = list_or_empty(object_or_empty(error).get("@Message.ExtendedInfo"))
        entries = [*entries, *list_or_empty(self.body.get("@Message.ExtendedInfo"))]
        messages = [Message(entry) for entry in entries if isinstance(entry, dict)]
        if not messages and isinstance(error, dict):
            messages = [Message({"MessageId": error.get("code"), "Message": error.get("message")})]
        return messages

    def messages_contain_any(self, *words: str) -> bool:
        """Return whether a message contains one of the words."""
        text = " ".join(f"{message.id} {message.text}" for message in self.messages).lower()
        return any(word.lower() in text for word in words)

    @property
    def says_licence_is_missing(self) -> bool:
        return self.status in (400, 403) and self.messages_contain_any(*NO_LICENCE_WORDS)

    def quote_error_messages(self) -> str:
        """Return the error messages in parentheses, with a blank before them; "" without error messages."""
        messages = self.error_messages()
        return f" ('{messages}')" if messages else ""

    def error_messages(self) -> str:
        """Return the texts of all messages except successes, without secrets, cut at MAX_MESSAGE_LENGTH."""
        return join_error_messages(self.messages, self._scrubber)

    def status_and_error_messages(self) -> str:
        """Return status and error messages as the end of a sentence, with a full stop."""
        return f"status {self.status}{self.quote_error_messages()}."

    def retry_after_seconds(self) -> float | None:
        """Return the seconds in the header Retry-After; None for a date or a response without the header."""
        return parse_whole_number(self.headers.get("retry-after", "").strip())


def parse_messages(entries: object) -> Iterator[Message]:
    for entry in list_or_empty(entries):
        if isinstance(entry, dict):
            yield Message(entry)


def join_error_messages(messages: Iterable[Message], scrubber: Scrubber | None = None) -> str:
    """Return the texts of all messages except successes, without secrets, cut at MAX_MESSAGE_LENGTH."""
    texts = [message.text or message.id for message in messages if not message.is_success]
    text = " ".join(texts)
    # Blanks of a secret are part of it, so it is taken out before they are folded.
    text = " ".join((scrubber.scrub_text(text) if scrubber else text).split())
    return text if len(text) <= MAX_MESSAGE_LENGTH else f"{text[:MAX_MESSAGE_LENGTH]}..."


def bmc_connection_error_message(bmc_name: str, error: Exception, timeout: float) -> str:
    """Return sentences on why a BMC cannot be reached and what to do."""
    cause: object = getattr(error, "reason", None) or error
    if isinstance(cause, ssl.SSLCertVerificationError):
        if "expired" in str(cause.verify_message):
            return (
                f"The certificate of the BMC {bmc_name} has expired. Renew it at the BMC, or give its SHA-256 as "
                "fingerprint. No password was sent."
            )
        return (
            f"The certificate of the BMC {bmc_name} cannot be verified: {cause.verify_message}. Give the certificate "
            "of its authority as ca_path, or the SHA-256 of its own as fingerprint. No password was sent."
        )
    if isinstance(cause, ssl.SSLError):
        reason = getattr(cause, "reason", None) or cause.args[-1]
        return f"The BMC {bmc_name} speaks no TLS that is safe: {reason}. No password was sent."
    if isinstance(cause, socket.gaierror):
        return f"The name of the BMC {bmc_name} is unknown here. Check the name and the name server of the controller."
    if isinstance(cause, (TimeoutError, socket.timeout)):
        return (
            f"The BMC {bmc_name} did not answer within {timeout:.0f} seconds. Check its network, or whether it hangs; "
            "a reset of the BMC does not touch the server."
        )
    reason = getattr(cause, "strerror", None) or str(cause) or type(cause).__name__
    return f"The BMC {bmc_name} cannot be reached: {reason}. Check its address, its network and whether it is on."
