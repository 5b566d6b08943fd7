# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""How much Ansible sends to a host for each module: every import of the library adds to it, those for types too."""

from __future__ import annotations

import sys
from collections.abc import Callable

import pytest

from .conftest import ROOT

#: KiB of each module with its last feature, and the share of that which it may have now.
WITH_LAST_FEATURE = {
    "cpufreq_per_ccd": 282.6,
    "cpuidle_states": 267.3,
    "cpuset_partition": 266.2,
    "epyc_bios_check_info": 271.1,
    "epyc_bmc_bios_info": 234.3,
    "epyc_bmc_bios": 255.0,
    "epyc_bmc_reset": 221.0,
    "epyc_drift_info": 437.9,
    "epyc_host_tool": 622.0,
    "epyc_history": 206.1,
    "epyc_last_run": 464.7,
    "epyc_plan": 269.1,
    "epyc_preflight": 602.7,
    "epyc_prerequisites": 265.4,
    "epyc_recommend_info": 469.4,
    "epyc_repair": 447.9,
    "epyc_restore": 419.2,
    "epyc_verify": 571.1,
    "gateway_member": 205.0,
    "gateway_service": 209.1,
    "gguf_info": 232.5,
    "hugepages": 274.3,
    "irq_affinity": 272.5,
    "kernel_cmdline": 285.4,
    "llama_ablation": 1000.6,
    "llama_ablation_boot": 775.2,
    "llama_ask": 354.3,
    "llama_benchmark": 801.0,
    "llama_build": 230.4,
    "llama_fingerprint_info": 540.5,
    "llama_rpc_worker": 478.5,
    "llama_server": 541.7,
    "llama_tune": 995.9,
    "model_file": 233.6,
    "model_quantize": 231.9,
    "msr_bits": 272.9,
    "resctrl_schemata": 289.6,
    "service_placement_info": 284.3,
    "sysfs_settings": 266.1,
    "vllm_server": 470.0,
}
SHARE = 1.05


@pytest.mark.slow
def test_no_module_sends_much_more_than_before(run: Callable[..., str]) -> None:
    lines = run(sys.executable, "tools/payload.py").splitlines()
    now = {name: int(size) / 1024 for name, size in (line.split() for line in lines)}
    assert WITH_LAST_FEATURE.keys() == now.keys() == {path.stem for path in ROOT.glob("plugins/modules/*.py")}
    for name, size in now.items():
        share = size / WITH_LAST_FEATURE[name]
        print(f"{name:<20} {size:6.1f} KiB, {share:.3f} of its size with its last feature (at most {SHARE})")
    assert [name for name, size in now.items() if size > SHARE * WITH_LAST_FEATURE[name]] == []
