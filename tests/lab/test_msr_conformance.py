# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The fake registers answer msr_bits as those of the small machine do, through the driver of a real kernel.

A CPU that leaves in the middle of a run is tried here too, because writes to registers taint this file's own machine.
"""

from __future__ import annotations

import pytest

from ansible_collections.sovereign.epyc.tests.unit.fakes.kernels import CPUS, Kernel
from ansible_collections.sovereign.epyc.tests.unit.fakes.module_requests import ask, call, check, put_back, write
from ansible_collections.sovereign.epyc.tests.unit.fakes.refused_requests import MSR, UNDOCUMENTED
from ansible_collections.sovereign.epyc.tests.unit.fakes.registers import BORN_HWCR, Registers

from .conformance import DIES, compare_with_kernel, left_changed, run_program

pytestmark = pytest.mark.slow

MODULE = "msr_bits"
ALLOW_WRITES, TAINTED = "/sys/module/msr/parameters/allow_writes", "/proc/sys/kernel/tainted"
SHOWN = [ALLOW_WRITES, TAINTED, f"{CPUS}/online"]
REGISTERS = [0xC0000108, 0xC0010015, 0xC0011020, 0xC0011022]
INTENT = {"draft": {"ccds": 1}}


def read_register_steps(*cpus):
    """The steps that read the registers of some CPUs."""
    return [call("read_words", f"/dev/cpu/{cpu}/msr", REGISTERS) for cpu in cpus]


def prefetch_off_request(cpus, *names):
    return {"cpus": cpus, "prefetch_control": dict.fromkeys(names, "disabled")}


def register_request(register, bits="13", value="1", cpus="3"):
    return {"cpus": cpus, "register": register, "bits": bits, "value": value}


ROLES = {
    "settings": [
        prefetch_off_request("draft", "l1_stream", "l2_stream", "up_down"),
        {"cpus": "verify", "prefetch_control": {"l1_stream": "enabled", "l1_stride": "disabled"}},
        {"cpus": "verify", "hwcr": {"boost": "disabled"}},
    ],
    "intent": INTENT,
}
# Has CPU 9 go offline at the moment that its register is to be written.
LEAVE = """
from ansible_collections.sovereign.epyc.plugins.module_utils._io.kernelfs import KernelFS
def patch_words(self, path, edits, real=KernelFS.patch_words):
    if path == "/dev/cpu/9/msr":
        self.write("/sys/devices/system/cpu/cpu9/online", "0")
    real(self, path, edits)
KernelFS.patch_words = patch_words
"""

ONE = {"settings": [prefetch_off_request("3", "l1_stream")]}
MET = {"settings": [{"cpus": "3", "prefetch_control": {"l1_stream": "enabled"}}]}
STEPS = [
    # The kernel modules are loaded only when that is asked for, and unloaded again.
    ask(**ONE),
    check(load_module=True, **ONE),
    ask(load_module=True, **ONE),
    *read_register_steps(3),
    ask(load_module=True, **ONE),
    call("load_module", "msr", False),
    put_back(),
    call("load_module", "msr"),
    ask(settings=[], load_module=True),
    put_back(),
    call("load_module", "msr"),
    call("load_module", "cpuid"),
    *read_register_steps(0, 3),
    # Roles, bits beside others, and fields that overlap.
    check(**ROLES),
    ask(**ROLES),
    *read_register_steps(0, 1, 7, 9, 12),
    ask(**ROLES),
    put_back(),
    *read_register_steps(0, 1, 7, 9, 12),
    ask(settings=[prefetch_off_request("7", "l1_stride"), {"cpus": "7", "hwcr": {"boost": "disabled"}}]),
    ask(settings=[prefetch_off_request("7", "up_down")]),
    *read_register_steps(6, 7),
    put_back(),
    *read_register_steps(7),
    ask(settings=[register_request("0xc0011022", "15:13", "0b101")], allow_undocumented=True),
    ask(settings=[register_request("0xc0011022", "14:13", "0b10")], allow_undocumented=True),
    *read_register_steps(3),
    put_back(),
    *read_register_steps(3),
    # The hardware ignores a write.
    ask(
        settings=[prefetch_off_request("3,4", "l1_stream"), register_request("0xc0011020", cpus="3,4")],
        allow_undocumented=True,
    ),
    *read_register_steps(3, 4),
    # What is refused, whatever is allowed, and what is refused until it is allowed.
    write(f"{CPUS}/cpu5/online", 0),
    *(ask(settings=refused, allow_undocumented=True) for refused, dummy in MSR.values()),
    write(f"{CPUS}/cpu5/online", 1),
    *(ask(settings=refused) for refused, dummy in UNDOCUMENTED.values()),
    # Somebody has switched off writes.
    write(ALLOW_WRITES, "off"),
    check(**ONE),
    ask(**ONE),
    call("patch_words", "/dev/cpu/3/msr", [[0xC0000108, 1, 1]]),
    ask(**MET),
    write(ALLOW_WRITES, "default"),
    # A CPU is offline, before a run and before its undo.
    ask(settings=[prefetch_off_request("8-11", "l1_stream")]),
    write(f"{CPUS}/cpu9/online", 0),
    ask(settings=[prefetch_off_request("8-11", "up_down")]),
    *read_register_steps(9),
    put_back(),
    *read_register_steps(8),
    write(f"{CPUS}/cpu9/online", 1),
    *read_register_steps(9),
    put_back(),
    *read_register_steps(9),
    call("load_module", "msr", False),
    call("load_module", "cpuid", False),
]


def make_fake_machine(folder):
    """The small machine with registers, whose kernel modules nobody has loaded."""
    kernel = Kernel(folder)
    Registers(kernel)
    kernel.host.put("/proc/cpuinfo", kernel.fs.read("/proc/cpuinfo").replace("cqm_llc", "cqm_llc cpb"))
    return kernel


def test_the_fake_answers_as_the_kernel(own_guest_of_each_kernel, tmp_path):
    """The machine is this file's own, because writes to registers taint the kernel."""
    fake = make_fake_machine(tmp_path)
    answers = compare_with_kernel(own_guest_of_each_kernel, fake, MODULE, STEPS, SHOWN, recorded=[DIES])
    assert left_changed(answers) == {TAINTED}


def test_a_cpu_that_leaves_between_reading_and_writing(own_guest_of_each_kernel):
    """What was written elsewhere comes back, and the sentence names the CPU."""
    own_guest_of_each_kernel.run("modprobe -a msr cpuid")
    result = own_guest_of_each_kernel.module("msr_bits", LEAVE, settings=[prefetch_off_request("8-11", "l1_stream")])
    assert "CPU 9 is offline" in result["msg"] and "put back, except what cannot be reached now" in result["msg"], (
        result
    )
    own_guest_of_each_kernel.run(f"echo 1 >{CPUS}/cpu9/online")
    words = f"[KernelFS().read_words(f'/dev/cpu/{{cpu}}/msr', {REGISTERS}) for cpu in range(16)]"
    assert {tuple(row) for row in run_program(own_guest_of_each_kernel, words, MODULE)} == {(0, BORN_HWCR, 0, 0)}
