# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The firmware of a running machine: its BIOS settings, which decide at each boot which shape QEMU gets."""

from __future__ import annotations

import json
from typing import Any

from ..bmc import Bmc
from ..bmc.personality import load_personality
from ..epyc import bios
from ..epyc.shapes import Shape
from ..errors import VepycError
from .run_directory import RunDirectory


class Firmware:
    """The BIOS settings of a machine, changed by commands or by its BMC, and stored in its run directory."""

    def __init__(self, run_dir: RunDirectory, usual: Shape, vendor: str | None, settings: dict[str, Any]) -> None:
        self.run_dir = run_dir
        self.unchanged_shape = usual
        self._save_settings(settings)
        self.bmc = self._make_bmc(vendor) if vendor else None

    def _make_bmc(self, vendor: str) -> Bmc:
        """Start a BMC, which switches the machine by the same requests to the supervisor as commands send."""
        folder = self.run_dir.path / "bmc"
        folder.mkdir()
        settings = {**bios.bios_settings_of_shape(self.unchanged_shape), **self._load_settings()}
        booted_shape = bios.apply_bios_settings(self.unchanged_shape, settings)
        if booted_shape.cores_per_l3 != self.unchanged_shape.cores_per_l3:
            # Some vendors count the cores of an L3 domain, others those of a socket.
            cores = {
                "cores_per_l3": booted_shape.cores_per_l3,
                "cores_per_socket": booted_shape.cores_per_l3 * booted_shape.l3_domains,
            }
            settings = {**settings, **cores}
        active = load_personality(vendor).machine_state_to_settings(settings)
        bmc = Bmc(
            folder, vendor, active=active, power=lambda action: self.run_dir.send_request(f"power-{action}", timeout=60)
        )
        self.run_dir.bmc.write_text(json.dumps(bmc.access_data, indent=1) + "\n")
        return bmc

    def apply_boot(self) -> Shape | None:
        """Apply what waits for a boot and return the shape to boot; None if the machine hangs in its POST."""
        if self.bmc:
            settings = self.bmc.boot_machine()
            if self.bmc.host.hung:
                return None
            plugged = {name: value for name, value in self._load_settings().items() if name in bios.HARDWARE_KNOBS}
            self._save_settings({**plugged, **settings})
        return bios.apply_bios_settings(self.unchanged_shape, self._load_settings())

    def note_power_loss(self) -> bool:
        """Tell the BMC that the machine has no power; return whether there is a BMC, which may switch it on again."""
        if self.bmc:
            self.bmc.host.note_power_loss()
        return self.bmc is not None

    def handle_request(self, request: dict[str, Any]) -> bool:
        """Execute a command's request if it concerns the firmware; return False for any other request."""
        if request["do"] == "bios":
            if self.bmc and request["settings"].keys() - {*bios.HARDWARE_KNOBS}:
                raise VepycError("the BMC of this machine decides on its BIOS settings; send a PATCH to that")
            self._save_settings({**self._load_settings(), **request["settings"]})
        elif request["do"] == "bmc-faults":
            if not self.bmc:
                raise VepycError("this machine has no BMC; start it with: vepyc up ... --bmc dell")
            for name, value in request["faults"].items():
                if not hasattr(self.bmc.faults, name):
                    raise VepycError(f"a BMC has no fault {name!r}; vepyc/bmc/faults.py lists them")
                setattr(self.bmc.faults, name, value)
        else:
            return False
        return True

    def _load_settings(self) -> dict[str, Any]:
        return dict(json.loads(self.run_dir.bios.read_text()))

    def _save_settings(self, settings: dict[str, Any]) -> None:
        bios.apply_bios_settings(self.unchanged_shape, settings)  # raises an error for unknown settings
        self.run_dir.bios.write_text(json.dumps(settings))
