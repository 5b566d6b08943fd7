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
    "cpufreq_per_ccd": 307.5,
    "cpuidle_states": 292.2,
    "cpuset_partition": 291.3,
    "epyc_bios_check_info": 280.2,
    "epyc_bmc_bios": 289.1,
    "epyc_bmc_bios_info": 281.4,
    "epyc_bmc_reset": 228.4,
    "epyc_capacity_info": 746.9,
    "epyc_drift_info": 500.2,
    "epyc_history": 211.3,
    "epyc_host_tool": 692.1,
    "epyc_last_run": 532.1,
    "epyc_memory_speed": 450.1,
    "epyc_plan": 291.9,
    "epyc_preflight": 722.8,
    "epyc_prerequisites": 290.6,
    "epyc_recommend_info": 583.1,
    "epyc_repair": 529.2,
    "epyc_restore": 472.9,
    "epyc_servable_info": 491.0,
    "epyc_verify": 645.5,
    "gateway_member": 210.0,
    "gateway_service": 210.9,
    "gguf_info": 234.4,
    "hugepages": 317.1,
    "irq_affinity": 297.4,
    "kernel_cmdline": 356.0,
    "llama_ablation": 1129.7,
    "llama_ablation_boot": 856.2,
    "llama_ask": 402.3,
    "llama_benchmark": 880.8,
    "llama_build": 238.2,
    "llama_fingerprint_info": 610.9,
    "llama_rpc_worker": 530.2,
    "llama_server": 614.7,
    "llama_tune": 1125.4,
    "model_file": 241.0,
    "model_quantize": 241.0,
    "msr_bits": 298.0,
    "resctrl_schemata": 314.6,
    "service_placement_info": 331.0,
    "sysfs_settings": 291.2,
    "vllm_server": 521.6,
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
