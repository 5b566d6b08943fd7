# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""msr_bits on a kernel that lets nobody write registers; the rest of it is in test_msr_conformance."""

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


def prefetch_off_request(cpus, *names):
    return {"cpus": cpus, "prefetch_control": dict.fromkeys(names, "disabled")}


def test_a_locked_down_kernel(boot_guest):
    """Lockdown lasts until the next boot, so this machine is of its own."""
    guest = boot_guest("small", "lockdown")
    guest.carry_modules()
    guest.run("modprobe msr; modprobe cpuid; echo integrity >/sys/kernel/security/lockdown")
    before = guest.python(STATE)
    result = guest.module("msr_bits", settings=[prefetch_off_request("all", "l1_stream")])
    for words in ("can be read but not written", "/sys/kernel/security/lockdown", "Secure Boot", "BIOS"):
        assert words in result["msg"]
    assert guest.python(STATE) == before
    fine = guest.module("msr_bits", settings=[{"cpus": "all", "prefetch_control": {"l1_stream": "enabled"}}])
    assert not fine.get("failed") and not fine["changed"] and not fine["tainted"], fine
    assert guest.module("epyc_plan")["ansible_facts"]["epyc"]["plan"]["cannot"].keys() == {"prefetch"}

    # site.yml says so before its first change, and leaves out nothing that was asked for.
    everything = guest.everything()
    site = guest.play("playbooks/site.yml", "-e", '{"epyc_prefetch_draft": {"l1_stream": "disabled"}}', succeeds=False)
    assert (site.returncode, site.changed_results) == (2, {})
    (refusal,) = [row for row in site.results if row["status"] == "failed"]
    assert refusal["task"] == "Refuse before anything is changed what this host cannot have"
    for words in ("/sys/kernel/security/lockdown", "Nothing was changed", "epyc_prefetch_draft"):
        assert words in refusal["msg"]
    assert guest.everything() == everything

    # A host that was tuned before it was locked down: drift and verify say the same of it.
    stored = {
        "intent": {},
        "requests": {"msr/msr": {"settings": [prefetch_off_request("all", "l1_stream")], "load_module": True}},
    }
    guest.run(f"mkdir -p {STORE} && cat >{STORE}/desired.json <<'END'\n{json.dumps(stored)}\nEND")
    (finding,) = [one for one in guest.module("epyc_drift_info")["findings"] if one["layer"] == "msr"]
    (item,) = [one for one in guest.module("epyc_verify")["checklist"] if one["name"] == "msr"]
    assert (finding["status"], item["verdict"]) == ("unsupported", "unsupported")
    assert finding["reason"].rstrip(".") in item["sentence"]
    assert "Run site.yml" not in item["sentence"]
    assert finding["repair"] == ""
