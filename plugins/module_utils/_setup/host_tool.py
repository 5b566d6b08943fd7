# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The host tool with its systemd units: the boot service, the watch service, and the check with its timer.

Addresses, besides those of files: ``host_tool:UNIT/enabled`` and ``host_tool:UNIT/active``. A value is systemd's word,
such as "enabled" or "failed", or None for a unit that does not exist.
Source: systemctl(1), org.freedesktop.systemd1(5), systemd.time(7), and parse_time() of systemd.
"""

from __future__ import annotations

import os
import re

from .._errors import BadRequest
from .._io import textfile as textfiles
from .._io.paths import BOOT_SERVICE as BOOT
from .._io.paths import HOST_TOOL, HOST_TOOL_FOLDER, INSTANCE_HEAD, UNIT_FOLDER
from .._io.sandbox import ROOT_READER_HARDENING, ROOT_WRITER_HARDENING
from .._knobs.managed_units import ManagedUnits, unit_property_address
from .host_tool_files import HostToolFiles

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from .._knobs.protocol.knob import Change, Settings

WATCH = "sovereign-epyc-watch.service"
CHECK = "sovereign-epyc-check.service"
TIMER = "sovereign-epyc-check.timer"
#: Unit -> the target that starts it.
STARTED_BY = {BOOT: "multi-user.target", WATCH: "multi-user.target", TIMER: "timers.target"}
READER = "\n".join(ROOT_READER_HARDENING)
WRITER = "\n".join(ROOT_WRITER_HARDENING)
HEAD = "# Installed by sovereign.epyc: do not change it here.\n\n"
SERVICES = {
    BOOT: f"""{HEAD}[Unit]
Description=Apply the stored EPYC settings
# An entry in fstab may mount resctrl, and comes first.
After=local-fs.target systemd-modules-load.service sys-fs-resctrl.mount
# A service with a model has After={BOOT}. The services below have not, and must not start containers or jobs while CPUs
# go offline and online. A service that this one may restart must not be listed: each would wait for the other.
Before=graphical.target containerd.service crio.service docker.service podman.service podman-restart.service
Before=k3s.service k3s-agent.service kubelet.service rke2-agent.service rke2-server.service
Before=libvirtd.service nomad.service pbs.service slurmd.service virtqemud.service
# One of the two conditions is enough. The second lets a link to a missing file system fail with a message.
ConditionPathExists=|/var/lib/sovereign-epyc/desired.json
ConditionPathIsSymbolicLink=|/var/lib/sovereign-epyc

[Service]
Type=oneshot
RemainAfterExit=yes
# --retry is for kernel modules that load late. After the timeout, other services start though a kernel write hangs.
ExecStart={HOST_TOOL} apply --retry
TimeoutStartSec=15min
{WRITER}
# proxmox-boot-tool mounts the partitions that it fills in a mount namespace of its own.
RestrictNamespaces=mnt

[Install]
WantedBy={STARTED_BY[BOOT]}
""",
    WATCH: f"""{HEAD}[Unit]
Description=Move new interrupts to the CPUs that the stored EPYC settings name
# {BOOT} applies the settings at boot; this service handles interrupts that appear later.
After={BOOT}

[Service]
ExecStart={HOST_TOOL} watch
Restart=on-failure
RestartSec=60
{WRITER}

[Install]
WantedBy={STARTED_BY[WATCH]}
""",
}
CHECKS = {
    CHECK: f"""{HEAD}[Unit]
Description=Check the stored EPYC settings and write metrics for node_exporter
After={BOOT}

[Service]
Type=oneshot
ExecStart={HOST_TOOL} check --textfile {{textfile}}
# The exit code 2 means drift, which is no failure of the service.
SuccessExitStatus=2
Nice=10
# It asks the instances of this host for their metrics, and writes one file.
{READER}
ProtectSystem=full
ReadWritePaths=-{{folder}}
""",
    TIMER: f"""{HEAD}[Unit]
Description=Check the stored EPYC settings at intervals

[Timer]
OnBootSec=2min
OnUnitActiveSec={{interval}}
# Hosts that were booted together must not check at the same moment.
RandomizedDelaySec=1min

[Install]
WantedBy={STARTED_BY[TIMER]}
""",
}
INTERVAL = "15min"
#: A path without the characters that are special in a unit file.
TEXTFILE = re.compile(r"/[^\s'\"\\%$\x00-\x1f\x7f]+\.prom")
#: The units of time that systemd knows, in microseconds.
MICROSECONDS = {
    **dict.fromkeys(["us", "usec", "\u00b5s", "\u03bcs"], 1),
    **dict.fromkeys(["ms", "msec"], 1000),
    **dict.fromkeys(["", "s", "sec", "second", "seconds"], 1000**2),
    **dict.fromkeys(["m", "min", "minute", "minutes"], 60 * 1000**2),
    **dict.fromkeys(["h", "hr", "hour", "hours"], 3600 * 1000**2),
    **dict.fromkeys(["d", "day", "days"], 86400 * 1000**2),
    **dict.fromkeys(["w", "week", "weeks"], 7 * 86400 * 1000**2),
    **dict.fromkeys(["M", "month", "months"], 2629800 * 1000**2),
    **dict.fromkeys(["y", "year", "years"], 31557600 * 1000**2),
}
AMOUNT = re.compile(r"[ \t]*([0-9]+(?:\.[0-9]+)?|\.[0-9]+)(?:[ \t]*([^\W\d_]+)|(?=[ \t]|$))[ \t]*")


class HostTool(ManagedUnits, HostToolFiles):
    """The files and units of the host tool as a knob, so that an undo stops units first and starts them last.

    With an empty ``textfile``, an installed check stays as it is; removing the host tool removes the check too.
    """

    started_by = STARTED_BY

    def __init__(
        self,
        present: bool,
        textfile: str = "",
        interval: str = INTERVAL,
        root: str = "/",
        removes_instances: bool = False,
    ) -> None:
        """With ``removes_instances``, units of instances that call the host tool do not prevent its removal."""
        if textfile and not TEXTFILE.fullmatch(textfile):
            raise BadRequest(
                f"textfile is '{textfile}', but has to be the whole path of a file whose name ends with .prom, without "
                "spaces, quotes, backslashes, % and $."
            )
        if not 0 < parse_systemd_span_to_microseconds(interval) < 1 << 63:
            raise BadRequest(
                f"interval is '{interval}', but has to be a time above zero in the notation of systemd, such as 15min, "
                "1h 30min, or 90 for 90 seconds."
            )
        units = dict(SERVICES)
        if textfile or not present:
            fields = {"textfile": textfile, "folder": os.path.dirname(textfile), "interval": interval}
            units.update({name: text.format(**fields) for name, text in CHECKS.items()})
        super().__init__(present, root, {f"{UNIT_FOLDER}/{name}": text for name, text in units.items()})
        self.present = present
        self.removes_instances = removes_instances
        self.metrics = "" if present else textfile
        self.units = list(units)

    def wanted_settings(self) -> Settings:
        """Return the digests of files and the states of units; the boot service is enabled, but not started."""
        wanted = super().wanted_settings()
        if self.present:
            for state, names in (("enabled", STARTED_BY), ("active", (WATCH, TIMER))):
                wanted.update(
                    {unit_property_address("host_tool", name, state): state for name in names if name in self.units}
                )
            return wanted
        self._refuse_units_that_call_host_tool()
        wanted.update(dict.fromkeys(f"host_tool:{UNIT_FOLDER}/{name}" for name in self.units))
        wanted.update(dict.fromkeys(unit_property_address("host_tool", name, "enabled") for name in STARTED_BY))
        wanted.update(dict.fromkeys(unit_property_address("host_tool", name, "active") for name in self.units))
        if self.metrics:
            # After the removal of the check, its metrics would never change again, so their file is removed too.
            wanted[f"host_tool:{self.metrics}"] = None
        return wanted

    def _refuse_units_that_call_host_tool(self) -> None:
        """Raise BadRequest where other units call the host tool: without the host tool, their next start would fail."""
        folder = textfiles.path_in_tree(self.root, UNIT_FOLDER)
        files = os.listdir(folder) if os.path.isdir(folder) else []
        names = sorted(name for name in files if name.endswith(".service") and name not in self.units)
        texts = {name: textfiles.read_text(os.path.join(folder, name)) or "" for name in names}
        users = [
            name
            for name, text in texts.items()
            if HOST_TOOL in text and not (self.removes_instances and text.startswith(INSTANCE_HEAD))
        ]
        if users:
            raise BadRequest(
                f"{', '.join(users)} call{'s' if len(users) == 1 else ''} {HOST_TOOL} at every start, which would fail "
                "without it. Nothing was changed. Remove these instances first: restore.yml does it with "
                "-e epyc_restore_instances=true, the module llama_server with an empty list and purge. One layer is "
                "undone without that: restore.yml with epyc_restore_layers."
            )

    def list_outdated_units(self, files: Sequence[Change]) -> list[str]:
        """Return the running units that must be restarted after these changes of files."""
        written = [change.address[len("host_tool:") :] for change in files if change.after is not None]
        names = [name for name in (WATCH, TIMER) if f"{UNIT_FOLDER}/{name}" in written]
        # A running watch service has old modules in memory, so new modules need its restart.
        if WATCH not in names and any(path == HOST_TOOL or path.startswith(f"{HOST_TOOL_FOLDER}/") for path in written):
            names.append(WATCH)
        return [name for name in names if os.path.exists(textfiles.path_in_tree(self.root, f"{UNIT_FOLDER}/{name}"))]


def parse_systemd_span_to_microseconds(text: str) -> float:
    """Return a time span in systemd's notation, such as "1h 30min", in microseconds; 0 for an invalid text."""
    total, place = 0.0, 0
    while place < len(text):
        amount = AMOUNT.match(text, place)
        if amount is None or (amount[2] or "") not in MICROSECONDS:
            return 0
        total += float(amount[1]) * MICROSECONDS[amount[2] or ""]
        place = amount.end()
    return total
