# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the host itself says of its L3 caches."""

from __future__ import annotations


def test_masks(host):
    def masks(group):
        return host.check_output(f"grep L3: /sys/fs/resctrl/{group}/schemata").strip()

    assert masks("draft") == "L3:0=000f;1=000f;2=fff0;3=fff0"
    assert masks("verify") == "L3:0=fff0;1=fff0;2=000f;3=000f"
    assert masks(".") == "L3:0=000f;1=000f;2=000f;3=000f"


def test_mount(host):
    mount = host.mount_point("/sys/fs/resctrl")
    assert mount.filesystem == "resctrl"
    assert {"nosuid", "nodev", "noexec"} <= set(mount.options)
