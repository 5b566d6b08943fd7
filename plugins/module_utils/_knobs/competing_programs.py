# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Programs on a host that change the same settings as a knob, and may change them again at any time."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .._io.kernelfs import KernelFS


def running_tuned_remarks(fs: KernelFS, affected_settings: str) -> list[str]:
    """Return a warning if TuneD runs; it sets ``affected_settings`` when it starts and when its profile changes."""
    pid = (fs.read_if_present("/run/tuned/tuned.pid") or "").strip()
    if not pid.isdecimal() or not fs.is_dir(f"/proc/{pid}"):
        return []
    profile = fs.read_if_present("/etc/tuned/active_profile") or "unknown"
    return [
        f"TuneD runs here too (process {pid}, profile {profile.strip()}) and may set {affected_settings} again at its "
        "next start or change of profile. Set the same in its profile, or stop it with 'systemctl disable --now tuned'."
    ]


def running_power_profiles_remarks(fs: KernelFS) -> list[str]:
    """Return a warning if power-profiles-daemon runs; it sets governors and energy preferences."""
    if not fs.is_dir("/sys/fs/cgroup/system.slice/power-profiles-daemon.service"):
        return []
    return [
        "power-profiles-daemon runs here too and sets governors and energy preferences again when its profile changes. "
        "Stop it with 'systemctl disable --now power-profiles-daemon'."
    ]
