# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Instances on the sixth generation, with up to 1024 CPUs: threads, masks, and lists of CPUs that programs accept."""

from __future__ import annotations

import pytest

from ansible_collections.sovereign.epyc.plugins.module_utils._host.host import Host
from ansible_collections.sovereign.epyc.plugins.module_utils._notation.cpulist import format_cpulist, parse_cpulist
from ansible_collections.sovereign.epyc.plugins.module_utils._serving.llama_cpp import arguments as server_arguments
from ansible_collections.sovereign.epyc.tests.unit.fakes import hosts
from ansible_collections.sovereign.epyc.tests.unit.fakes.llama_plans import BARE, NEW, Models, machine, planned
from ansible_collections.sovereign.epyc.tests.unit.fakes.llama_servers import server

#: A recorded server that binds threads to CPUs.
SERVER = "b11434"
#: The largest number of threads with which llama.cpp starts (GGML_MAX_N_THREADS); its masks have as many bits.
MOST_THREADS = 512
#: Machine -> cores of an instance that has a socket for itself, and the CPUs of the first one's socket.
CORES = {"Zen 6 sample": (143, "1-143"), "9686F": (95, "1-95"), "9996": (255, "1-255"), "two 9996": (255, "1-255")}


@pytest.mark.parametrize("name", hosts.ZEN6_SHAPES)
def test_an_instance_has_the_cores_of_a_socket(models: Models, name: str) -> None:
    cores, cpus = CORES[name]
    plan = planned(machine(name), models, NEW)
    assert sorted(plan.placement.busy_cpus) == list(parse_cpulist(cpus))
    assert (plan.parameters["threads"], plan.parameters["threads_batch"]) == (cores, cores)
    assert plan.placement.nodes == (0,)
    (remark,) = [remark for remark in plan.remarks if remark.startswith("All ")]
    assert remark == (
        f"All {cores} cores decode, because nobody has published how fast a core of this CPU (family 26 model 80) "
        "computes. Fewer may be faster: playbooks/tune.yml measures that."
    )


@pytest.mark.parametrize("name", hosts.ZEN6_SHAPES)
def test_the_mask_of_a_server_without_openmp_has_each_core_once(models: Models, name: str) -> None:
    """Both sockets of two 9996: 510 cores, numbered below the second threads, as the firmware of AMD does."""
    host = machine(name)
    for cpus in ("socket0", "verify,draft"):
        plan = planned(host, models, BARE, cpus=cpus)
        words = server_arguments.build_arguments(plan.parameters, server(SERVER))
        mask = int(words[words.index("--cpu-mask") + 1], 16)
        assert mask == sum(1 << cpu for cpu in plan.placement.busy_cpus) and mask.bit_length() <= MOST_THREADS
        threads = int(words[words.index("--threads") + 1])
        assert threads == len(plan.placement.busy_cpus) <= MOST_THREADS
        assert max(map(len, words)) < 4096


@pytest.mark.parametrize("name", hosts.ZEN6_SHAPES)
def test_roles_become_lists_of_cpus_that_a_unit_can_hold(name: str) -> None:
    """A line of a unit file ends at 1 MiB; 64 numbers and ranges are far from it, and from a page of the kernel."""
    host = Host(hosts.standing(name).fs, {"draft": {"ccds": 1}, "verify": {}})
    for role in ("housekeeping", "draft", "verify"):
        cpus = host.parse_cpus(role)
        text = format_cpulist(cpus)
        assert parse_cpulist(text) == tuple(cpus) and text.count(",") < 64
