# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the host itself says after site.yml has repaired it."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

ROOT = Path(__file__).parents[4]


def test_mount(host):
    mount = host.mount_point("/sys/fs/resctrl")
    assert mount.exists
    assert mount.filesystem == "resctrl"
    assert {"nosuid", "nodev", "noexec"} <= set(mount.options)


def test_masks(host):
    def masks(group):
        return host.check_output(f"grep L3: /sys/fs/resctrl/{group}/schemata").strip()

    assert masks("draft") == "L3:0=fff0;1=fff0;2=000f;3=000f"
    assert masks("verify") == "L3:0=000f;1=000f;2=fff0;3=fff0"
    assert masks(".") == "L3:0=000f;1=000f;2=000f;3=000f"


def test_drivers(host):
    file = host.file("/etc/modules-load.d/sovereign-epyc.conf")
    assert (file.user, file.group, file.mode) == ("root", "root", 0o644)
    assert [line for line in file.content_string.splitlines() if not line.startswith("#")] == ["cpuid", "msr"]
    assert host.file("/dev/cpu/0/msr").exists


def test_nothing_is_left_to_do():
    """Molecule's own check step passes whatever it finds."""
    inventory = Path(os.environ["MOLECULE_EPHEMERAL_DIRECTORY"], "guest")
    done = subprocess.run(
        [ROOT / "tools/expect_unchanged.py", "-i", inventory, "playbooks/site.yml"],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout
