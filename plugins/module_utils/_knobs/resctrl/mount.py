# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The knob of the resctrl mount, as ``resctrl:mount``; its value is the mount options.

Source: Documentation/filesystems/resctrl.rst and fs/resctrl/rdtgroup.c of the Linux kernel.
"""

from __future__ import annotations

from ..._errors import BadRequest, Unsupported
from ..._kernel import resctrl
from ..protocol.knob import Knob
from .obsolete import obsolete_mount_reason

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from ..._host.host import Host
    from ..protocol.knob import Change, Settings

MOUNT = "resctrl:mount"
NO_OPTIONS = "no options"
CONTROL_GROUPS = "/sys/fs/cgroup"


class ResctrlMount(Knob):
    """The mount of resctrl and its options. It is never mounted again, because that would reset all groups."""

    prefix = "resctrl"

    def __init__(self, host: Host, mount: bool, options: Sequence[str] | None) -> None:
        self.host = host
        self.fs = host.fs
        self.mount = mount
        #: The options in the kernel's spelling.
        self.options = ["mba_MBps" if option == "mba_mbps" else option for option in options or ()]
        self._requested = None if options is None else _format_options(self.options)

    def owns_address(self, address: str) -> bool:
        return address == MOUNT

    def read_settings(self, addresses: Iterable[str]) -> Settings:
        """Return the options of the mount, None if resctrl is not mounted."""
        mount = resctrl.find_mount(self.fs)
        return dict.fromkeys(addresses, None if mount is None else _format_options(mount[1]))

    def wanted_settings(self) -> Settings:
        """Return the wanted options, refusing those that this host or an existing mount does not allow."""
        top = self.host.topology
        if top.resctrl is None:
            raise Unsupported(top.missing["resctrl"])
        if "mba_MBps" in self.options and top.is_amd:
            raise BadRequest(
                "The mount option mba_mbps needs a linear bandwidth scale, which AMD does not have: the kernel "
                "refuses it. Limits on AMD are in GB/s anyway; use mb."
            )
        if "cdp" in self.options and "cdp_l3" not in top.flags:
            raise BadRequest(
                "The mount option cdp needs a CPU that separates code and data in L3, which this one does not (no "
                "cdp_l3 in /proc/cpuinfo). Leave it out."
            )
        present = self.read_settings([MOUNT])[MOUNT]
        if present is None:
            if not self.mount:
                raise BadRequest(f"resctrl is not mounted. Set mount to true, or mount it on {resctrl.HOME} yourself.")
            return {MOUNT: self._requested or NO_OPTIONS}
        if self._requested not in (None, present):
            raise BadRequest(
                f"resctrl is already mounted with {present}, and {self._requested} was asked for. Changing that means "
                "unmounting, which resets every group on this host, whoever made it. Unmount it yourself when that is "
                "right, or leave mount_options out."
            )
        return {MOUNT: present}

    def obsolete_originals(self, originals: Settings) -> dict[str, str]:
        """Return the original, with the reason, if its mount has ended, so that it needs no restoring."""
        present = self.read_settings(originals)
        reasons = {name: obsolete_mount_reason(original, present[name]) for name, original in originals.items()}
        return {name: reason for name, reason in reasons.items() if reason}

    def write_changes(self, changes: Sequence[Change]) -> None:
        """Mount resctrl, or unmount it in a rollback or an undo."""
        for change in changes:
            if change.after is None:
                self.fs.unmount_filesystem(resctrl.HOME)
            else:
                self._mount_resctrl("" if change.after == NO_OPTIONS else change.after)
        # The mounted file system shows more features than CPUID, so the topology is read again.
        self.host.forget_topology()

    def _mount_resctrl(self, options: str) -> None:
        """Mount resctrl, with the context of control groups where the policy of SELinux has none for resctrl."""
        self.fs.mount_filesystem("resctrl", resctrl.HOME, options)
        context = self.fs.read_selinux_context(CONTROL_GROUPS)
        if context and resctrl.is_unknown_to_selinux(self.fs):
            self.fs.unmount_filesystem(resctrl.HOME)
            with_context = [*([options] if options else []), f'context="{context}"']
            self.fs.mount_filesystem("resctrl", resctrl.HOME, ",".join(with_context))


def _format_options(options: Sequence[str]) -> str:
    return ",".join(sorted(options)) or NO_OPTIONS
