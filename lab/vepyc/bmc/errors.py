# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Errors of requests, with the messages of the standard (Base registry) and of vendors."""

from __future__ import annotations

from typing import Any

_BASE = {
    "Success": "The request completed successfully.",
    "GeneralError": "A general error has occurred. See Resolution for information on how to resolve the error.",
    "PropertyUnknown": "The property %1 is not in the list of valid properties for the resource.",
    "PropertyNotWritable": "The property %1 is a read-only property and cannot be assigned a value.",
    "PropertyValueTypeError": "The value %1 for the property %2 is of a different type than the property can accept.",
    "PropertyValueNotInList": "The value %1 for the property %2 is not in the list of acceptable values.",
    "PropertyValueConflict": "The property %1 could not be written because its value would conflict with that of %2.",
    "PropertyMissing": "The property %1 is a required property and must be included in the request.",
    "ActionParameterMissing": "The action %1 requires the parameter %2 to be present in the request body.",
    "ActionParameterNotSupported": "The parameter %1 for the action %2 is not supported on the target resource.",
    "ActionNotSupported": "The action %1 is not supported by the resource.",
    "MalformedJSON": "The request body submitted was malformed JSON and could not be parsed.",
    "ResourceMissingAtURI": "The resource at the URI %1 was not found.",
    "OperationNotAllowed": "The HTTP method is not allowed on this resource.",
    "NoValidSession": "There is no valid session established with the implementation.",
    "InsufficientPrivilege": "There are insufficient privileges for the account to perform the operation.",
    "SessionLimitExceeded": "The session establishment failed due to the number of simultaneous sessions.",
    "ServiceTemporarilyUnavailable": "The service is temporarily unavailable. Retry in %1 seconds.",
    "PreconditionFailed": "The ETag supplied did not match the ETag required to change this resource.",
    "QueryNotSupported": "Querying is not supported by the implementation.",
    "PreconditionRequired": "A precondition header or annotation is required to change this resource.",
}
_OEM = {
    "SMC.1.0.OemLicenseNotPassed": "Not licensed to perform this request. The following licenses DCMS were needed.",
    "IDRAC.2.8.RAC0218": "The maximum number of user sessions is reached.",
    "IDRAC.2.8.SYS011": "Pending configuration values are already committed, unable to perform another set operation.",
    "iLO.2.24.UnableToModifyDuringSystemPOST": "The value cannot be changed while the system is in POST.",
    "Bios.1.0.SettingRefused": "The BIOS did not apply the attribute %1.",
}


def build_message(name: str, *arguments: str, related: str = "", text: str = "") -> dict[str, Any]:
    """Return a message, with its own text unless one is given.

    A name with dots is a vendor's, any other name is of the standard's Base registry.
    """
    text = text or (_OEM[name] if name in _OEM else _BASE[name])
    for number, argument in enumerate(arguments, 1):
        text = text.replace(f"%{number}", f"'{argument}'")
    good = name == "Success"
    document: dict[str, Any] = {
        "@odata.type": "#Message.v1_2_1.Message",
        "MessageId": name if name in _OEM else f"Base.1.18.{name}",
        "Message": text,
        "MessageArgs": list(arguments),
        "MessageSeverity": "OK" if good else "Warning",
        "Severity": "OK" if good else "Warning",
        "Resolution": "None." if good else "Correct the request and send it again.",
    }
    if related:
        document["RelatedProperties"] = [f"#/Attributes/{related}"]
    return document


class RefusedRequest(Exception):
    """Raised for a request that is answered by an error in the standard's form."""

    def __init__(self, status: int, name: str, *arguments: str, headers: dict[str, str] | None = None) -> None:
        super().__init__(name)
        self.status = status
        self.auth = ""  # how the client was authenticated, for the log
        self.headers = headers or {}
        self.messages = [build_message(name, *arguments)]

    def error_document(self) -> dict[str, Any]:
        """Return the error as Redfish sends it."""
        first = self.messages[0]
        return {
            "error": {
                "code": first["MessageId"],
                "message": first["Message"],
                "@Message.ExtendedInfo": self.messages,
            }
        }
