# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""A recording of what a BMC answers, without anything that names a person, a place or one machine.

A recording holds the resources by their paths, and is replayed by the emulator of the lab. The same name has the same
placeholder everywhere, so that links still lead to their resources.
"""

from __future__ import annotations

import json
import re

from .attributes.redaction import redact_secret_values

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from typing import Any

    from .attributes.registry import Registry
    from .connection.responses import Response
    from .connection.scrubbing import Scrubber

FORMAT = 1
#: Headers that say how a BMC takes requests.
KEPT_HEADERS = ("etag", "allow", "odata-version", "retry-after", "server")
#: Keys of values that identify one machine, a person or a place; and keys of values that nobody needs to see.
IDENTITY_KEYS = re.compile(
    r"serial|uuid|hostname|assettag|servicetag|servicecode|username|email|phone|contact|owner|fqdn|macaddress|"
    r"permanentmac|address$|nodeid|room|rack|altname|sku$|domain",
    re.IGNORECASE,
)
SECRET_KEYS = re.compile(
    r"passw|pwd|secret|token|privatekey|certificatestring|licen[cs]ekey|apikey|hash$", re.IGNORECASE
)
#: Objects with settings, whose values are words such as Disabled, whatever the setting is about.
ATTRIBUTE_KEYS = ("Attributes", "RegistryEntries")
#: Values of such keys that say nothing, and texts that are too short to be replaced wherever they occur.
COMMON_VALUES = (
    "unknown",
    "none",
    "null",
    "default string",
    "to be filled by o.e.m.",
    "not specified",
    "not available",
)
MIN_LENGTH = 4
#: Texts that identify something wherever they are, and what stands in their place.
PATTERNS = (
    (
        re.compile(r"\b[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b", re.IGNORECASE),
        "00000000-0000-0000-0000-000000000000",
    ),
    (re.compile(r"\b[0-9a-f]{2}(?:[:-][0-9a-f]{2}){5}\b", re.IGNORECASE), "xx:xx:xx:xx:xx:xx"),
    (re.compile(r"\b(?:25[0-5]|2[0-4]\d|1?\d?\d)(?:\.(?:25[0-5]|2[0-4]\d|1?\d?\d)){3}\b"), "0.0.0.0"),
    (re.compile(r"\b(?:[0-9a-f]{1,4}:){3,7}[0-9a-f:]*[0-9a-f]\b", re.IGNORECASE), "::"),
    (re.compile(r"\biqn\.\d{4}-\d\d\.[^\s\"\\]+"), "iqn.2000-01.com.example"),
    (re.compile(r"[\w.+-]+@[\w-]+\.[\w.]+"), "nobody@example.com"),
)


def build_recording(
    responses: Mapping[str, Response], registry: Registry | None, names: Mapping[str, str], scrubber: Scrubber
) -> dict[str, Any]:
    """Return responses by path as a recording; ``names`` has further texts to replace, such as the name of the BMC."""
    resources = {
        path: {
            "status": response.status,
            "headers": {name: response.headers[name] for name in KEPT_HEADERS if name in response.headers},
            "body": _without_secrets(response.body, registry),
        }
        for path, response in responses.items()
    }
    placeholders = {text: name for text, name in names.items() if text}
    for text in _list_identities([resource["body"] for resource in resources.values()]):
        placeholders.setdefault(text, f"removed{len(placeholders)}")
    text = json.dumps(scrubber.scrub(resources))
    for identity in sorted(placeholders, key=len, reverse=True):
        whole = rf"(?<![A-Za-z0-9]){re.escape(json.dumps(identity)[1:-1])}(?![A-Za-z0-9])"
        text = re.sub(whole, placeholders[identity], text)
    for pattern, placeholder in PATTERNS:
        text = pattern.sub(placeholder, text)
    return {"format": FORMAT, "resources": json.loads(text)}


def _without_secrets(value: Any, registry: Registry | None) -> Any:
    if isinstance(value, list):
        return [_without_secrets(entry, registry) for entry in value]
    if not isinstance(value, dict):
        return value
    cleaned: dict[str, Any] = {}
    for key, entry in value.items():
        if key == "Attributes" and isinstance(entry, dict):
            cleaned[key] = redact_secret_values(entry, registry)
        elif SECRET_KEYS.search(key) and isinstance(entry, (str, int)) and not isinstance(entry, bool):
            cleaned[key] = "(removed)"
        else:
            cleaned[key] = _without_secrets(entry, registry)
    return cleaned


def _list_identities(value: Any) -> Iterator[str]:
    """Yield the texts under keys that identify something."""
    if isinstance(value, list):
        for entry in value:
            yield from _list_identities(entry)
    elif isinstance(value, dict):
        for key, entry in value.items():
            texts = entry if isinstance(entry, list) else [entry]
            if key in ATTRIBUTE_KEYS:
                continue
            if IDENTITY_KEYS.search(key):
                yield from (text.strip() for text in texts if isinstance(text, str) and _is_identity(text.strip()))
            yield from _list_identities(entry)


def _is_identity(text: str) -> bool:
    return len(text) >= MIN_LENGTH and text.lower() not in COMMON_VALUES and not text.startswith("/")
