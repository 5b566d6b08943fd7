# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The firmware of a running machine: it decides at each boot which machine of its shape the guest gets."""

from __future__ import annotations

import json
from typing import Any

from ..bmc import Bmc
from ..bmc.personality import load
from ..epyc import bios
from ..epyc.shapes import Shape
from ..errors import VepycError
from .run_directory import RunDirectory


class Firmware:
    """BIOS settings, as commands or a BMC have left them; the run directory has them."""

    def __init__(self, run_dir: RunDirectory, usual: Shape, vendor: str | None, settings: dict[str, Any]) -> None:
        self.run_dir = run_dir
        self.unchanged_shape = usual
        self._save_settings(settings)
        self.bmc = self._make_bmc(vendor) if vendor else None

    def _make_bmc(self, vendor: str) -> Bmc:
        """A BMC that switches the machine by the same requests as commands do."""
        folder = self.run_dir.path / "bmc"
        folder.mkdir()
        settings = {**bios.bios_settings_of_shape(self.unchanged_shape), **self._load_settings()}
        made = bios.apply_bios_settings(self.unchanged_shape, settings)
        if made.cores_per_l3 != self.unchanged_shape.cores_per_l3:
            # Vendors count cores in one way or the other.
            cores = {"cores_per_l3": made.cores_per_l3, "cores_per_socket": made.cores_per_l3 * made.l3_domains}
            settings = {**settings, **cores}
        active = load(vendor).values_of(settings)
        bmc = Bmc(
            folder, vendor, active=active, power=lambda what: self.run_dir.send_request(f"power-{what}", timeout=60)
        )
        self.run_dir.bmc.write_text(json.dumps(bmc.reach, indent=1) + "\n")
        return bmc

    def apply_boot(self) -> Shape | None:
        """The machine that this boot makes; none when it hangs in its POST."""
        if self.bmc:
            settings = self.bmc.boot()
            if self.bmc.host.hung:
                return None
            plugged = {name: value for name, value in self._load_settings().items() if name in bios.HARDWARE_KNOBS}
            self._save_settings({**plugged, **settings})
        return bios.apply_bios_settings(self.unchanged_shape, self._load_settings())

    def note_power_loss(self) -> bool:
        """The machine has lost its power. Whether it may get it back, which takes a BMC."""
        if self.bmc:
            self.bmc.host.went_off()
        return self.bmc is not None

    def handle_request(self, request: dict[str, Any]) -> bool:
        """Serve a command's request that is about the firmware; false for any other one."""
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
        bios.apply_bios_settings(self.unchanged_shape, settings)  # refuses what there is not
        self.run_dir.bios.write_text(json.dumps(settings))
