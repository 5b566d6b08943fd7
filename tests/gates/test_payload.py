# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""How much Ansible sends to a host for each module: every import of the engine adds to it, those for types too."""

from __future__ import annotations

import sys
from collections.abc import Callable

import pytest

from .conftest import ROOT

#: KiB of each module when the engine was one flat folder, and what it may have of that now, with what was added since:
#: the undo layer by layer, the ledger's second file, requests that are asked for no more. Two had dragged every knob
#: along for the sake of a constant. The knobs of idle states and of the CPU partition were added to those that carry
#: every knob and had no room, and what reads a partition to llama_server.
#: epyc_engine has 1.1 more since: the command bench, and a file of its own for what reads the sources that are
#: installed, which llama_benchmark needs too. What the kernel shows of the BIOS is a package and no file, with
#: a reader of SMBIOS and the names of registers: epyc_bios and epyc_last_run grew by 22 and 17 KiB of these.
#: epyc_engine has 10.4 KiB more since, for the agent that gateways ask, its socket and the options of both; and
#: epyc_last_run and epyc_drift 0.1, for looking whether that socket listens, and for its name.
#: Workers on other hosts: their addresses, what an instance may say of them, its share of the layers, and the wait
#: for them (llama_server, epyc_engine); the items about a worker (epyc_verify). How tokens are chosen, adapters and
#: templates: their options and the flags of both engines (llama_server).
#: Rows on the nodes of their threads: the proof reads the header of the model (service_placement, epyc_verify), as does
#: what puts them there (epyc_engine); that a host tells of its resctrl groups and pools (epyc_engine). The kinds of
#: speculation and the options of ik_llama.cpp have words of their own (llama_server). What a host has for repairing its
#: drift by itself and for the groups of vLLM (epyc_engine), and the name of its record (the others); epyc_repair
#: carries every knob, as epyc_restore does. Which instance of either engine is meant (llama_server).
#: What comes between the threads that compute (service_placement, epyc_verify); what a host tells of its instances
#: (epyc_engine); instances of vLLM (llama_benchmark). A check looks at the units of llama.cpp (epyc_drift,
#: epyc_engine), which carry a digest (llama_server), and names them (epyc_last_run). Heads that draft have words of
#: their own, and are held against their model (all that plan an instance). A mount for pools of huge pages (all that
#: carry every knob). What kills a server that hangs (epyc_engine, llama_server). Several models
#: behind one port, each of which is asked by its name (llama_server, epyc_verify, llama_benchmark), and a changed
#: instance that is started beside the one that runs (llama_server). How fast a model comes from its disk, and whether
#: texts for suffixes can be read (llama_server). Whether the record is root's own and can be written is looked at
#: before anything is changed, what killed runs have left is removed, and what is printed has escapes; the door to
#: files in folders of others; one parser of numbers, what no option can be, and sentences that are cut (all that had no
#: room). The history of the host, in which each module of settings counts what it changes, and its command; the undo of
#: one layer, which knows which settings each layer has, and looks at the units of instances (all that had no room).
#: What was asked for and a run that did not end are held against the host (epyc_drift, epyc_last_run); the checklist
#: and a repair are made of the findings of a whole check, which looks at the units of llama.cpp (epyc_verify,
#: epyc_repair). The door of all modules has the words with which --diff prints changes: 6 KiB (all that had no room).
BEFORE = {
    "cpufreq_per_ccd": 236.3,
    "cpuidle_states": 241.0,
    "cpuset_partition": 240.8,
    "epyc_bios": 242.2,
    "epyc_bios_info": 220.0,
    "epyc_bios_settings": 235.3,
    "epyc_bmc_reset": 207.3,
    "epyc_drift": 365.3,
    "epyc_engine": 485.3,
    "epyc_history": 197.0,
    "epyc_last_run": 387.7,
    "epyc_plan": 214.9,
    "epyc_preflight": 492.1,
    "epyc_prerequisites": 222.0,
    "epyc_recommend": 387.2,
    "epyc_repair": 373.5,
    "epyc_restore": 364.0,
    "epyc_verify": 450.5,
    "gateway_member": 242.3,
    "gguf_info": 221.1,
    "hugepages": 229.3,
    "irq_affinity": 227.9,
    "kernel_cmdline": 238.4,
    "llama_ablation": 559.0,
    "llama_ablation_boot": 570.8,
    "llama_ask": 287.1,
    "llama_benchmark": 502.7,
    "llama_build": 252.4,
    "llama_fingerprint": 427.3,
    "llama_rpc_worker": 354.5,
    "llama_server": 477.8,
    "llama_tune": 661.6,
    "model_file": 231.4,
    "model_quantize": 257.1,
    "msr_bits": 228.2,
    "resctrl_schemata": 242.1,
    "service_placement": 356.4,
    "sysfs_settings": 222.5,
}
SHARE = {**dict.fromkeys(BEFORE, 1.2), "llama_server": 0.95, "service_placement": 0.8}


@pytest.mark.slow
def test_no_module_sends_much_more_than_before(run: Callable[..., str]) -> None:
    lines = run(sys.executable, "tools/payload.py").splitlines()
    now = {name: int(size) / 1024 for name, size in (line.split() for line in lines)}
    assert BEFORE.keys() == now.keys() == {path.stem for path in ROOT.glob("plugins/modules/*.py")}
    for name, size in now.items():
        print(f"{name:<20} {size:6.1f} KiB, {size / BEFORE[name]:.3f} of what it was (at most {SHARE[name]})")
    assert [name for name, size in now.items() if size > SHARE[name] * BEFORE[name]] == []
