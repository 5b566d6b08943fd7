# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Paths on a host that more than one package names."""

from __future__ import annotations

BOOT_SERVICE = "sovereign-epyc.service"
#: The engine on a host: its command, and the folder with its other files.
HOST_TOOL = "/usr/sbin/sovereign-epyc"
HOST_TOOL_FOLDER = "/usr/lib/sovereign-epyc"
#: Where administrators and programs such as ours put units.
UNIT_FOLDER = "/etc/systemd/system"
BOOT_SERVICE_LINK = f"{UNIT_FOLDER}/multi-user.target.wants/{BOOT_SERVICE}"
#: How the unit of an instance begins.
INSTANCE_HEAD = "# Written by the collection sovereign.epyc: do not change it here.\n"
#: Boot parameters that an undo took back and the running kernel still has, one a line.
REBOOT_PENDING_FILE = "/run/sovereign-epyc/waits-for-reboot"
#: The NUMA nodes, as the kernel shows them.
NODES = "/sys/devices/system/node"
