# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Verdicts on settings: whether one is in force now, whether it will be after a boot, and whether a reboot is pending.

A setting that could not be read or planned is "unknown", with the reason. Unknown never counts as ok.
"""

from __future__ import annotations

OK, DRIFT, UNKNOWN = "ok", "drift", "unknown"
#: The status of a setting that this host cannot have.
UNSUPPORTED = "unsupported"
#: The prefix of addresses of the CPUs that a role of the plan has.
PLAN = "plan"
#: Words for a setting that the hardware, the kernel or the plan of a host does not allow, and what to do about it.
NOT_SUPPORTED = "not supported here"
CHANGE_WHAT_IS_ASKED = "No command gives a host what it cannot have: change what the inventory asks for."


class Verdict:
    """The verdict on one address, with the requested value, the found value and that of the next boot."""

    __slots__ = (
        "address",
        "at_boot",
        "found",
        "live",
        "lost_with_service",
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
        #: The value of the next boot. It has its own configuration for some settings, such as boot parameters.
        self.at_boot: str | None = None
        self.live = UNKNOWN
        self.persistent = UNKNOWN
        self.pending_reboot = False
        self.reason = ""
        #: True where nothing but the failing boot service keeps the setting from being applied at boot.
        self.lost_with_service = False
        #: False where the hardware, the kernel or the plan of this host does not allow what is requested.
        self.supported = True

    @property
    def is_clean(self) -> bool:
        """Return True if the setting is in force now and will be after a boot."""
        return self.live == OK and self.persistent == OK

    def to_dict(self) -> dict[str, object]:
        """Return the verdict as modules return it."""
        return {name: getattr(self, name) for name in self.__slots__ if name != "lost_with_service"}


def is_single_setting(address: str) -> bool:
    """Return True for the address of one setting, False for that of a whole request or of all that is stored."""
    return bool(address.partition(":")[2])


def unknown_verdict(request: str, address: str, reason: str) -> Verdict:
    """Return the verdict on an address that could not be read."""
    verdict = Verdict(request, address, None)
    verdict.reason = reason
    return verdict
