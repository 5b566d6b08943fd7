# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the last whole run of site.yml left on a host, and whether that still holds.

With the same inputs, on an unchanged host whose settings are all in force, site.yml has nothing to do: so one check
replaces one for each layer. What the stored requests do not cover is remembered part by part: the system and what the
firmware shows, kernel modules, missing packages, files of ours, and units that run.
"""

from __future__ import annotations

import hashlib
import os
import stat

from .._drift import survey as surveys
from .._io import textfile
from .._io.paths import COMMAND, ENGINE, UNIT_FOLDER
from .._knobs import desired
from .._knobs import units as systemd_units
from .._verify import bios
from . import prerequisites

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from .._host.host import Host
    from .._host.topology import Topology
    from .._io.kernelfs import KernelFS
    from .._io.store import Store

FILE = "last_run.json"
INPUTS = "inputs"
NEVER = "site.yml has never completed here with all layers"
DIFFERS = {
    INPUTS: "the inventory, the collection or its version has changed since the last run",
    "stored": "what is stored for the boot service is not what the last run stored",
    "system": "the distribution or the kernel has changed since the last run",
    "firmware": "the topology or what the kernel shows of the BIOS has changed since the last run",
    "modules": "kernel modules were loaded or unloaded since the last run",
    "missing": "packages were installed or removed since the last run",
    "files": "files of the collection have changed since the last run",
    "running": "services of the collection were started or stopped since the last run",
}
DRIFTED = "a setting is not as configured, or could not be read"
#: The names of our units begin with this.
UNITS = "sovereign-epyc"


def state(host: Host, store: Store, inputs: str, packages: Sequence[str]) -> dict[str, str]:
    """Return what is remembered of a host, a digest or some words for each part."""
    fs, top = host.fs, host.topology
    items = bios.check(fs, top, {})
    system = prerequisites.system(fs)
    files = dict(_files(fs.root))
    units = sorted({os.path.basename(path) for path in files if os.path.dirname(path) == UNIT_FOLDER})
    shown = systemd_units.show(units) if units else {}
    return {
        INPUTS: inputs,
        "stored": _digest(desired.stored(store)),
        "system": str(system),
        "firmware": _digest([_shape(top), [(item.name, item.found) for item in items]]),
        "modules": " ".join(_loaded(fs, system)),
        "missing": " ".join(prerequisites.missing(packages, system.debian)),
        "files": _digest(files),
        "running": " ".join(f"{name}={shown.get(name, {}).get('ActiveState', '')}" for name in _steady(units)),
    }


def _shape(top: Topology) -> dict[str, object]:
    """Return the topology without its remarks, without settings, and without what differs from boot to boot.

    Left out are the mount options of resctrl, free huge pages, and the bytes of a node.
    """
    nodes = [(node.id, node.cpus, node.bytes > 0) for node in top.nodes]
    features = top.resctrl.features if top.resctrl else ()
    return {**top.to_dict(), "nodes": nodes, "resctrl": features, "missing": []}


def remember(store: Store, found: Mapping[str, str], check: bool) -> bool:
    """Store this as what the last run left, unless this is a check; return whether something else was stored."""
    changed = store.load(FILE) != dict(found)
    if changed and not check:
        with store.lock():
            store.save(FILE, dict(found))
    return changed


def look(fs: KernelFS, store: Store, inputs: str, packages: Sequence[str]) -> tuple[str, surveys.Survey | None]:
    """Return why site.yml may have something to do, or an empty text, and the survey if one was made."""
    kept = store.load(FILE)
    if not kept:
        return NEVER, None
    if kept.get(INPUTS) != inputs:
        return DIFFERS[INPUTS], None
    survey = surveys.of_host(fs, store=store)
    if not survey.clean:
        return DRIFTED, survey
    found = state(survey.host, store, inputs, packages)
    return next((reason for part, reason in DIFFERS.items() if kept.get(part) != found[part]), ""), survey


def _loaded(fs: KernelFS, system: prerequisites.System) -> list[str]:
    """Return those of the kernel modules to load at every boot that are loaded now."""
    lines = (fs.find(prerequisites.FILE) or "").splitlines()
    names = [line.replace("-", "_") for line in lines if not line.startswith("#")]
    there = prerequisites.loaded(fs, system.kernel, names)
    return [name for name in names if name in there]


def _files(root: str) -> Iterator[tuple[str, str]]:
    """Yield each file of ours with its digest, mode and owner; for a link, its target."""
    for path in (COMMAND, prerequisites.FILE):
        yield from _file(root, path)
    for folder, wanted in ((ENGINE, ""), (UNIT_FOLDER, UNITS)):
        for place, folders, names in os.walk(textfile.under(root, folder)):
            folders[:] = sorted(name for name in folders if name != "__pycache__")
            for name in sorted(names):
                path = os.path.join(folder, os.path.relpath(os.path.join(place, name), textfile.under(root, folder)))
                if wanted in path:
                    yield from _file(root, os.path.normpath(path))


def _file(root: str, path: str) -> Iterator[tuple[str, str]]:
    real = textfile.under(root, path)
    if os.path.islink(real):
        yield path, f"link to {os.readlink(real)}"
    elif os.path.isfile(real):
        there = os.stat(real)
        with open(real, "rb") as file:
            content = hashlib.sha256(file.read()).hexdigest()
        yield path, f"{content} {stat.S_IMODE(there.st_mode):04o} {there.st_uid}"


def _steady(units: Sequence[str]) -> list[str]:
    """Return the units that run all the time."""
    return [name for name in units if name.endswith((".timer", "-watch.service"))]


def _digest(data: object) -> str:
    import json

    return hashlib.sha256(json.dumps(data, sort_keys=True).encode()).hexdigest()[:16]
