# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Boot parameters without a boot: the drop-in runs in a real shell with a real sed.

update-grub is played by a few lines; tests/lab/test_kernel_cmdline.py has the real one, and a real boot.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ansible_collections.sovereign.epyc.plugins.module_utils._errors import TuningError
from ansible_collections.sovereign.epyc.plugins.module_utils._host.host import Host
from ansible_collections.sovereign.epyc.plugins.module_utils._io.store import Store
from ansible_collections.sovereign.epyc.plugins.module_utils._knobs.boot import config_files, grub
from ansible_collections.sovereign.epyc.plugins.module_utils._knobs.boot import knob as boot_knob
from ansible_collections.sovereign.epyc.plugins.module_utils._knobs.protocol.converge import converge_knobs
from ansible_collections.sovereign.epyc.plugins.module_utils._knobs.protocol.knob import Knob
from ansible_collections.sovereign.epyc.plugins.module_utils._knobs.protocol.ledger import Ledger, RestoringKnob
from ansible_collections.sovereign.epyc.plugins.module_utils._notation import cmdline
from ansible_collections.sovereign.epyc.tests.unit.fakes import hosts

INTENT = {"draft": {"ccds": 1}, "verify": {}, "housekeeping": {"cores": 1, "per": "node"}}


def bootable(root: Path, **changes: Any) -> hosts.Host:
    host = hosts.small(root, **changes)
    host.put("/proc/meminfo", "MemTotal:        4194304 kB\nMemFree: 1 kB")
    host.put("/sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages", 0)
    host.put("/sys/kernel/mm/hugepages/hugepages-1048576kB/nr_hugepages", 0)
    host.put("/proc/cmdline", "BOOT_IMAGE=/boot/vmlinuz root=/dev/vda1 ro console=ttyS0 quiet")
    host.put("/proc/sys/kernel/random/boot_id", "11111111-2222-3333-4444-555555555555")
    host.put("/etc/default/grub", 'GRUB_CMDLINE_LINUX_DEFAULT="quiet"\nGRUB_CMDLINE_LINUX="console=ttyS0"')
    host.put(grub.UPDATE, "played by Boot")
    return host


class Boot:
    """Plays update-grub, with the configuration files run by a real shell."""

    def __init__(self, tree: hosts.Host) -> None:
        self.tree = tree
        self.calls: list[str] = []
        self.unsettled: str | None = None
        self.grub = grub.Grub(str(tree.root), self, self.settle)
        self.ignores = ""
        self.same_for_recovery = False
        self.fails = False
        self.kernels = 1
        self([grub.UPDATE])

    def __call__(self, command: Sequence[str]) -> str:
        assert command == [grub.UPDATE]
        self.calls.append("update-grub")
        if self.fails:
            self.tree.put(f"{grub.RESULT}.new", "half of it")
            raise TuningError("'update-grub' failed with exit code 1. It says: no space left on device")
        last = config_files.run_config_files(str(self.tree.root))[-1]
        in_both, ordinary = last.in_all_entries, last.in_ordinary_entries
        rescue = f"{in_both} {ordinary}" if self.same_for_recovery else in_both
        words = cmdline.split_kernel_command_line(f"{in_both} {ordinary}")
        line = " ".join(word for word in words if not self.ignores or not word.startswith(self.ignores))
        entries = self.kernels * (
            f"menuentry 'Debian' $id 'gnulinux-simple-1' {{\n\tlinux\t/boot/vmlinuz root=/dev/vda1 ro {line}\n"
            "}\nmenuentry 'rescue' $id 'gnulinux-6.12-recovery-1' {\n"
            f"\tlinux\t/boot/vmlinuz root=/dev/vda1 ro single {rescue}\n}}\n"
        )
        self.tree.put(
            grub.RESULT,
            f"### BEGIN /etc/grub.d/10_linux ###\n{entries}"
            "### END /etc/grub.d/10_linux ###\n### BEGIN /etc/grub.d/40_custom ###\n\tlinux /other\n",
        )
        return ""

    def settle(self, paths: Sequence[str]) -> str | None:
        self.calls.append("settle " + " ".join(path.removeprefix(str(self.tree.root)) for path in paths))
        return self.unsettled


def knob(boot: Boot, *parameters: str, **more: Any) -> Knob:
    options = {"parameters": list(parameters), **more}
    return boot_knob.CommandLine(Host(boot.tree.fs, INTENT), options, find=lambda fs: boot.grub)


def run(boot: Boot, one: Knob) -> Any:
    return converge_knobs([one], Ledger(Store(str(boot.tree.root)), boot.tree.fs))


def undo(boot: Boot) -> Any:
    ledger = Ledger(Store(str(boot.tree.root)), boot.tree.fs)
    return converge_knobs([RestoringKnob(knob(boot), ledger)], ledger)


def line(boot: Boot) -> str:
    return " ".join(boot.grub.list_parameters_by_entry()[0])


def rescue(boot: Boot) -> str:
    (only,) = grub.parse_parameters_of_entries(boot.tree.fs.read(grub.RESULT), recovery=True)
    return " ".join(only)


def files(boot: Boot) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in boot.tree.root.glob("**/*grub*/**/*") if path.is_file()}
