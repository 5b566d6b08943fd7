# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The verdicts on every setting: is it in force now, will it be after a boot, and is a reboot pending.

"unknown" stands where something could not be read or planned, with the reason; it is never counted as fine.
"""

from __future__ import annotations

OK, DRIFT, UNKNOWN = "ok", "drift", "unknown"
#: The status of what this host cannot have.
UNSUPPORTED = "unsupported"
#: The prefix of the CPUs that a role has.
PLAN = "plan"
#: Of what the hardware, the kernel or the plan of a host does not allow, and what to do about it.
NOT_SUPPORTED = "not supported here"
CHANGE_WHAT_IS_ASKED = "No command gives a host what it cannot have: change what the inventory asks for."


class Verdict:
    """What was found out about one address."""

    __slots__ = (
        "address",
        "at_boot",
        "found",
        "live",
        "pending_reboot",
        "persistent",
        "reason",
        "request",
        "supported",
        "wanted",
    )

    def __init__(self, request: str, address: str, wanted: str | None) -> None:
        self.request = request
        self.address = address
        self.wanted = wanted
        self.found: str | None = None
        #: The value of the next boot, where that is configured by itself, as for a boot parameter.
        self.at_boot: str | None = None
        self.live = UNKNOWN
        self.persistent = UNKNOWN
        self.pending_reboot = False
        self.reason = ""
        #: False where the hardware, the kernel or the plan of this host does not allow what is requested.
        self.supported = True

    @property
    def clean(self) -> bool:
        """Return whether nothing is wrong and nothing unknown."""
        return self.live == OK and self.persistent == OK

    def to_dict(self) -> dict[str, object]:
        """Return plain data."""
        return {name: getattr(self, name) for name in self.__slots__}


def has_place(address: str) -> bool:
    """Return whether an address is of one setting; that of a whole request or of all that is stored has no place."""
    return bool(address.partition(":")[2])


def unknown(request: str, address: str, reason: str) -> Verdict:
    """Return the verdict on what could not be read."""
    verdict = Verdict(request, address, None)
    verdict.reason = reason
    return verdict
