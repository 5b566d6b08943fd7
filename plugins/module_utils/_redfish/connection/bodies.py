# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Bodies of responses: unpacked and parsed within limits, because a BMC may send anything."""

from __future__ import annotations

import zlib

from ..._io.foreign_json import parse_json

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

#: The largest response, which is a registry of BIOS attributes, in bytes, as it is sent and as it is unpacked.
MAX_RESPONSE_BYTES = 16 << 20
#: The first bytes of a body in the gzip format, and the argument by which zlib reads this format.
GZIP_MAGIC, GZIP_WINDOW_BITS = b"\x1f\x8b", 31


def parse_body(body: bytes) -> tuple[dict[str, Any], str]:
    """Return the JSON object of a body, and what is wrong with the body; {} for a body that is no JSON object."""
    try:
        unpacked = unpack_gzip(body) if body[:2] == GZIP_MAGIC else body
        if len(unpacked) > MAX_RESPONSE_BYTES:
            return {}, f"it is larger than {MAX_RESPONSE_BYTES >> 20} MiB"
        if not unpacked.strip():
            return {}, "it is empty"
        value = parse_json(unpacked)
    except (ValueError, zlib.error):
        # The body is HTML of a proxy, of a login page, or of a web server whose Redfish service has not started; or it
        # was cut off.
        return {}, "it is no JSON"
    return (value, "") if isinstance(value, dict) else ({}, "it is no object of JSON")


def unpack_gzip(body: bytes) -> bytes:
    """Return the unpacked body, at most one byte more than MAX_RESPONSE_BYTES; raises zlib.error for a torn one."""
    unpacking = zlib.decompressobj(GZIP_WINDOW_BITS)
    unpacked = unpacking.decompress(body, MAX_RESPONSE_BYTES + 1)
    if not unpacking.eof and len(unpacked) <= MAX_RESPONSE_BYTES:
        raise zlib.error("the end is missing")
    return unpacked
