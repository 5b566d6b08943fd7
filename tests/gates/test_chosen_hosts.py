# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Which hosts of a company's inventory the playbooks touch, as Ansible lists them for each play."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from ansible_collections.sovereign.epyc.plugins.plugin_utils._inventory_names.groups import GROUP_VARIABLES

from .conftest import ROOT

#: The hosts of other people have no group of ours, but for groups that plays make for themselves in a run.
GROUPS = {
    "web": ["web-1", "web-2"],
    "gateway": ["router"],
    "monitoring": ["grafana"],
    "rack": ["rack-1", "rack-2"],
    "epyc_servers": ["server-1", "server-2"],
    "epyc_gateway": ["edge"],
    "epyc_monitoring": ["prometheus"],
    "epyc_llama_group": ["server-2"],
    "epyc_reboot_now": ["web-1", "server-1", "rack-1"],
    "epyc_roll_now": ["web-1", "server-1", "rack-1"],
}
#: Plays whose hosts are not those of the group epyc_servers, by the name of the playbook and the number of the play.
OTHERS = {
    ("analyse", 1): "localhost",
    ("compare", 1): "localhost",
    ("gateway", 1): "epyc_gateway",
    ("monitoring", 1): "epyc_monitoring",
    ("group", 1): "epyc_llama_group",
}
#: Plays that come to a part of the hosts of the first play of their playbook.
PARTS = {("reboot", 2): "epyc_reboot_now", ("roll", 2): "epyc_roll_now"}


def list_hosts_of_plays(
    run: Callable[..., str], folder: Path, variables: dict[str, str]
) -> dict[tuple[str, int], set[str]]:
    """Return the hosts of each play of each playbook, by the name of the playbook and the number of the play."""
    inventory = folder / "hosts.json"
    inventory.write_text(json.dumps({group: {"hosts": dict.fromkeys(hosts)} for group, hosts in GROUPS.items()}))
    playbooks = sorted(str(path) for path in (ROOT / "playbooks").glob("*.yml"))
    output = run("ansible-playbook", "--list-hosts", "-i", str(inventory), "-e", json.dumps(variables), *playbooks)
    assert "[WARNING]" not in output
    plays: dict[tuple[str, int], set[str]] = {}
    for playbook in output.split("\nplaybook: ")[1:]:
        for text in playbook.split("  play #")[1:]:
            hosts = re.findall(r"^      (\S+)$", text, re.MULTILINE)
            plays[Path(playbook.partition("\n")[0]).stem, int(text.split()[0])] = set(hosts)
    return plays


@pytest.mark.parametrize(
    "chosen",
    [
        {},
        {
            "epyc_servers": "rack",
            "epyc_gateway": "gateway",
            "epyc_monitoring": "monitoring",
            "epyc_llama_group": "rack",
        },
    ],
    ids=["by default", "other groups"],
)
def test_playbooks_touch_only_the_hosts_that_are_named_to_them(
    run: Callable[..., str], tmp_path: Path, chosen: dict[str, str]
) -> None:
    plays = list_hosts_of_plays(run, tmp_path, {GROUP_VARIABLES[group]: name for group, name in chosen.items()})
    assert len(plays) > 20
    expected = {}
    for play in plays:
        group = OTHERS.get(play, "epyc_servers")
        expected[play] = {"localhost"} if group == "localhost" else set(GROUPS[chosen.get(group, group)])
        if play in PARTS:
            expected[play] &= set(GROUPS[PARTS[play]])
    assert plays == expected
