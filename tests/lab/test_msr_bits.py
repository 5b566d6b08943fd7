# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""msr_bits through the real msr driver. Registers that the lab does not keep drop writes: they prove the read-back."""

from __future__ import annotations

import json

import pytest

from ansible_collections.sovereign.epyc.plugins.module_utils._io.store import HOME as STORE

pytestmark = pytest.mark.slow

STATE = (
    "import glob, os\n"
    "for name in sorted(glob.glob('/dev/cpu/*/msr')):\n"
    "    fd = os.open(name, 0)\n"
    "    print(name.split('/')[3], *(os.pread(fd, 8, r)[::-1].hex() for r in (0xC0000108, 0xC0011022, 0xC0010015)))"
)
INTENT = {"draft": {"ccds": 1}}
ALLOW_WRITES = "/sys/module/msr/parameters/allow_writes"


def off(cpus, *names):
    return {"cpus": cpus, "prefetch_control": dict.fromkeys(names, "disabled")}


def raw(register, bits="13", value="1", cpus="3"):
    return {"cpus": cpus, "register": register, "bits": bits, "value": value}


# Has CPU 9 go offline at the moment that its register is to be written.
LEAVE = """
from ansible_collections.sovereign.epyc.plugins.module_utils._io.kernelfs import KernelFS
def patch_words(self, path, edits, real=KernelFS.patch_words):
    if path == "/dev/cpu/9/msr":
        self.write("/sys/devices/system/cpu/cpu9/online", "0")
    real(self, path, edits)
KernelFS.patch_words = patch_words
"""

REFUSED = {
    "DE_CFG": ([raw("0xc0011029", "9")], ["DE_CFG", "never writes it, whatever is allowed"]),
    "EFER": ([raw("0xc0000080")], ["EFER", "never writes it"]),
    "another bit of HWCR": ([raw("0xc0010015", "0")], ["not CpbDis", "never writes them"]),
    "the CPU is offline": ([off("4-6", "l1_stream")], ["CPU 5 is offline"]),
    "two values": (
        [off("all", "l1_stream"), {"cpus": "l3:1", "prefetch_control": {"l1_stream": "enabled"}}],
        ["CPU 4 is asked for two values of bit 0", "l1_stream=disabled for all", "l1_stream=enabled for l3:1"],
    ),
    "a value too large": ([raw("0xc0011022", "13", "2")], ["value: '2'", "0 to 0x1"]),
    "a range that YAML took for a number": ([raw("0xc0011022", "913")], ["Quote a range"]),
    "the last entry is wrong": ([off("all", "up_down"), raw("0x10")], ["time stamp counter"]),
}
UNDOCUMENTED = {
    "dc_cfg on Zen": ({"cpus": "3", "dc_cfg": {"hardware_prefetch": "disabled"}}, ["before 17h", "prefetch_control"]),
    "a reserved bit": (raw("0xc0000108", "4"), ["not on the list", "allow_undocumented"]),
    "a register nobody knows": (raw("0xc0011020"), ["not on the list", "hang the machine"]),
}


@pytest.fixture
def registers(cleaned_own_guest):
    """What the registers hold; every test leaves them as they were."""
    cleaned_own_guest.run("modprobe msr; modprobe cpuid")

    def read():
        rows = [line.split() for line in cleaned_own_guest.python(STATE).splitlines()]
        return {int(row[0]): tuple(int(word, 16) for word in row[1:]) for row in rows}

    before = read()
    yield read
    cleaned_own_guest.module("msr_bits", state="original")
    cleaned_own_guest.run("modprobe msr")
    after = read()
    cleaned_own_guest.run("rmmod msr cpuid; true")
    assert after == before


def test_draft_and_verify_differ(cleaned_own_guest, registers):
    settings = [
        off("draft", "l1_stream", "l2_stream", "up_down"),
        {"cpus": "verify", "prefetch_control": {"l1_stream": "enabled", "l1_stride": "disabled"}},
        {"cpus": "verify", "hwcr": {"boost": "disabled"}},
    ]
    before = registers()
    check = cleaned_own_guest.module("msr_bits", settings=settings, intent=INTENT, _ansible_check_mode=True)
    assert registers() == before and check["changed"] and not check["tainted"], check
    first = cleaned_own_guest.module("msr_bits", settings=settings, intent=INTENT)
    assert first["diff"] == check["diff"] and (first["tainted_before"], first["tainted"]) == (False, True)
    assert "acpi-cpufreq writes the boost bit too" in first["remarks"][0] and "taint flag" in first["remarks"][1]
    assert first["remarks"] == check["remarks"]
    after = registers()
    hwcr = before[0][2]
    kinds = {(0b101001, 0, hwcr), (0b10, 0, hwcr | 1 << 25), (0, 0, hwcr)}  # draft, verify, housekeeping
    assert set(after.values()) == kinds
    again = cleaned_own_guest.module("msr_bits", settings=settings, intent=INTENT)
    assert (again["changed"], again["remarks"], again["tainted"]) == (False, first["remarks"][:1], True)


def test_other_bits_stay(cleaned_own_guest, registers):
    cleaned_own_guest.module("msr_bits", settings=[off("7", "l1_stride"), {"cpus": "7", "hwcr": {"boost": "disabled"}}])
    cleaned_own_guest.module("msr_bits", settings=[off("7", "up_down")])
    assert registers()[7] == (0b100010, 0, registers()[6][2] | 1 << 25)
    assert cleaned_own_guest.module("msr_bits", state="original")["changed"]
    assert registers()[7] == registers()[6]


def test_fields_that_overlap_come_back(cleaned_own_guest, registers):
    for bits, value in (("15:13", "0b101"), ("14:13", "0b10")):
        done = cleaned_own_guest.module("msr_bits", settings=[raw("0xc0011022", bits, value)], allow_undocumented=True)
        assert not done.get("failed"), done
    assert registers()[3][1] == 0b110 << 13
    cleaned_own_guest.module("msr_bits", state="original")
    assert registers()[3][1] == 0


def test_a_write_that_the_hardware_ignores_is_a_failure(cleaned_own_guest, registers):
    before = registers()
    settings = [off("3,4", "l1_stream"), raw("0xc0011020", cpus="3,4")]
    result = cleaned_own_guest.module("msr_bits", settings=settings, allow_undocumented=True)
    assert (
        result["failed"] and "msr:0xc0011020[13]/cpu3 and 1 more: the write succeeded without effect" in result["msg"]
    )
    assert (result["wanted"], result["found"], result["address"]) == ("1", "0", "msr:0xc0011020[13]/cpu3")
    assert result["msg"].endswith("put back.") and registers() == before


@pytest.mark.parametrize(("settings", "words"), REFUSED.values(), ids=REFUSED)
def test_refused_whatever_is_allowed(cleaned_own_guest, registers, settings, words):
    if "CPU 5" in words[0]:
        cleaned_own_guest.run("echo 0 >/sys/devices/system/cpu/cpu5/online")
    before = registers()
    result = cleaned_own_guest.module("msr_bits", settings=settings, allow_undocumented=True)
    after = registers()
    cleaned_own_guest.run("echo 1 >/sys/devices/system/cpu/cpu5/online")
    assert result.get("failed") and after == before
    assert [word for word in words if word not in result["msg"]] == [], result["msg"]


@pytest.mark.parametrize(("setting", "words"), UNDOCUMENTED.values(), ids=UNDOCUMENTED)
def test_the_undocumented_is_refused_until_allowed(cleaned_own_guest, registers, setting, words):
    result = cleaned_own_guest.module("msr_bits", settings=[setting])
    assert result.get("failed") and [word for word in words if word not in result["msg"]] == [], result["msg"]


def test_writes_that_somebody_switched_off(cleaned_own_guest, registers):
    before = registers()
    cleaned_own_guest.run(f"echo off >{ALLOW_WRITES}")
    check = cleaned_own_guest.module("msr_bits", settings=[off("3", "l1_stream")], _ansible_check_mode=True)
    result = cleaned_own_guest.module("msr_bits", settings=[off("3", "l1_stream")])
    fine = cleaned_own_guest.module("msr_bits", settings=[{"cpus": "3", "prefetch_control": {"l1_stream": "enabled"}}])
    cleaned_own_guest.run(f"echo default >{ALLOW_WRITES}")
    assert result["failed"] and "allow_writes is off" in result["msg"] and registers() == before
    assert check["msg"] == result["msg"] and not fine["changed"] and not fine.get("failed")


def test_modules_are_loaded_only_when_asked_and_unloaded_again(cleaned_own_guest):
    settings = [off("3", "l1_stream")]
    plain = cleaned_own_guest.module("msr_bits", settings=settings)
    assert "modules msr and cpuid are not loaded" in plain["msg"] and "Set load_module" in plain["msg"]
    check = cleaned_own_guest.module("msr_bits", settings=settings, load_module=True, _ansible_check_mode=True)
    assert check["changed"] and check["diff"]["after"]["msr:module/msr"] == "loaded", check
    assert cleaned_own_guest.run("ls /dev/cpu", check=False) == ""
    made = cleaned_own_guest.module("msr_bits", settings=settings, load_module=True)
    assert made["diff"]["before"] == {
        "msr:module/cpuid": None,
        "msr:module/msr": None,
        "msr:0xc0000108[0]/cpu3": "0",
    }
    assert not cleaned_own_guest.module("msr_bits", settings=settings, load_module=True)["changed"]
    cleaned_own_guest.run("rmmod msr")
    away = cleaned_own_guest.module("msr_bits", state="original")
    assert "was not put back: the kernel module msr is not loaded (modprobe msr)" in away["remarks"][0], away
    cleaned_own_guest.run("modprobe msr")
    cleaned_own_guest.module("msr_bits", settings=[], load_module=True)
    assert cleaned_own_guest.module("msr_bits", state="original")["remarks"] == []
    cleaned_own_guest.run("modprobe msr")
    assert cleaned_own_guest.python(STATE).split()[1::4] == ["0" * 16] * 16
    cleaned_own_guest.run("rmmod msr")
    assert cleaned_own_guest.run("ls /dev/cpu", check=False) == ""


def test_a_cpu_that_leaves_between_reading_and_writing(cleaned_own_guest, registers):
    """What was written elsewhere comes back, and the sentence names the CPU; so does one whose CPU left after that."""
    before = registers()
    result = cleaned_own_guest.module("msr_bits", LEAVE, settings=[off("8-11", "l1_stream")])
    assert "CPU 9 is offline" in result["msg"] and "put back, except what cannot be reached now" in result["msg"], (
        result
    )
    cleaned_own_guest.run("echo 1 >/sys/devices/system/cpu/cpu9/online")
    assert registers() == before
    assert cleaned_own_guest.module("msr_bits", settings=[off("8-11", "l1_stream")])["changed"]
    cleaned_own_guest.run("echo 0 >/sys/devices/system/cpu/cpu9/online")
    back = cleaned_own_guest.module("msr_bits", state="original")
    assert back["remarks"] == ["msr:0xc0000108[0]/cpu9 was not put back: CPU 9 is offline."]
    cleaned_own_guest.run("echo 1 >/sys/devices/system/cpu/cpu9/online")


def test_a_locked_down_kernel(boot_guest):
    """Lockdown lasts until the next boot, so this machine is of its own."""
    guest = boot_guest("small", "lockdown")
    guest.carry_modules()
    guest.run("modprobe msr; modprobe cpuid; echo integrity >/sys/kernel/security/lockdown")
    before = guest.python(STATE)
    result = guest.module("msr_bits", settings=[off("all", "l1_stream")])
    for words in ("can be read but not written", "/sys/kernel/security/lockdown", "Secure Boot", "BIOS"):
        assert words in result["msg"]
    assert guest.python(STATE) == before
    fine = guest.module("msr_bits", settings=[{"cpus": "all", "prefetch_control": {"l1_stream": "enabled"}}])
    assert not fine.get("failed") and not fine["changed"] and not fine["tainted"], fine
    assert guest.module("epyc_plan")["ansible_facts"]["epyc"]["plan"]["cannot"].keys() == {"prefetch"}

    # site.yml says so before its first change, and leaves out nothing that was asked for.
    everything = guest.everything()
    site = guest.play("playbooks/site.yml", "-e", '{"prefetch_draft": {"l1_stream": "disabled"}}', succeeds=False)
    assert (site.returncode, site.changed) == (2, {})
    (refusal,) = [row for row in site.results if row["status"] == "failed"]
    assert refusal["task"] == "Refuse prefetchers that nobody can switch here"
    for words in ("/sys/kernel/security/lockdown", "Nothing was changed", "prefetch_draft"):
        assert words in refusal["msg"]
    assert guest.everything() == everything

    # A host that was tuned before it was locked down: drift and verify say the same of it.
    stored = {"intent": {}, "requests": {"msr/msr": {"settings": [off("all", "l1_stream")], "load_module": True}}}
    guest.run(f"mkdir -p {STORE} && cat >{STORE}/desired.json <<'END'\n{json.dumps(stored)}\nEND")
    (finding,) = [one for one in guest.module("epyc_drift")["findings"] if one["layer"] == "msr"]
    (item,) = [one for one in guest.module("epyc_verify")["checklist"] if one["name"] == "msr"]
    assert (finding["status"], item["verdict"]) == ("unsupported", "unsupported")
    assert finding["reason"].rstrip(".") in item["sentence"]
    assert "Run site.yml" not in item["sentence"]
    assert finding["repair"] == ""
