# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The state of the boot service in systemd: whether it is installed and enabled, and how its last run ended.

Source: systemctl(1) and org.freedesktop.systemd1(5).
"""

from __future__ import annotations

import datetime

from .._errors import TuningError
from .._io import command
from .._io.paths import BOOT_SERVICE, UNIT_FOLDER
from .._knobs.managed_units import BETWEEN_STATES

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .._io.kernelfs import KernelFS

UNIT = f"{UNIT_FOLDER}/{BOOT_SERVICE}"
PROPERTIES = "LoadState,UnitFileState,ActiveState,Result,ExecMainStatus,Job,ConditionResult,ConditionTimestampMonotonic"
DONE, IDLE, FAILED, STARTING, MISSED, MISSING = "done", "idle", "failed", "starting", "missed", "missing"


def read_boot_service_state(fs: KernelFS) -> tuple[str | None, str]:
    """Return the state of the boot service and a sentence; None and the reason where systemd does not answer.

    "done": the service has run at this boot. "idle": nothing was stored when the host booted. Callers must read this
    state before the settings: if the service ends in between, the settings were read too early for the state "done".
    """
    try:
        return _read_boot_service_state(fs)
    except TuningError as error:
        return None, str(error)


def _read_boot_service_state(fs: KernelFS) -> tuple[str, str]:
    output = command.run_command(["systemctl", "show", f"--property={PROPERTIES}", BOOT_SERVICE])
    properties = dict(line.partition("=")[::2] for line in output.splitlines())
    remedy = "so no setting is applied at boot. Run site.yml --tags base."
    if properties.get("LoadState") not in ("loaded", "masked"):
        return MISSING, f"{BOOT_SERVICE} is not installed, {remedy}"
    if properties.get("UnitFileState") != "enabled":
        return MISSING, f"{BOOT_SERVICE} is {properties.get('UnitFileState') or 'disabled'}, {remedy}"
    return _judge_run_at_boot(properties, fs)


def _judge_run_at_boot(properties: dict[str, str], fs: KernelFS) -> tuple[str, str]:
    active = properties.get("ActiveState", "")
    hint = f"'journalctl -b -u {BOOT_SERVICE}' on the host shows why."
    if active in BETWEEN_STATES or properties.get("Job", "0") not in ("", "0"):
        return STARTING, "Enabled; its run has not ended yet. Ask again in a moment."
    if active == "active":
        return DONE, "Enabled, and its run at this boot succeeded."
    if active == "failed":
        status = properties.get("ExecMainStatus", "?")
        return FAILED, f"Enabled, and its last run failed ({properties.get('Result')}, exit code {status}). {hint}"
    condition_time = properties.get("ConditionTimestampMonotonic", "0")
    if properties.get("ConditionResult") == "no" and condition_time not in ("", "0"):
        return IDLE, "Enabled; nothing was stored yet when this host booted, so it had nothing to do."
    if _unit_file_is_newer_than_boot(fs):
        return IDLE, "Enabled; it was installed after the last boot, so it has not had to run yet."
    return MISSED, f"Enabled, but it did not run at this boot. {hint}"


def _unit_file_is_newer_than_boot(fs: KernelFS) -> bool:
    """Return whether the unit file was written after the boot."""
    unit = fs.read_status(UNIT)
    show_boot_time = ["env", "TZ=UTC", "systemctl", "show", "--value", "--property=UserspaceTimestamp"]
    # systemd prints the day of the week first; strptime would read its name in the language of the locale.
    time = command.run_command(show_boot_time).strip().partition(" ")[2]
    boot = datetime.datetime.strptime(f"{time}+0000", "%Y-%m-%d %H:%M:%S UTC%z")
    return unit is not None and unit.st_mtime > boot.timestamp()
