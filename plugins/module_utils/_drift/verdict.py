# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Verdicts on settings: is the setting in force now, will it be in force after a boot, does it wait for a reboot?

A setting that could not be read or planned is "unknown", with the reason. Unknown never counts as ok.
"""

from __future__ import annotations

OK, DRIFT, UNKNOWN = "ok", "drift", "unknown"
#: The status of a setting that this host cannot have.
UNSUPPORTED = "unsupported"
#: The prefix of addresses of the CPUs that a role of the plan has.
PLAN = "plan"
#: Texts for a setting that the hardware, the kernel or the plan of a host does not allow: its status, and the advice.
NOT_SUPPORTED = "not supported here"
CHANGE_WHAT_IS_ASKED = "No command gives a host what it cannot have: change what the inventory asks for."


class Verdict:
    """The verdict on one address, with the requested value, the found value, and the value after the next boot."""

    def __init__(self, request: str, address: str, wanted: str | None) -> None:
        self.request = request
        self.address = address
        self.wanted = wanted
        self.found: str | None = None
        #: The value after the next boot. For boot parameters and others it has a configuration file of its own.
        self.at_boot: str | None = None
        self.live = UNKNOWN
        self.persistent = UNKNOWN
        self.pending_reboot = False
        self.reason = ""
        #: True where the only reason why the next boot loses the setting is the failing boot service.
        self.lost_with_service = False
        #: False where the hardware, the kernel or the plan of this host does not allow what is requested.
        self.supported = True

    @property
    def is_clean(self) -> bool:
        """Return True if the setting is in force now and will be after a boot."""
        return self.live == OK and self.persistent == OK

    def to_dict(self) -> dict[str, object]:
        return {name: value for name, value in vars(self).items() if name != "lost_with_service"}


def is_single_setting(address: str) -> bool:
    """Return True for the address of one setting, False for an address that stands for a whole request or the store."""
    return bool(address.partition(":")[2])


def unreadable_address_verdict(request: str, address: str, reason: str) -> Verdict:
    """Return the verdict on an address that could not be read."""
    verdict = Verdict(request, address, None)
    verdict.reason = reason
    return verdict
