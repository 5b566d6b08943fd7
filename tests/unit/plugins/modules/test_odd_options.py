# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Odd values for every option of every module, in check mode: each ends in a result or in a sentence.

The options are those of the argument specs, so a new option is tried from its first day. A check writes nothing, other
programs and other hosts are not there, and the BMC is a fake one.
"""

from __future__ import annotations

import contextlib
import copy
import functools
import importlib
import json
import pkgutil
import socket
import ssl
import subprocess
import sys
import time
from collections.abc import Mapping
from typing import Any

import pytest
from ansible.module_utils.common.arg_spec import ModuleArgumentSpecValidator

from ansible_collections.sovereign.epyc.plugins import modules
from ansible_collections.sovereign.epyc.plugins.module_utils import _ansible, _bmc
from ansible_collections.sovereign.epyc.plugins.module_utils._io.store import Store
from ansible_collections.sovereign.epyc.plugins.module_utils._kernel.resctrl import HOME as RESCTRL
from ansible_collections.sovereign.epyc.plugins.module_utils._knobs.boot import grub
from ansible_collections.sovereign.epyc.plugins.module_utils._knobs.cpufreq.policy import HOME as POLICIES
from ansible_collections.sovereign.epyc.plugins.module_utils._knobs.cpufreq.policy import PSTATE_STATUS
from ansible_collections.sovereign.epyc.plugins.module_utils._setup import host_tool_files
from ansible_collections.sovereign.epyc.tests.unit.fakes import (
    bmcs,
    cpufreq_drivers,
    ggufs,
    idle_states,
    kernel_settings,
    odd_values,
    page_pools,
    registers,
    resctrl_groups,
)
from ansible_collections.sovereign.epyc.tests.unit.fakes.kernels import Kernel, RuledFS

#: So many values for each option.
COUNT = 12
PLUGINS = "ansible_collections.sovereign.epyc.plugins."
MODULES = sorted(one.name for one in pkgutil.iter_modules(modules.__path__))
BMC = {"bmc": "bmc.example.com", "username": "ops", "password": bmcs.PASSWORD}
MODEL = "/nonexistent/model.gguf"
INSTANCE = {"name": "chat", "binary": "/usr/bin/true", "model": MODEL, "port": 8080}
#: What a module needs beside the option that is tried, so that it gets to look at that one.
STARTS: dict[str, dict[str, Any]] = {
    "cpufreq_per_ccd": {"settings": [{"cpus": "all", "boost": True}]},
    "cpuidle_states": {"settings": [{"cpus": "all", "deepest": "C1"}]},
    "cpuset_partition": {"cpus": "1-3"},
    "epyc_bmc_bios_info": BMC,
    "epyc_bmc_bios": {**BMC, "originals": "/nonexistent/originals.json"},
    "epyc_bmc_reset": {**BMC, "reset": "graceful"},
    "epyc_host_tool": {"textfile": "/var/lib/a.prom", "agent_bind": "10.0.0.1:8407", "agent_allow": ["10.0.0.2"]},
    "epyc_recommend_info": {"models": [MODEL]},
    "epyc_servable_info": {
        "models": [
            {
                "name": "house",
                "shape": {"parameters": 8e9, "active_parameters": 8e9, "file_bytes": 5e9, "layers": 32},
                "drafts": ["small"],
                "quality": {"name": "An index", "score": 5.0, "source": "https://example.com"},
            }
        ],
        "public_rates": [{"cpu": "EPYC 9655", "model": "m", "rate": 47.2, "gbps": 246.0, "source": "a thread"}],
    },
    "epyc_last_run": {"inputs": "a"},
    "gateway_member": {"host": "epyc-07", "state": "drain"},
    "gateway_service": {"service": "haproxy", "configuration": "global"},
    "gguf_info": {"model": MODEL},
    "hugepages": {"pools": [{"node": "0", "pages": 4}]},
    "irq_affinity": {"cpus": "0"},
    "kernel_cmdline": {"parameters": ["nohz_full=1-3"]},
    "llama_ablation_boot": {"document": "/nonexistent/run.json"},
    "llama_ask": {"prompt": "Who?"},
    "llama_build": {"archive": "/nonexistent.tar.gz", "checksum": f"sha256:{'a' * 64}"},
    "llama_fingerprint_info": {"instance": "chat", "expect": {"sku": "9754"}},
    "llama_rpc_worker": {"binary": "/usr/bin/rpc-server", "address": "10.0.0.1", "clients": ["10.0.0.2"]},
    "llama_server": {"instances": [INSTANCE]},
    "llama_tune": {"instance": INSTANCE},
    "model_file": {"path": MODEL, "url": "https://127.0.0.1/x.gguf", "checksum": [f"sha256:{'a' * 64}"]},
    "model_quantize": {"source": MODEL, "path": "/nonexistent/x.gguf", "type": "Q8_0"},
    "msr_bits": {"settings": [{"cpus": "all", "register": "0xc0000108", "bits": "0", "value": "1"}]},
    "resctrl_schemata": {"groups": [{"name": "draft", "cpus": "1-3", "l3": {"all": "4 ways"}}]},
    "service_placement_info": {"service": "llama-chat.service"},
}


class Answered(Exception):
    """The module ended with a result."""


class RefusedBySpec(Exception):
    """ansible-core refused the options, in its own words."""


class Failed(Exception):
    """The module ended with a failure, and this message."""


class Door:
    """Stands for AnsibleModule: options that its real validator takes, in check mode, and an end of the module."""

    options: dict[str, Any]
    #: The specification with which the last one was made.
    spec: Mapping[str, Any]
    check_mode = True

    def __init__(self, argument_spec: dict[str, Any], supports_check_mode: bool, **rules: Any) -> None:
        Door.spec = argument_spec
        rules = {**dict.fromkeys(("mutually_exclusive", "required_together", "required_one_of")), **rules}
        validator = ModuleArgumentSpecValidator(copy.deepcopy(argument_spec), **rules)
        try:
            result = validator.validate(Door.options)
        except Exception as error:
            # Its own errors, for a number in place of a dictionary and for endless ones, which no module can prevent.
            raise RefusedBySpec(str(error)) from None
        if result.error_messages:
            raise RefusedBySpec(result.error_messages[0])
        self.params = result.validated_parameters

    def warn(self, text: str) -> None:
        """Take a warning."""

    def fail_json(self, msg: str, **more: Any) -> None:
        raise Failed(msg)

    def exit_json(self, **more: Any) -> None:
        raise Answered


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> RuledFS:
    """The small machine with all that modules look at before they read their options."""
    kernel = Kernel(tmp_path_factory.mktemp("odd"))
    for part in (kernel_settings.Settings, idle_states.IdleStates, page_pools.PagePools, resctrl_groups.ResctrlGroups):
        part(kernel)
    kernel.fs.mount_filesystem("resctrl", RESCTRL)
    registers.give_registers(kernel.host, range(16))
    for core in range(16):
        for name, text in {**cpufreq_drivers.ACTIVE, "affected_cpus": core, "related_cpus": core}.items():
            kernel.put(f"{POLICIES}/policy{core}/{name}", text)
    kernel.put(PSTATE_STATUS, "active")
    kernel.put("/proc/meminfo", "MemTotal:        4194304 kB\nMemFree: 1 kB")
    kernel.put("/proc/uptime", "1000.00 1.00")
    kernel.put("/etc/default/grub", 'GRUB_CMDLINE_LINUX_DEFAULT="quiet"')
    kernel.put(grub.UPDATE, "")
    kernel.put("/sys/fs/cgroup/cgroup.controllers", "cpuset cpu memory")
    kernel.put("/sys/fs/cgroup/cgroup.subtree_control", "cpuset memory")
    kernel.put("/sys/fs/cgroup/system.slice/llama-chat.service/cgroup.procs", "100")
    kernel.put("/run/systemd/system/here", "")
    (kernel.host.root / "model.gguf").write_bytes(ggufs.WHOLE)
    return kernel.fs


def run(name: str, options: dict[str, Any]) -> None:
    Door.options = options
    try:
        importlib.import_module(f"{modules.__name__}.{name}").main()
    except (Answered, RefusedBySpec):
        return


@pytest.fixture(autouse=True)
def closed(tree: RuledFS, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have the modules see a host that is a tree and cannot be written to, no program, and no network."""
    monkeypatch.setattr(_ansible, "AnsibleModule", Door)
    monkeypatch.setattr(_bmc, "AnsibleModule", Door)
    attributes = [bmcs.enumeration("NumaMemoryDomainsPerSocket", "Auto", "FourMemoryDomainsPerSocket")]
    monkeypatch.setattr(_bmc, "open_url", bmcs.Bmc(attributes, {"NumaMemoryDomainsPerSocket": "Auto"}))
    tree.read_only = True

    def refuse(*dummy: Any, **more: Any) -> None:
        raise FileNotFoundError(2, "not there")

    for name in MODULES:
        importlib.import_module(f"{modules.__name__}.{name}")
    for name, module in list(sys.modules.items()):
        if name.startswith(PLUGINS):
            for word, made in (("KernelFS", tree), ("Store", Store(tree.root, read_only=True))):
                if hasattr(module, word):
                    monkeypatch.setattr(module, word, lambda *dummy, made=made, **more: made)
    # Reading the files of the collection, or the certificates of this machine, hundreds of times takes seconds.
    monkeypatch.setattr(host_tool_files, "_read_host_tool_files", dict)
    monkeypatch.setattr(ssl, "_create_default_https_context", functools.cache(ssl.create_default_context))
    monkeypatch.setattr(time, "sleep", lambda seconds: None)
    monkeypatch.setattr(subprocess, "run", refuse)
    monkeypatch.setattr(subprocess, "Popen", refuse)
    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)


@pytest.mark.parametrize("name", MODULES)
def test_every_odd_value_ends_in_a_sentence(name: str, tree: RuledFS) -> None:
    start = json.loads(json.dumps(STARTS.get(name, {})).replace(MODEL, f"{tree.root}/model.gguf"))
    judge = odd_values.Judge((Failed,))
    with contextlib.suppress(Failed):
        run(name, start)
    for path in list(odd_values.places(Door.spec)):
        for value in odd_values.sample(COUNT, f"{name} {path}"):
            options = odd_values.put(start, path, value)
            judge.try_call(".".join(map(str, (name, *path))), value, functools.partial(run, name, options))
    assert not judge.faults, "\n".join(judge.faults)
