# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The knob of the CPU partition: a systemd slice with CPUs of its own, which no other process runs on.

The partition is made and removed while the host runs. Addresses: ``partition:llama.slice/cpus`` with CPUs in list
notation, and ``partition:llama.slice/type`` with "root" or "isolated"; None means that there is no partition. systemd
assigns the CPUs of the slice, because it removes the cpuset controller if no unit needs it, and writes the CPUs again
when it reloads. systemd has no setting for the type, and never writes its file. Source:
Documentation/admin-guide/cgroup-v2.rst (cpuset) and kernel/cgroup/cpuset.c of the Linux kernel;
systemd.resource-control(5), systemctl(1).
"""

from __future__ import annotations

import os

from .._errors import BadRequest, NotApplied, TuningError, Unsupported
from .._io import command, textfile
from .._io.blocks import suppress
from .._io.paths import INSTANCE_HEAD, UNIT_FOLDER
from .._kernel.cgroups import CGROUPS
from .._kernel.partitions import FOLDER, ISOLATED, ROOT, SLICE, list_cpuset_groups_outside_slice
from .._notation.cpulist import format_cpulist, parse_cpulist, parse_cpumask
from .protocol.knob import Knob

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from typing import Any

    from .._host.host import Host
    from .protocol.knob import Change, Settings, Words

CPUS, TYPE = f"partition:{SLICE}/cpus", f"partition:{SLICE}/type"
FILES = {CPUS: f"{FOLDER}/cpuset.cpus", TYPE: f"{FOLDER}/cpuset.cpus.partition"}
#: The drop-in that `systemctl set-property --runtime` makes, until the next boot.
DROP_IN = f"/run/systemd/system.control/{SLICE}.d/50-AllowedCPUs.conf"
BOOT_ISOLATED = "/sys/devices/system/cpu/isolated"
#: The mask of unbound kernel work, from which the kernel removes the CPUs of an isolated partition.
WORKQUEUE = "/sys/devices/virtual/workqueue/cpumask"
MEMBER = "member"


def build_knobs(host: Host, options: Mapping[str, Any]) -> list[Knob]:
    return [Partition(host, options)]


def describe_setting(address_rest: str) -> Words:
    return (
        {"cpus": f"CPUs of {SLICE}", "type": f"partition of {SLICE}"}.get(
            address_rest.rpartition("/")[2], address_rest
        ),
        "",
        None,
    )


class Partition(Knob):
    """The partition of the slice in which the instances run."""

    prefix = "partition"

    def __init__(self, host: Host, options: Mapping[str, Any]) -> None:
        self.host = host
        self.fs = host.fs
        self.options = options
        self._remarks: list[str] = []

    def wanted_settings(self) -> Settings:
        """Return the settings of the request, refusing CPUs that the kernel or other units do not allow."""
        self._remarks = []
        if self.options.get("cpus") is None:
            return {}
        kind = str(self.options.get("type", ROOT))
        if kind not in (ROOT, ISOLATED):
            raise BadRequest(f"type: '{kind}' is neither {ROOT} nor {ISOLATED}.")
        cpus = set(self.host.parse_cpus(str(self.options["cpus"])))
        wanted: Settings = {CPUS: format_cpulist(cpus), TYPE: kind}
        self._require_partition_support(cpus)
        self._refuse_cpus_of_other_units(cpus, self.read_settings(wanted) == wanted)
        return wanted

    def read_settings(self, addresses: Iterable[str]) -> Settings:
        return {address: self._read_value(address) for address in addresses}

    def _read_value(self, address: str) -> str | None:
        text = (self.fs.read_if_present(FILES[address]) or "").strip()
        if address == CPUS and text and set(self.host.topology.online).issubset(parse_cpulist(text)):
            return None  # A slice with all CPUs, as at first, has no CPUs of its own.
        return None if text in ("", MEMBER) else text

    def values_equal(self, address: str, wanted: str | None, found: str | None) -> bool:
        """Return whether two values are equal; invalid partitions are, whatever reasons the kernel names."""
        if wanted and found and " invalid" in wanted:
            return wanted.split()[0] == found.split()[0]
        return wanted == found

    def settings_of_other_knobs_lost_by(self, changes: Sequence[Change]) -> Settings:
        """Return the CPU mask of unbound kernel work, from which the kernel removes isolated CPUs."""
        mask = self.fs.read_if_present(WORKQUEUE)
        if mask is None or not any(change.address == TYPE and change.after == ISOLATED for change in changes):
            return {}
        return {"sysfs:workqueue/cpumask": format_cpulist(parse_cpumask(mask))}

    def write_changes(self, changes: Sequence[Change]) -> None:
        """End the partition, assign the CPUs to the slice, and make the partition of them."""
        after = {**self.read_settings(FILES), **{change.address: change.after for change in changes}}
        if self._read_value(TYPE) is not None:
            self.fs.write(FILES[TYPE], MEMBER)
        if any(change.address == CPUS for change in changes):
            self._assign_cpus(after[CPUS])
        kind = (after[TYPE] or MEMBER).split()[0]
        if kind == MEMBER:
            return
        # Somebody may have stopped the slice.
        command.run_command(["systemctl", "start", SLICE])
        if self.fs.read_status(FILES[TYPE]) is None:
            raise TuningError(
                f"There is no {FILES[TYPE]}: this kernel makes no partitions. Linux 6.1 and later do, built with "
                "CONFIG_CPUSETS."
            )
        self.fs.write(FILES[TYPE], kind)
        present = self.fs.read(FILES[TYPE]).strip()
        if present != kind and after[TYPE] == kind:
            raise NotApplied(
                f"The kernel makes no {kind} partition of CPUs {after[CPUS]}: it shows '{present}' in {FILES[TYPE]}. "
                "Take these CPUs from the units that have them, or choose others with cpus.",
                address=TYPE,
                wanted=kind,
                found=present,
            )

    def _assign_cpus(self, cpus: str | None) -> None:
        """Have systemd assign the CPUs to the slice; for None, undo the assignment and stop an empty slice."""
        command.run_command(["systemctl", "set-property", "--runtime", SLICE, f"AllowedCPUs={cpus or ''}"])
        if cpus is not None:
            return
        drop_in = textfile.path_in_tree(self.fs.root, DROP_IN)
        textfile.remove_file(drop_in)
        with suppress(OSError):  # The folder has a drop-in of another program.
            os.rmdir(os.path.dirname(drop_in))
        command.run_command(["systemctl", "daemon-reload"])
        if "populated 0" in (self.fs.read_if_present(f"{FOLDER}/cgroup.events") or ""):
            command.run_command(["systemctl", "stop", SLICE])
        if self._read_value(CPUS) is not None:
            # The kernel refuses the empty list of systemd for a slice with tasks.
            self.fs.write(FILES[CPUS], format_cpulist(self.host.topology.online))

    def _require_partition_support(self, cpus: set[int]) -> None:
        """Raise if this host cannot have a partition, or not of these CPUs."""
        controllers = self.fs.read_if_present(f"{CGROUPS}/cgroup.controllers")
        if controllers is None:
            raise Unsupported(
                f"A partition needs cgroup v2, and {CGROUPS} is not one. Take systemd.unified_cgroup_hierarchy and "
                "cgroup_no_v1 out of the boot parameters, or use another isolation."
            )
        if "cpuset" not in controllers.split():
            raise Unsupported(
                f"A partition needs the controller cpuset, and {CGROUPS}/cgroup.controllers lacks it: the kernel was "
                "built without CONFIG_CPUSETS, or has cgroup_disable=cpuset. Use another isolation."
            )
        if not self.fs.is_dir("/run/systemd/system"):
            raise Unsupported("A partition needs systemd, whose slice it is, and this host was not booted with it.")
        if cpus.issuperset(self.host.topology.online):
            raise BadRequest(
                "cpus: a partition of all CPUs leaves none to the system. Keep some for it, with "
                "epyc_plan_housekeeping."
            )
        isolated = cpus & set(parse_cpulist(self.fs.read_if_present(BOOT_ISOLATED) or ""))
        if isolated:
            raise BadRequest(
                f"cpus: {format_cpulist(isolated)} are isolated since the boot by isolcpus, and the kernel makes no "
                "balanced partition of them. Take isolcpus, or its flag domain, out of the boot parameters, and reboot."
            )

    def _refuse_cpus_of_other_units(self, cpus: set[int], in_force: bool) -> None:
        """Refuse CPUs that were assigned to other units.

        If the partition is in force, the kernel has moved the other units already, which is only a remark.
        """
        for other in list_cpuset_groups_outside_slice(self.fs):
            shared = f"{format_cpulist(other.cpus & cpus)} of these CPUs"
            if other.cpus.isdisjoint(cpus):
                continue
            unit = textfile.read_text(textfile.path_in_tree(self.fs.root, f"{UNIT_FOLDER}/{other.name}")) or ""
            if unit.startswith(INSTANCE_HEAD):
                self._remarks.append(
                    f"{other.name} was planned without the partition, and loses {shared} to it until it is placed in "
                    f"{SLICE}. Run llama_server again, as the role epyc_llama does."
                )
            elif in_force:
                self._remarks.append(f"{other.name} has {shared} in its AllowedCPUs, and runs on others instead.")
            elif other.partition.split(" ")[0] in (ROOT, ISOLATED):
                raise BadRequest(
                    f"cpus: {shared} are in the partition of {other.name} ({other.partition}). Choose others, or end "
                    f"it with 'echo {MEMBER} >{other.path}/cpuset.cpus.partition'."
                )
            else:
                raise BadRequest(
                    f"cpus: {other.name} was given {shared}, and would lose them. Give it others, as with 'systemctl "
                    f"set-property {other.name} AllowedCPUs=...', or choose others here."
                )
