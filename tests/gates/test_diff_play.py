# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a person reads of ``--check --diff``: real modules on a tree of kernel files, printed by Ansible itself."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.sovereign.epyc.tests.unit.fakes import hosts
from ansible_collections.sovereign.epyc.tests.unit.fakes.frequencies import ACPI
from vepyc import playbook_runs

from .conftest import ROOT, VARIABLES

BALANCING = "/proc/sys/kernel/numa_balancing"
PERSISTENT = {"persistent": True, "intent": {"draft": {"ccds": 1}}}
TASKS = [
    {"sovereign.epyc.sysfs_settings": {"numa_balancing": False, "label": "numa", **PERSISTENT}},
    {"sovereign.epyc.cpufreq_per_ccd": {"settings": [{"cpus": "all", "governor": "performance"}], **PERSISTENT}},
]
DIFFS = """\
NUMA balancing: 1 -> 0
stored request, sysfs/numa: new
governor, policies 0-15: schedutil -> performance
stored request, cpufreq/cpufreq: new
"""


def link_collection(folder: Path, root: Path) -> None:
    """Put the collection into a folder, so that its modules take ``root`` for the root of the host."""
    collection = folder / "ansible_collections/sovereign/epyc"
    rooted = [Path("plugins/module_utils/_io/kernelfs.py"), Path("plugins/module_utils/_io/store.py")]
    copied = {parent for path in rooted for parent in path.parents}
    for parent in sorted(copied):
        (collection / parent).mkdir(parents=True)
        for path in (ROOT / parent).glob("[!.]*"):
            here = path.relative_to(ROOT)
            if here not in copied and here not in rooted:
                (collection / here).symlink_to(path)
    for path in rooted:
        text = (ROOT / path).read_text()
        assert 'root: str = "/"' in text
        (collection / path).write_text(text.replace('root: str = "/"', f'root: str = "{root}"'))


@pytest.fixture
def tree(tmp_path: Path) -> hosts.Host:
    host = hosts.small(tmp_path / "host")
    host.put(BALANCING, 1)
    for cpu in range(16):
        for name, value in {**ACPI, "cpuinfo_max_freq": 2250000, "affected_cpus": cpu, "related_cpus": cpu}.items():
            host.put(f"/sys/devices/system/cpu/cpufreq/policy{cpu}/{name}", value)
    return host


def test_each_change_is_one_line_and_the_intent_of_the_layers_is_not_repeated(tmp_path: Path, tree: hosts.Host) -> None:
    link_collection(tmp_path, tree.root)
    book, inventory, record = tmp_path / "book.yml", tmp_path / "hosts.json", tmp_path / "record.jsonl"
    book.write_text(json.dumps([{"hosts": "all", "gather_facts": False, "tasks": TASKS}]))
    local = {"ansible_connection": "local", "ansible_python_interpreter": sys.executable}
    inventory.write_text(json.dumps({"epyc_servers": {"hosts": {"one": local}}}))
    before = sorted(tree.root.rglob("*"))
    variables: dict[str, Any] = {
        **VARIABLES,
        "ANSIBLE_COLLECTIONS_PATH": str(tmp_path),
        "ANSIBLE_CALLBACK_PLUGINS": "tools/callback",
        "ANSIBLE_CALLBACKS_ENABLED": "record",
        "RECORD_FILE": str(record),
    }
    done = playbook_runs.run_command(
        "ansible-playbook", "-i", str(inventory), str(book), "--check", "--diff", **variables
    )
    assert done.returncode == 0, done.stdout
    results = [json.loads(line) for line in record.read_text().splitlines()]
    shown = [result["diff"] for result in results if "diff" in result]
    assert "".join(diff["prepared"] for diff in shown) == DIFFS
    for line in DIFFS.splitlines():
        assert done.stdout.splitlines().count(line) == 1, done.stdout
    assert "desired:" not in done.stdout and "policy0" not in done.stdout, done.stdout
    assert all("desired:intent" in diff["changes"]["after"] for diff in shown)
    assert len(shown[1]["changes"]["before"]) == 18
    assert sorted(tree.root.rglob("*")) == before
