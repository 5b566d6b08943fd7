# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The state of a host after the last whole run of site.yml, and the check whether this state is unchanged.

With the same inputs, on an unchanged host whose settings are all in force, site.yml has nothing to do, so this check
replaces a run of all layers. Settings, packages, kernel modules and services are compared with their required values.
The system, the facts from the firmware, files of the collection and stored requests are compared with their state
after the last run.

A boot parameter that waits for a reboot is no reason to run again while the kernel has the same boot parameters as at
the last run.
"""

from __future__ import annotations

import hashlib
import os
import stat

from .._drift import findings
from .._drift import survey as surveys
from .._drift.judge import waits_for_reboot
from .._drift.verdict import DRIFT, OK
from .._host import plan
from .._host.intent import Intent
from .._io import textfile
from .._io.paths import BOOT_SERVICE, HOST_TOOL, HOST_TOOL_FOLDER, UNIT_FOLDER
from .._io.safe_open import open_file
from .._knobs import managed_units as systemd_units
from .._knobs.boot.knob import PREFIX
from .._knobs.protocol import stored_requests
from .._knobs.protocol.ledger import Ledger
from .._notation.shape import ANY
from .._verify.bios.check import check_bios_settings
from .._verify.bios.setting import KernelView
from . import prerequisites

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from typing import Any

    from .._drift.verdict import Verdict
    from .._host.host import Host
    from .._host.topology import Topology
    from .._io.kernelfs import KernelFS
    from .._io.store import Store

FILE = "last_run.json"
INPUTS, BOOTED, INTENT = "inputs", "booted", "intent"
SHAPE = {INTENT: dict, ANY: str}
NEVER = "site.yml has never completed here with all layers"
#: Part of the saved state -> the reason to run again where it differs.
DIFFERENCE_REASONS = {
    INPUTS: "the inventory, the collection or its version has changed since the last run",
    "stored": "what is stored for the boot service is not what the last run stored",
    "system": "the distribution or the kernel has changed since the last run",
    "firmware": "the topology or what the kernel shows of the BIOS has changed since the last run",
    "files": "files of the collection have changed since the last run",
    BOOTED: "boot parameters wait for a reboot, and the kernel was not started as in the last run",
}
DRIFTED = "a setting is not as configured, or could not be read"
MISSING = "packages are not installed, or only a package manager can tell"
UNLOADED = "kernel modules that are loaded at every boot are not loaded now"
IDLE = "services of the collection do not run, or run as before their files changed"
FAILED = "the last run of the boot service failed"
#: The prefix of the names of the collection's units.
UNITS = "sovereign-epyc"


class LastRunCheck:
    """The result of a check: ``reason`` is why a run of site.yml may have something to do, "" if it has nothing to do.

    Without a reason, the other attributes have the data for the return values of such a run.
    """

    def __init__(self, reason: str) -> None:
        self.reason = reason
        self.survey: surveys.Survey | None = None
        #: Verdicts on boot parameters that are configured, and in force only after a reboot.
        self.waiting_for_reboot: list[Verdict] = []
        self.remarks: list[str] = []
        self.intent: dict[str, Any] = {}

    def to_dict(self) -> dict[str, object]:
        """Return plain data; without a reason, the return values of kernel_cmdline and epyc_plan are included."""
        if self.reason or self.survey is None:
            return {"holds": False, "reason": self.reason}
        boot = {row.address[len(PREFIX) :]: row for row in self.survey.verdicts if row.address.startswith(PREFIX)}
        result = {
            "holds": True,
            "reason": "",
            "coverage": self._count_with_reboots_as_configured(self.survey),
            "remarks": list(dict.fromkeys(self.remarks)),
            "running": {name: verdict.found for name, verdict in boot.items()},
            "configured": {name: verdict.wanted for name, verdict in boot.items()},
            "pending": [verdict.address[len(PREFIX) :] for verdict in self.waiting_for_reboot],
            "reboot_required": bool(self.waiting_for_reboot),
        }
        if self.intent:
            top = self.survey.host.topology
            planned = plan.build_plan(Intent.from_options(self.intent), top)
            result["ansible_facts"] = {
                "epyc": plan.plan_facts(self.intent, planned, top, self.survey.host.memory_speed)
            }
            result["remarks"] = list(dict.fromkeys([*planned.remarks, *self.remarks]))
        return result

    def _count_with_reboots_as_configured(self, survey: surveys.Survey) -> dict[str, dict[str, int]]:
        """Return the counts by layer and status; a setting that waits for a reboot counts as configured."""
        counts = survey.count_by_layer()
        for verdict in self.waiting_for_reboot:
            row = counts[findings.layer_of_address(verdict.address)]
            row[DRIFT] -= 1
            row[OK] += 1
        return counts


def read_host_state_to_save(host: Host, store: Store, inputs_digest: str) -> dict[str, str]:
    """Return the state of a host, which a run saves at its end: a digest or a text for each part."""
    fs, top = host.fs, host.topology
    items = check_bios_settings(KernelView(fs, top, Ledger(store, fs)), {})
    return {
        INPUTS: inputs_digest,
        "stored": _compute_digest(stored_requests.load_stored_requests(store)),
        "system": str(prerequisites.read_distribution_and_kernel(fs)),
        "firmware": _compute_digest(
            [_topology_to_dict_without_settings(top), [(item.name, item.found) for item in items]]
        ),
        "files": _compute_digest(dict(_digest_files_of_collection(fs.root))),
        BOOTED: fs.read("/proc/cmdline").strip(),
    }


def _topology_to_dict_without_settings(top: Topology) -> dict[str, object]:
    """Return the topology without values that are settings or change between boots.

    These are the mount options of resctrl, huge pages, the bytes of a node, and remarks.
    """
    nodes = [(node.id, node.cpus, node.bytes > 0) for node in top.nodes]
    features = top.resctrl.features if top.resctrl else ()
    return {**top.to_dict(), "nodes": nodes, "resctrl": features, "missing": []}


def save_state_and_intent_of_run(
    store: Store, state: Mapping[str, str], intent: Mapping[str, Any], check: bool
) -> bool:
    """Save the state after a run with its intent, unless this is a check; return whether it differs from before."""
    document = {**state, INTENT: dict(intent)}
    changed = store.load_cache(FILE, SHAPE) != document
    if changed and not check:
        with store.hold_lock():
            store.save_document(FILE, document)
    return changed


def check_whether_site_play_may_be_skipped(
    fs: KernelFS, store: Store, inputs_digest: str, packages: Sequence[str]
) -> LastRunCheck:
    """Return whether site.yml may have something to do; cheap comparisons come first."""
    saved = store.load_cache(FILE, SHAPE)
    if not saved:
        return LastRunCheck(NEVER)
    if saved.get(INPUTS) != inputs_digest:
        return LastRunCheck(DIFFERENCE_REASONS[INPUTS])
    result = LastRunCheck("")
    result.intent = saved.get(INTENT, {})
    survey = result.survey = surveys.check_host(fs, store=store, remarks=result.remarks)
    result.waiting_for_reboot = [verdict for verdict in survey.verdicts if waits_for_reboot(verdict)]
    if not all(verdict.is_clean or waits_for_reboot(verdict) for verdict in survey.verdicts):
        result.reason = DRIFTED
        return result
    present = read_host_state_to_save(survey.host, store, inputs_digest)
    parts = [part for part in DIFFERENCE_REASONS if part != BOOTED or result.waiting_for_reboot]
    differences = (DIFFERENCE_REASONS[part] for part in parts if saved.get(part) != present[part])
    # Missing packages and kernel modules may be the cause of other differences, so their reason comes first.
    result.reason = _missing_package_or_service_reason(fs, packages) or next(differences, "")
    return result


def _missing_package_or_service_reason(fs: KernelFS, packages: Sequence[str]) -> str:
    """Return a reason if packages, kernel modules or services are missing; "" if nothing is missing."""
    system = prerequisites.read_distribution_and_kernel(fs)
    if prerequisites.list_missing_packages(packages, system.is_debian):
        return MISSING
    lines = (fs.read_if_present(prerequisites.FILE) or "").splitlines()
    names = {line.replace("-", "_") for line in lines if not line.startswith("#")}
    if not names <= prerequisites.list_loaded_kernel_modules(fs, system.kernel, names):
        return UNLOADED
    # Sockets, timers and the watch service must be active at any time; other units end by themselves.
    installed = (name for name in fs.list_names(UNIT_FOLDER) if name.startswith(UNITS))
    units = sorted(name for name in installed if name.endswith((".socket", ".timer", "-watch.service")))
    properties = systemd_units.read_unit_properties([*units, BOOT_SERVICE])
    if properties.get(BOOT_SERVICE, {}).get("ActiveState") == "failed":
        return FAILED
    return "" if all(_unit_is_running(properties.get(name, {})) for name in units) else IDLE


def rerun_failed_boot_service() -> bool:
    """Run the boot service again if its last run failed; return whether it had failed.

    A successful run ends the state "degraded" of systemd. Raises TuningError where the service fails again.
    """
    if systemd_units.read_unit_properties([BOOT_SERVICE]).get(BOOT_SERVICE, {}).get("ActiveState") != "failed":
        return False
    systemd_units.run_systemctl("restart", [BOOT_SERVICE])
    return True


def _unit_is_running(unit: Mapping[str, str]) -> bool:
    return unit.get("ActiveState") == "active" and unit.get("NeedDaemonReload") != "yes"


def _digest_files_of_collection(root: str) -> Iterator[tuple[str, str]]:
    """Yield each file of the collection on this host with its digest, mode and owner, and each link with its target."""
    for path in (HOST_TOOL, prerequisites.FILE):
        yield from _digest_file(root, path)
    for folder, name_part in ((HOST_TOOL_FOLDER, ""), (UNIT_FOLDER, UNITS)):
        top = textfile.path_in_tree(root, folder)
        for real_folder, folders, names in os.walk(top):
            folders[:] = sorted(name for name in folders if name != "__pycache__")
            for name in sorted(names):
                path = os.path.join(folder, os.path.relpath(os.path.join(real_folder, name), top))
                if name_part in path:
                    yield from _digest_file(root, os.path.normpath(path))


def _digest_file(root: str, path: str) -> Iterator[tuple[str, str]]:
    real = textfile.path_in_tree(root, path)
    if os.path.islink(real):
        yield path, f"link to {os.readlink(real)}"
    elif os.path.isfile(real):
        status = os.stat(real)
        with open(open_file(real), "rb") as file:
            content = hashlib.sha256(file.read()).hexdigest()
        yield path, f"{content} {stat.S_IMODE(status.st_mode):04o} {status.st_uid}"


def _compute_digest(data: object) -> str:
    import json

    return hashlib.sha256(json.dumps(data, sort_keys=True).encode()).hexdigest()[:16]
