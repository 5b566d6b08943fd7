# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The knob of boot parameters: parameters of the next boot's command line, without touching other parameters.

Addresses: ``cmdline:isolcpus``; _notation/cmdline.py describes the values. They outlive a reboot, and take effect at
the next one.
"""

from __future__ import annotations

from ..._errors import BadRequest, TuningError
from ..._notation import cmdline
from ..protocol.knob import Knob
from . import bootloader
from .drop_in import has_drop_in
from .first_texts import RECORD
from .request import BootRequest

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from typing import Any

    from ..._host.host import Host
    from ..._io.kernelfs import KernelFS
    from ..protocol.knob import Change, Settings, Words
    from .bootloader import Loader

PREFIX = "cmdline:"
#: The largest length of a command line: COMMAND_LINE_SIZE on x86 without the final zero byte.
LONGEST = 2047


def build_knobs(host: Host, options: Mapping[str, Any]) -> list[Knob]:
    return [CommandLine(host, options)]


def describe_setting(address_rest: str) -> Words:
    return "boot parameter", "", address_rest


def format_value(address_rest: str, text: str) -> str:
    """Return the value of a parameter, or a text for a parameter without a value."""
    return text or "a flag without a value"


class CommandLine(Knob):
    """The boot parameters of the next boot."""

    prefix = "cmdline"
    outlives_reboot = True

    def __init__(
        self, host: Host, options: Mapping[str, Any], find: Callable[[KernelFS], Loader] = bootloader.find_boot_loader
    ) -> None:
        self.host = host
        self.fs = host.fs
        self.options = options
        self._find = find
        self._loader: Loader | None = None
        self._remarks: list[str] = []
        self._entries: list[dict[str, str]] = []
        self._loader_stale_reason = ""
        self._seen: Settings = {}
        self._wanted: Settings | None = None

    @property
    def boot_loader(self) -> Loader:
        if self._loader is None:
            self._loader = self._find(self.fs)
        return self._loader

    def wanted_settings(self) -> Settings:
        """Return the requested parameters, with roles expanded to CPUs."""
        parameters, absent = self.options.get("parameters", []), self.options.get("absent", [])
        if not parameters and not absent:
            raise BadRequest("Nothing is requested. Set parameters or absent.")
        request = BootRequest(self.host, parameters, absent)
        self._remarks = request.remarks
        self._wanted = {PREFIX + name: text for name, text in request.settings.items()}
        self._refuse_too_long_command_line(request.settings)
        pools = request.settings.get(cmdline.HUGEPAGES)
        # Memory that is held changes all the time, and no run may fail for that which changes nothing.
        if pools is not None and self.boot_loader.read_configured_settings().get(cmdline.HUGEPAGES) != pools:
            request.refuse_hugepages_beyond_held_memory()
        return dict(self._wanted)

    def read_settings(self, addresses: Iterable[str]) -> Settings:
        """Return the values that are configured for the next boot."""
        addresses = list(addresses)
        # An undo without boot parameters must not fail on a host with an unsupported boot loader.
        if not addresses:
            return {}
        configured = self.boot_loader.read_configured_settings()
        self._entries = [cmdline.parameters_to_settings(words) for words in self.boot_loader.list_parameters_by_entry()]
        self._loader_stale_reason = self.boot_loader.unfinished_reason()
        self._seen = {address: configured.get(_canonical_parameter_name(address)) for address in addresses}
        return dict(self._seen)

    def read_live_settings(self, addresses: Iterable[str]) -> Settings:
        """Return the values with which the running kernel was started."""
        running = cmdline.parameters_to_settings(cmdline.split_kernel_command_line(self.fs.read("/proc/cmdline")))
        return {address: running.get(_canonical_parameter_name(address)) for address in addresses}

    def values_equal(self, address: str, wanted: str | None, found: str | None) -> bool:
        """Return whether two values are equal and every boot entry has the wanted one."""
        return wanted == found and not self.rewrite_reason(address, wanted)

    def rewrite_reason(self, address: str, wanted: str | None) -> str:
        """Return why the next boot may lack a configured setting; an empty text if it cannot."""
        if self._entries and all(entry.get(_canonical_parameter_name(address)) == wanted for entry in self._entries):
            return self._loader_stale_reason
        return f"not every boot entry has it; {self.boot_loader.remake_hint}"

    def unreachable_reason(self, address: str) -> str | None:
        """Return the reason if the boot loader is unsupported or the drop-in is damaged, else None."""
        try:
            self.boot_loader.unfinished_reason()
        except TuningError as error:
            return str(error)
        return None

    def unrestorable_reasons(self, originals: Settings) -> dict[str, str]:
        """Return the originals that cannot be restored, as when a file of the boot loader is damaged, with reasons."""
        reasons = super().unrestorable_reasons(originals)
        if originals and not reasons:
            try:
                self.boot_loader.read_configured_settings()
            except TuningError as error:
                return dict.fromkeys(originals, str(error))
        return reasons

    def settings_to_restore(self, originals: Settings) -> Settings:
        """Return what the other files of the boot loader set now, if they can be read, else the originals."""
        if not originals and not has_drop_in(self.fs) and self.fs.read_status(RECORD) is None:
            return {}
        names = {_parameter_name(address): text for address, text in originals.items()}
        try:
            return {PREFIX + name: text for name, text in self.boot_loader.settings_to_restore(names).items()}
        except TuningError:
            return originals

    def is_in_force(self, address: str, wanted: str | None, live: str | None) -> bool:
        """Return whether the running kernel has the wanted value; boot entries do not count."""
        return wanted == live

    def write_changes(self, changes: Sequence[Change]) -> None:
        self._remarks += self.boot_loader.choice_remarks
        self._remarks += self.boot_loader.apply_settings(
            {change.address[len(PREFIX) :]: change.after for change in changes}
        )

    def module_facts(self) -> dict[str, object]:
        """Return running and configured parameters, and the names of those that wait for a reboot."""
        target = self._seen if self._wanted is None else self._wanted
        running = self.read_live_settings(target)
        pending = [_parameter_name(address) for address in target if running[address] != target[address]]
        return {
            "running": {_parameter_name(address): text for address, text in running.items()},
            "configured": {_parameter_name(address): text for address, text in target.items()},
            "pending": pending,
            "reboot_required": bool(pending),
        }

    def _refuse_too_long_command_line(self, settings: Settings) -> None:
        """Refuse a command line that the kernel would truncate."""
        new = [
            word
            for name, text in settings.items()
            if text is not None
            for word in cmdline.setting_to_parameters(name, text)
        ]
        keys = {cmdline.canonical_parameter_name(name) for name in settings}
        for words in self.boot_loader.list_parameters_by_entry():
            others = [
                word
                for word in words
                if cmdline.setting_name_of_parameter(cmdline.split_kernel_parameter(word)[0]) not in keys
            ]
            length = len(" ".join(["BOOT_IMAGE=" + "-" * 64, *others, *new]))
            if length > LONGEST:
                raise BadRequest(
                    f"The command line would have about {length} characters, and the kernel takes {LONGEST}: it would "
                    "silently cut off the rest, such as the end of a list of CPUs. Nothing was changed. Leave "
                    "parameters out, or choose CPUs that follow each other, so that their lists are shorter."
                )


def _parameter_name(address: str) -> str:
    return address[len(PREFIX) :]


def _canonical_parameter_name(address: str) -> str:
    return cmdline.canonical_parameter_name(_parameter_name(address))
