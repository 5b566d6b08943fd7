# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The three steps of docs/add-an-engine.md, done to a copy of the collection, where an instance then comes and goes."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[5]
PAGE = (ROOT / "docs/add-an-engine.md").read_text(encoding="utf-8")
#: Where the first step puts the row.
BELOW = "VLLM = register_engine("
#: Runs in the copy, and prints what the common code makes of an instance of the new engine.
PROGRAM = """
import json, pathlib, sys
from ansible_collections.sovereign.epyc.plugins.module_utils import _agent
from ansible_collections.sovereign.epyc.plugins.module_utils._host.host import Host
from ansible_collections.sovereign.epyc.plugins.module_utils._io.command import CommandResult
from ansible_collections.sovereign.epyc.plugins.module_utils._io.kernelfs import KernelFS
from ansible_collections.sovereign.epyc.plugins.module_utils._io.paths import HOST_TOOL, UNIT_FOLDER
from ansible_collections.sovereign.epyc.plugins.module_utils._io.store import Store
from ansible_collections.sovereign.epyc.plugins.module_utils._knobs import managed_units
from ansible_collections.sovereign.epyc.plugins.module_utils._knobs.protocol.converge import converge_knobs
from ansible_collections.sovereign.epyc.plugins.module_utils._knobs.protocol.ledger import Ledger
from ansible_collections.sovereign.epyc.plugins.module_utils._serving.plan.memory import free_memory
from ansible_collections.sovereign.epyc.plugins.module_utils._serving.toy import engine
from ansible_collections.sovereign.epyc.plugins.module_utils._serving.unit import drift, installed, instances
from ansible_collections.sovereign.epyc.plugins.modules import toy_server
from ansible_collections.sovereign.epyc.tests.unit.fakes import hosts
from ansible_collections.sovereign.epyc.tests.unit.fakes.systemds import Systemd

root = pathlib.Path(sys.argv[1])
binary, model = root / "toy", root / "model"
binary.write_text("a program")
model.write_text("weights")
systemd = Systemd(root, {"toy-chat.service": "multi-user.target"})
managed_units.command.run_command = systemd.run
instances.list_memory_of_instance = lambda *dummy: []
engine.sandbox.run_in_sandbox = lambda *dummy: CommandResult(0, "--slots N", "")
free_memory.read_free_and_staged_memory = lambda *dummy: free_memory.FreeMemory(dict.fromkeys(range(8), 1 << 40))
tool = root / HOST_TOOL[1:]
tool.parent.mkdir(parents=True)
tool.touch()


def have(*asked):
    host = Host(hosts.standing("9754").fs, {"housekeeping": {"cores": 1}})
    knobs = instances.build_knobs(engine.ToyEngine(), host, asked, instances.Purge(True), str(root))
    return len(converge_knobs(knobs, Ledger(Store(str(root)), KernelFS(str(root)))).changes)


one = {"name": "chat", "binary": str(binary), "model": str(model), "port": 18090}
told = {"changes": [have(one), have(one)], "unit": (root / UNIT_FOLDER[1:] / "toy-chat.service").read_text()}
systemd.reload()
installed_instances = installed.list_installed_instances(str(root))
told["installed"] = [(found.row.key, found.name, bool(found.plan)) for found in installed_instances]
told["drift"] = [verdict.address for verdict in drift.list_unit_verdicts(str(root)) if not verdict.is_clean]
systemd.active["toy-chat.service"] = "failed"
told["failed"] = [verdict.address for verdict in drift.list_unit_verdicts(str(root)) if not verdict.is_clean]
told["removed"] = [have(), [found.name for found in installed.list_installed_instances(str(root))]]
told["main"] = callable(toy_server.main)
print(json.dumps(told))
"""


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Return what the copy says."""
    folder = tmp_path_factory.mktemp("engine")
    copy = folder / "ansible_collections/sovereign/epyc"
    shutil.copytree(ROOT / "plugins", copy / "plugins", ignore=shutil.ignore_patterns("__pycache__"))
    (copy / "tests").symlink_to(ROOT / "tests")
    row, engine, module = re.findall(r"^```python\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)
    catalogue = copy / "plugins/module_utils/_serving/catalogue.py"
    assert catalogue.read_text().count(BELOW) == 1
    catalogue.write_text(catalogue.read_text().replace(BELOW, f"{row}{BELOW}"))
    package = copy / "plugins/module_utils/_serving/toy"
    package.mkdir()
    (package / "__init__.py").write_text('"""The engine toy."""\n')
    (package / "engine.py").write_text(engine)
    (copy / "plugins/modules/toy_server.py").write_text(module)
    (folder / "host").mkdir()
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(folder / "host")],
        env={"PYTHONPATH": ":".join([str(folder), *sys.path])},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return dict(json.loads(done.stdout))


def test_it_starts_once_in_a_hardened_unit_that_is_waited_for(told: dict[str, Any]) -> None:
    assert told["changes"][0] > 0 and told["changes"][1] == 0 and told["main"]
    assert "\nProtectSystem=strict\n" in told["unit"] and "\nNUMAPolicy=bind\n" in told["unit"]
    tool = "/usr/sbin/sovereign-epyc llama"
    wait = f"\nExecStartPost={tool} await http://127.0.0.1:18090 --timeout 300 --engine toy\n"
    assert wait in told["unit"]


def test_the_common_code_knows_it(told: dict[str, Any]) -> None:
    assert told["installed"] == [["toy", "chat", True]] and told["drift"] == []
    assert told["failed"] == ["llama:toy-chat.service/active"]


def test_it_is_removed(told: dict[str, Any]) -> None:
    assert told["removed"][0] > 0 and told["removed"][1] == []
