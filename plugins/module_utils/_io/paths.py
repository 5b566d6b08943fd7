# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Paths on a host that several packages use."""

from __future__ import annotations

BOOT_SERVICE = "sovereign-epyc.service"
#: The host tool: its command, and the folder with its modules.
HOST_TOOL = "/usr/sbin/sovereign-epyc"
HOST_TOOL_FOLDER = "/usr/lib/sovereign-epyc"
#: The folder for units that administrators and programs like this collection add.
UNIT_FOLDER = "/etc/systemd/system"
BOOT_SERVICE_LINK = f"{UNIT_FOLDER}/multi-user.target.wants/{BOOT_SERVICE}"
#: The first line of each unit of an instance.
INSTANCE_HEAD = "# Written by the collection sovereign.epyc: do not change it here.\n"
#: Lists the boot parameters that an undo removed and that the running kernel still has.
REBOOT_PENDING_FILE = "/run/sovereign-epyc/waits-for-reboot"
#: The NUMA nodes, as the kernel shows them.
NODES = "/sys/devices/system/node"
#: The settings of the kernel that sysctl shows.
SYSCTL = "/proc/sys/kernel"
#: The settings of the scheduler, which only debugfs has, and its switch for scheduling that is aware of caches.
SCHEDULER = "/sys/kernel/debug/sched"
CACHE_AWARE = f"{SCHEDULER}/llc_balancing/enabled"
