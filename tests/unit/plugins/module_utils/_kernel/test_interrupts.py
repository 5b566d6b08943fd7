# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The interrupts of each CPU by kind, from a file laid out as the kernel does."""

from __future__ import annotations

from pathlib import Path

import pytest

from ansible_collections.sovereign.epyc.plugins.module_utils._errors import Absent
from ansible_collections.sovereign.epyc.plugins.module_utils._io.kernelfs import KernelFS
from ansible_collections.sovereign.epyc.plugins.module_utils._kernel import interrupts

#: CPU 1 is offline, so it has no column. A name may have spaces, and the last rows count for the whole host.
FILE = """\
            CPU0       CPU2
   0:         40          0   IO-APIC    2-edge      timer
  44:          7         11  IR-PCI-MSIX-0000:41:00.0   1-edge      nvme0q1 5 6
 NMI:          3          4   Non-maskable interrupts
 LOC:       1000         20   Local timer interrupts
 RES:          5          6   Rescheduling interrupts
 CAL:         50         60   Function call interrupts
 TLB:        500        600   TLB shootdowns
 ERR:          9
 MIS:          8
"""


def test_interrupts_by_kind_and_cpu(tmp_path: Path) -> None:
    (tmp_path / "proc").mkdir()
    (tmp_path / "proc/interrupts").write_text(FILE)
    assert interrupts.read_interrupt_counts(KernelFS(str(tmp_path))) == {
        "ticks": {0: 1000, 2: 20},
        "devices": {0: 47, 2: 11},
        "sent": {0: 555, 2: 666},
    }


def test_a_kernel_that_does_not_show_them(tmp_path: Path) -> None:
    with pytest.raises(Absent):
        interrupts.read_interrupt_counts(KernelFS(str(tmp_path)))
