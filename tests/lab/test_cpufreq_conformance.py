# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The fake policies answer cpufreq_per_ccd as acpi-cpufreq does on a real kernel."""

from __future__ import annotations

import pytest

from ansible_collections.sovereign.epyc.tests.unit.fakes.frequencies import Frequencies
from ansible_collections.sovereign.epyc.tests.unit.fakes.kernels import CPUS, Kernel
from ansible_collections.sovereign.epyc.tests.unit.fakes.module_requests import ask, call, check, put_back, wait, write
from ansible_collections.sovereign.epyc.tests.unit.fakes.refused_requests import CPUFREQ
from ansible_collections.sovereign.epyc.tests.unit.fakes.registers import Registers

from .conformance import DIES, compare_with_kernel, left_changed, linux_version

pytestmark = pytest.mark.slow

MODULE = "cpufreq_per_ccd"
HOME, HWCR = f"{CPUS}/cpufreq", 0xC0010015
NAMES = "boost", "cpb", "scaling_governor", "scaling_min_freq", "scaling_max_freq", "scaling_setspeed"
SHOWN = [f"{HOME}/boost", *(f"{HOME}/policy[03459]/{name}" for name in NAMES)]
INTENT = {"draft": {"ccds": 1}}
RECIPE = [
    {"cpus": "all", "governor": "performance"},
    {"cpus": "draft", "boost": True},
    {"cpus": "verify,housekeeping", "boost": False},
]


def read_boost_steps(*cpus):
    """The steps that read the register with the boost of some CPUs."""
    return [call("read_words", f"/dev/cpu/{cpu}/msr", [HWCR]) for cpu in cpus]


def write_limit_steps(path, text):
    """The steps that write a limit, which the kernel takes over later."""
    return [write(path, text), wait(0.5)]


STEPS = [
    check(settings=RECIPE, intent=INTENT),
    ask(settings=RECIPE, intent=INTENT),
    *read_boost_steps(0, 1, 9),
    ask(settings=RECIPE, intent=INTENT),
    put_back(),
    *read_boost_steps(0, 1, 9),
    # A fixed speed, which goes with its governor.
    ask(settings=[{"cpus": "ccd0", "speed": "1900MHz"}]),
    ask(settings=[{"cpus": "ccd0", "speed": "lowest"}]),
    ask(settings=[{"cpus": "0", "governor": "ondemand"}]),
    put_back(),
    # Limits that move together, up and down.
    *(
        ask(settings=[{"cpus": "all", "min": frequency, "max": frequency}])
        for frequency in ("1900MHz", "lowest", "base", "1900000")
    ),
    put_back(),
    ask(settings=[{"cpus": "all", "max": "2.25GHz"}]),
    ask(settings=[{"cpus": "all", "max": "base", "boost": False}]),
    put_back(),
    # The switch of the whole machine was off.
    write(f"{HOME}/boost", 0),
    *read_boost_steps(0, 4),
    write(f"{HOME}/policy4/boost", 1),
    ask(settings=[{"cpus": "4-5", "boost": True}]),
    *read_boost_steps(3, 4, 5),
    ask(settings=[{"cpus": "4-5", "boost": True}]),
    put_back(),
    *read_boost_steps(3, 4, 5),
    write(f"{HOME}/boost", 1),
    # The register tells, and the files do not.
    write(f"{HOME}/policy3/cpb", 0),
    *read_boost_steps(3),
    ask(settings=[{"cpus": "3", "boost": True}]),
    *read_boost_steps(3),
    ask(settings=[{"cpus": "3", "boost": True}]),
    put_back(),
    *read_boost_steps(3),
    write(f"{HOME}/policy3/boost", 1),
    *read_boost_steps(3),
    write(f"{HOME}/policy3/cpb", 1),
    *read_boost_steps(3),
    # Without the register, the policy's own file does.
    call("load_module", "msr", False),
    ask(settings=[{"cpus": "3", "boost": False}]),
    call("load_module", "msr"),
    *read_boost_steps(3),
    put_back(),
    *read_boost_steps(3),
    # What the module refuses.
    write(f"{CPUS}/cpu5/online", 0),
    *(ask(settings=refused) for refused, dummy in CPUFREQ.values()),
    write(f"{CPUS}/cpu5/online", 1),
    # What the kernel refuses, and what it makes of a limit that is no state.
    write(f"{HOME}/policy3/scaling_governor", "turbo"),
    write(f"{HOME}/policy3/scaling_setspeed", 1900000),
    write(f"{HOME}/policy3/boost", 2),
    write(f"{HOME}/policy3/cpb", 2),
    write(f"{HOME}/boost", 2),
    *write_limit_steps(f"{HOME}/policy3/scaling_max_freq", 2000000),
    *write_limit_steps(f"{HOME}/policy3/scaling_min_freq", 1600000),
    *write_limit_steps(f"{HOME}/policy3/scaling_max_freq", 1500000),
    *write_limit_steps(f"{HOME}/policy3/scaling_max_freq", 3100000),
    *write_limit_steps(f"{HOME}/policy3/scaling_min_freq", 1500000),
    *write_limit_steps(f"{HOME}/policy3/scaling_max_freq", 2250000),
    # A policy sleeps with its CPU, and comes back as it was.
    ask(settings=[{"cpus": "5-6", "governor": "performance"}]),
    write(f"{CPUS}/cpu5/online", 0),
    ask(settings=[{"cpus": "4-6", "boost": False}]),
    put_back(),
    write(f"{CPUS}/cpu5/online", 1),
    put_back(),
    # The driver is unloaded.
    call("load_module", "acpi_cpufreq", False),
    ask(settings=[{"cpus": "all", "governor": "performance"}]),
    call("load_module", "acpi_cpufreq"),
]


def make_fake_machine(folder, linux, governors):
    """The small machine with the policies of acpi-cpufreq, whose kernel knows no frequency of boost.

    The kernel lists its governors in the order in which their modules happened to be loaded.
    """
    kernel = Kernel(folder)
    registers = Registers(kernel)
    Frequencies(kernel, registers, linux, cpuinfo_max_freq=2250000, scaling_available_governors=governors)
    kernel.fs.load_module("msr")
    return kernel


@pytest.fixture
def host(guest_of_each_kernel):
    """The small machine with each kernel, and with the kernel module msr."""
    guest_of_each_kernel.run("modprobe msr")
    yield guest_of_each_kernel
    guest_of_each_kernel.run("rmmod msr")


def test_the_fake_answers_as_the_kernel(host, tmp_path):
    governors = host.run(f"cat {HOME}/policy0/scaling_available_governors").strip()
    fake = make_fake_machine(tmp_path, linux_version(host), governors)
    answers = compare_with_kernel(host, fake, MODULE, STEPS, SHOWN, recorded=[DIES])
    assert left_changed(answers) == set()
