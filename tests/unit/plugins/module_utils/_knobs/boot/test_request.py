# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Which boot parameters may be asked for."""

from __future__ import annotations

import pytest

from ansible_collections.sovereign.epyc.plugins.module_utils._errors import BadRequest
from ansible_collections.sovereign.epyc.plugins.module_utils._host.host import Host
from ansible_collections.sovereign.epyc.plugins.module_utils._knobs.boot.request import BootRequest
from ansible_collections.sovereign.epyc.tests.unit.fakes import hosts
from ansible_collections.sovereign.epyc.tests.unit.fakes.boots import INTENT


@pytest.mark.parametrize(
    ("text", "setting"),
    [
        ("nohz_full={ccd1}", "8-15"),
        ("isolcpus=managed_irq,{l3:1,l3:3}", "managed_irq,4-7,12-15"),
        ("irqaffinity={housekeeping}", "0,4,8,12"),
        ("rcu_nocbs=1,{node3}", "1,12-15"),
        ("rcu_nocbs", ""),
        ("rcu_nocbs=all", "all"),
        ("nohz_full=1-15:1/2", "1-15:1/2"),
        ("isolcpus=managed_irq,8-N", "managed_irq,8-N"),
        ('dyndbg="file a.c +p; file b.c +p"', '"file a.c +p; file b.c +p"'),
    ],
)
def test_cpus_in_braces_become_numbers(tree: hosts.Host, text: str, setting: str) -> None:
    request = BootRequest(Host(tree.fs, INTENT), [text], [])
    assert request.settings == {text.partition("=")[0]: setting}


@pytest.mark.parametrize(
    ("parameters", "words"),
    [
        (["isolcpus=draft"], ["'draft'", "in braces", "isolcpus={draft,verify}"]),
        (["nohz_full=all"], ["takes CPU 0 away"]),
        (["nohz_full=0-15:1/2"], ["takes CPU 0 away"]),
        (["nohz_full=1-17:1/2"], ["CPU 17 is not on this host"]),
        (["nohz_full=1-15:3/2"], ["at most all 2 CPUs"]),
        (["isolcpus=domain,0-3"], ["takes CPU 0 away"]),
        (["nohz_full={all}"], ["takes CPU 0 away"]),
        (["nohz_full=1-99"], ["CPU 16-99 is not on this host"]),
        (["nohz_full"], ["names no CPU"]),
        (["isolcpus=managed_irq"], ["names no CPU"]),
        (["a=1;2"], ["';'"]),
        (["isolcpus=1", "isolcpus=2"], ["more than once"]),
        (["nohz_full={ccd1"], ["not closed"]),
        (["nohz_full=ccd1}"], ["not opened"]),
        (["nohz_full={nobody}"], ["'nobody' names no CPUs"]),
        (["a=1 b=2"], ["more than one parameter"]),
        (["a=it's"], ['"\'"', "would not reach"]),
        (["a=$b"], ["'$'"]),
        (["a=b\nc"], ["more than one parameter"]),
        (['a="b\nc"'], ["'\\n'"]),
        (["a=ü"], ["'ü'"]),
        (["=1"], ["no kernel parameter"]),
        ([""], ["no kernel parameter"]),
        (["--"], ["boot loader itself"]),
        (["root=/dev/sda"], ["boot loader itself"]),
        (["hugepagesz=4M"], ["no pages of that size", "2M, 1024M"]),
        (["hugepagesz=2M", "hugepages=4", "hugepagesz=2M"], ["given twice"]),
        (["hugepages=many"], ["say a count"]),
        (["hugepages=1,2"], ["say a count"]),
        (["hugepages=9:4"], ["no node 9"]),
        (["hugepages=1:600"], ["node 1 has 1024 MiB", "1200 MiB"]),
        (["hugepagesz=1G", "hugepages=2", "hugepagesz=2M", "hugepages=900"], ["3848 MiB of the 4096 MiB", "512 MiB"]),
        (["default_hugepagesz=1G", "hugepages=4"], ["4096 MiB of the 4096 MiB"]),
    ],
)
def test_refusals(tree: hosts.Host, parameters: list[str], words: list[str]) -> None:
    with pytest.raises(BadRequest) as caught:
        BootRequest(Host(tree.fs, INTENT), parameters, [])
    assert [word for word in words if word not in str(caught.value)] == [], str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("absent", "words"),
    [("quiet=1", "without a value"), ("nohz-full", "in parameters and in absent"), ("a b", "no kernel")],
)
def test_what_cannot_be_absent(tree: hosts.Host, absent: str, words: str) -> None:
    with pytest.raises(BadRequest, match=words):
        BootRequest(Host(tree.fs, INTENT), ["nohz_full=4"], [absent])


@pytest.mark.parametrize(
    ("text", "warns"),
    [
        ("isolcpus=4", True),
        ("isolcpus=domain,4", True),
        ("isolcpus=nohz,domain,4", True),
        ("isolcpus=managed_irq,4", False),
        ("nohz_full=4", False),
    ],
)
def test_isolation_from_load_balancing_comes_with_its_hazard(tree: hosts.Host, text: str, warns: bool) -> None:
    assert bool(BootRequest(Host(tree.fs, INTENT), [text], []).remarks) == warns


def test_all_cpus_may_be_named_where_some_are_offline(tree: hosts.Host) -> None:
    """As the siblings are where SMT is off."""
    tree.offline("12-15")
    assert BootRequest(Host(tree.fs, INTENT), ["rcu_nocbs=all"], []).settings == {"rcu_nocbs": "all"}
    with pytest.raises(BadRequest, match="CPU 12-15 is offline"):
        BootRequest(Host(tree.fs, INTENT), ["rcu_nocbs=8-N"], [])
