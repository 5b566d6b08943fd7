# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""playbooks/capacity.yml on the controller: from kept facts alone, what it writes, and how it ends."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from ansible_collections.sovereign.epyc.tests.unit.plugins.plugin_utils import capacity_facts

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
EXAMPLE, PLAYBOOK = str(ROOT / "inventories/example"), str(ROOT / "playbooks/capacity.yml")


@pytest.fixture
def count(run: Callable[..., str], tmp_path: Path) -> Callable[..., str]:
    """Count the capacity of the example inventory in a folder that has kept facts of all its hosts but the last two."""
    folder = tmp_path / ".capacity"
    folder.mkdir()
    for name, facts in capacity_facts.example_fleet():
        (folder / f"{name}.json").write_text(json.dumps(facts))

    def count(*words: str, inventory: str = EXAMPLE) -> str:
        output = run("ansible-playbook", "-i", inventory, PLAYBOOK, *words, cwd=tmp_path)
        return " ".join(output.split())

    return count


def test_the_example_inventory_is_counted_from_kept_facts(count: Callable[..., str], tmp_path: Path) -> None:
    """No host is asked: those of the example do not exist, and nothing says that one is unreachable."""
    words = ["-e", "epyc_capacity_page=page.html", "-e", "epyc_capacity_json=numbers.json"]
    output = count("-e", "epyc_capacity_ask=none", "-e", "epyc_capacity_rate=7", *words)
    assert "11 hosts serve" in output
    assert "No facts of 2 hosts, which are left out: epyc9006-01.example.com, epyc9655-02.example.com." in output
    assert "epyc9754-02.example.com: This host reads 153 of 461 GB/s" in output
    assert "unreachable=1" not in output
    assert "<h1>Capacity</h1>" in (tmp_path / "page.html").read_text()
    numbers = json.loads((tmp_path / "numbers.json").read_text())
    assert numbers["rate"] == 7 and len(numbers["hosts"]) == 11
    # The instances of the inventory that are not installed are counted too.
    waiting = [one for host in numbers["hosts"] for one in host["instances"] if not one["installed"]]
    assert {one["name"] for one in waiting} >= {"large", "grounded", "blue"}


def test_fewer_users_than_wanted_fail_and_nothing_is_written_with_check(
    count: Callable[..., str], tmp_path: Path
) -> None:
    words = ["-e", "epyc_capacity_ask=none", "-e", '{"epyc_capacity_wanted": {"interactive": 999}}']
    with pytest.raises(pytest.fail.Exception) as caught:
        count(*words)
    output = " ".join(str(caught.value).split())
    assert "of 999 users of interactive." in output and output.endswith("exit code 2")
    count("-e", "epyc_capacity_ask=none", "-e", "epyc_capacity_page=page.html", "--check", "-l", "epyc9754")
    assert not (tmp_path / "page.html").exists()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("-e", "epyc_capacity_ask=some"), "epyc_capacity_ask is 'some'. Say missing, all or none"),
        (("-e", "epyc_capacity_ask=none", "-e", "epyc_capacity_rate=x"), "epyc_capacity_rate is 'x'"),
        (("-e", "epyc_capacity_ask=none", "-l", "epyc9655-02.example.com"), "nothing can be counted"),
    ],
)
def test_what_it_refuses(count: Callable[..., str], words: tuple[str, ...], message: str) -> None:
    with pytest.raises(pytest.fail.Exception) as caught:
        count(*words)
    assert message in " ".join(str(caught.value).split())


def test_a_host_without_facts_is_read_once(count: Callable[..., str], tmp_path: Path) -> None:
    """This machine is read; then its facts are kept, and count without it."""
    here = {"ansible_connection": "local", "ansible_become": False, "ansible_python_interpreter": sys.executable}
    inventory = tmp_path / "hosts.json"
    inventory.write_text(json.dumps({"epyc_servers": {"hosts": {"here": here}}}))
    assert "1 host serves" in count(inventory=str(inventory))
    kept = tmp_path / ".capacity/here.json"
    before = kept.read_text()
    output = count("-e", "epyc_capacity_ask=missing", inventory=str(inventory))
    assert "1 host serves" in output and kept.read_text() == before
