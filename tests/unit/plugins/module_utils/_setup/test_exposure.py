# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The exposure level that systemd itself gives each unit of the collection, with a limit for each.

The limit of a unit is what its job leaves of the 1.5 of an instance. It is the level that systemd 252 gives it.
"""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from ansible_collections.sovereign.epyc.plugins.module_utils import _setup
from ansible_collections.sovereign.epyc.plugins.module_utils._io import sandbox
from ansible_collections.sovereign.epyc.plugins.module_utils._io.paths import HOST_TOOL
from ansible_collections.sovereign.epyc.plugins.module_utils._serving.llama_cpp import units as llama_units
from ansible_collections.sovereign.epyc.plugins.module_utils._setup import agent_units, host_tool
from ansible_collections.sovereign.epyc.tests.unit.fakes.vllm_plans import Machine
from ansible_collections.sovereign.epyc.tests.unit.plugins.module_utils._serving.unit.test_unit_files import (
    DRAFT,
    analyze,
    lines,
    service,
)

LIBRARY = Path(_setup.__file__).parents[1]
AGENT = {"bind": "*:8407", "allow": ["10.0.0.1"], "untuned": "50%", "unknown": "50%"}
#: The file that writes units -> each unit of it with its limit. Those that change kernel settings keep the mounts, the
#: devices and the files of the host. The check reads processes of all users and registers of the processor.
LIMITS: dict[str, dict[str, float]] = {
    "_setup/host_tool.py": {
        "sovereign-epyc.service": 5.7,
        "sovereign-epyc-watch.service": 5.7,
        "sovereign-epyc-check.service": 3.6,
    },
    "_setup/agent_units.py": {"sovereign-epyc-agent.service": 1.5},
    "_serving/unit/unit_files.py": {
        "llama-chat.service": 1.2,
        "llama-chat-rpc.service": 1.2,
        "vllm-batch.service": 1.3,
        "sovereign-epyc-watchdog-chat.service": 2.9,
    },
    "_io/sandbox.py": {"sovereign-epyc-try-1.service": 1.4},
}
#: Versions of systemd weigh settings a little differently.
TOLERANCE = 0.15
#: Other files that write units or have systemd-run make one, and what holds these.
ELSEWHERE = {
    "_serving/llama_cpp/rpc_worker.py": "test_rpc_worker.py",
    "_serving/unit/start_first.py": "a drop-in for the unit of an instance, which loosens nothing",
    "_ablation/arm_switch.py": "a drop-in for the unit of an instance, which loosens nothing",
    "_ablation/restore_guard.py": "one command of root, which restores settings after a run",
    "_bench/host_memory.py": "a program of the operator that measures, as long as the run that waits for it",
    "_bench/memory/instance_memory.py": "a program of ours that measures, as long as the run that waits for it",
}


def render_watchdog(unit: str) -> str:
    """Return a unit file with the settings that the unit of an instance hands to systemd-run."""
    (line,) = [line for line in lines(unit, "ExecStartPost") if "systemd-run" in line]
    words = shlex.split(line.removeprefix("-+"))
    settings = [word.partition("=")[2] for word in words if word.startswith("--property=")]
    kept = [text for text in settings if not text.startswith(("BindsTo=", "After="))]
    return "\n".join(["[Service]", "ExecStart=/bin/true", *kept, ""])


@pytest.fixture
def units(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """The texts of units by their names."""
    texts = host_tool.HostTool(True, "/var/lib/node-exporter/x.prom", root=str(tmp_path)).files
    texts = {**texts, **agent_units.AgentUnits(AGENT, "/x.prom", 900, "0", str(tmp_path)).files}
    one = service(rpc=True, api_key_file="/etc/llama.keys", watchdog=300, binary="/bin/true", **DRAFT)
    texts.update(llama_units.render_llama_units(one, []))
    (vllm,) = Machine(tmp_path, monkeypatch).plan({})
    by_name = {path.rpartition("/")[2]: text for path, text in texts.items() if "\n[Service]\n" in text}
    watchdog = render_watchdog(by_name["llama-chat.service"])
    trial = "\n".join(["[Service]", "ExecStart=/bin/true", "DynamicUser=yes", *sandbox.HARDENING, ""])
    by_name.update({"vllm-batch.service": vllm.text, "sovereign-epyc-watchdog-chat.service": watchdog})
    return {**by_name, "sovereign-epyc-try-1.service": trial}


def read_exposure(folder: Path, name: str, text: str) -> float:
    path = folder / name
    path.write_text(text.replace(HOST_TOOL, "/bin/true"))
    said = analyze("security", "--offline=true", "--no-pager", str(path))
    found = re.search(r"Overall exposure level for \S+: ([0-9.]+)", said)
    assert found, said
    return float(found[1])


def test_each_file_that_writes_units_is_known() -> None:
    writes = re.compile(
        r'^\[Service\]|"\[Service\]|\\n\[Service\]|"systemd-run"|render_unit_text\(|/systemd-run"', re.M
    )
    files = {str(path.relative_to(LIBRARY)) for path in LIBRARY.rglob("*.py") if writes.search(path.read_text())}
    readers = {"_ablation/candidates.py", "_serving/llama_cpp/units.py"}
    assert files - readers == {*LIMITS, *ELSEWHERE}


def test_each_unit_is_as_exposed_as_its_job_needs(units: dict[str, str], tmp_path: Path) -> None:
    limits = {name: limit for of_file in LIMITS.values() for name, limit in of_file.items()}
    assert units.keys() == limits.keys()
    levels = {name: read_exposure(tmp_path, name, text) for name, text in units.items()}
    assert [f"{name}: {level}" for name, level in levels.items() if level > limits[name] + TOLERANCE] == []


def test_a_unit_without_restrictions_is_far_above_each_limit(tmp_path: Path) -> None:
    level = read_exposure(tmp_path, "plain.service", "[Service]\nExecStart=/bin/true\n")
    assert level > 2 + max(limit for of_file in LIMITS.values() for limit in of_file.values())


def test_systemd_knows_each_setting(units: dict[str, str], tmp_path: Path) -> None:
    names = [name for name in units if not name.startswith(("vllm", "sovereign-epyc-agent"))]
    for name in names:
        (tmp_path / name).write_text(units[name].replace(HOST_TOOL, "/bin/true"))
    assert analyze("verify", "--man=no", *(str(tmp_path / name) for name in names)) == ""
