# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.sovereign.epyc.plugins.module_utils._drift import words as drift_words
from ansible_collections.sovereign.epyc.plugins.module_utils._drift.findings import group_into_findings
from ansible_collections.sovereign.epyc.tests.unit.plugins.plugin_utils.fleets import verdict


@pytest.mark.parametrize(
    ("address", "words"),
    [
        ("sysfs:numa_balancing", ("NUMA balancing", "", None)),
        ("hugepages:node2/2048kB", ("huge pages of 2 MiB", "node", 2)),
        ("hugepages:node0/1048576kB", ("huge pages of 1 GiB", "node", 0)),
        ("resctrl:mount", ("mount of resctrl", "", None)),
        ("resctrl:draft", ("group draft", "", None)),
        ("resctrl:draft/L3/7", ("L3 share of group draft", "L3 domain", 7)),
        ("resctrl:default/MB/0", ("memory bandwidth limit of group default", "L3 domain", 0)),
        ("resctrl:verify/cpus", ("CPUs of group verify", "", None)),
        ("resctrl:verify/tasks_of/llama.service", ("threads of llama.service in group verify", "", None)),
        ("resctrl:verify/mon/one/cpus", ("monitor group one/cpus of group verify", "", None)),
        ("cpufreq:boost", ("boost of the machine", "", None)),
        ("cpufreq:policy16/scaling_governor", ("governor", "policy", 16)),
        ("cpuidle:cpu16/C2", ("idle state C2", "CPU", 16)),
        ("msr:0xc0000108[1]/cpu16", ("prefetcher l1_stride", "CPU", 16)),
        ("msr:0xc0010015[25]/cpu0", ("boost", "CPU", 0)),
        ("msr:0xc0011029[4]/cpu0", ("bit 4 of register 0xc0011029", "CPU", 0)),
        ("msr:module/msr", ("kernel module msr", "", None)),
        ("msr:module/cpuid", ("kernel module cpuid", "", None)),
        ("irq:41/affinity", ("CPUs", "interrupt", 41)),
        ("irq:default", ("CPUs of interrupts to come", "", None)),
        ("irq:irqbalance/service", ("service irqbalance", "", None)),
        ("cmdline:isolcpus", ("boot parameter", "", "isolcpus")),
        ("host_tool:/usr/sbin/sovereign-epyc", ("engine on the host", "file", "/usr/sbin/sovereign-epyc")),
        ("host_tool:sovereign-epyc.service/enabled", ("boot service", "", "sovereign-epyc.service")),
        ("host_tool:sovereign-epyc-agent.socket/enabled", ("socket of the agent", "", "sovereign-epyc-agent.socket")),
        (
            "host_tool:sovereign-epyc-check.timer/active",
            ("run of the timer of the check", "", "sovereign-epyc-check.timer"),
        ),
        ("llama:/etc/systemd/system/llama-chat.service", ("unit of instance chat", "", None)),
        (
            "llama:/run/systemd/system/llama-chat-rpc.service.d/nice.conf",
            ("drop-in nice.conf of instance chat-rpc", "", None),
        ),
        ("llama:llama-chat.service/enabled", ("instance chat", "", None)),
        ("llama:llama-chat.service/active", ("run of instance chat", "", None)),
        ("prerequisites:module/msr", ("kernel module msr", "", None)),
        ("prerequisites:/etc/x.conf", ("kernel modules to load at boot", "", "/etc/x.conf")),
        ("desired:intent", ("stored intent", "", None)),
        ("resctrl:", ("all settings", "", None)),
        ("desired:", ("stored requests", "", None)),
        ("strange:thing", ("strange:thing", "", None)),
    ],
)
def test_addresses_are_described(address: str, words: tuple[object, ...]) -> None:
    assert drift_words.name_and_place_of_address(address) == words


@pytest.mark.parametrize(
    ("address", "text", "words"),
    [
        ("resctrl:draft/L3/0", "00ff", "00ff"),
        ("resctrl:draft", None, "nothing"),
        ("cpufreq:policy0/scaling_max_freq", "2250000", "2.25 GHz"),
        ("cpufreq:policy0/scaling_setspeed", "<unsupported>", "<unsupported>"),
        ("cpuidle:cpu16/C2", "1", "forbidden"),
        ("msr:0xc0000108[1]/cpu16", "1", "disabled"),
        ("msr:0xc0011029[4]/cpu0", "1", "1"),
        ("msr:module/cpuid", "loaded", "loaded"),
        ("cmdline:quiet", "", "a flag without a value"),
        ("irq:irqbalance/banned_cpus", "", "''"),
        ("desired:sysfs/numa", '{"thp": "never"}', "stored"),
        ("host_tool:/usr/sbin/sovereign-epyc", "9f86d081884c7d65", "stored"),
        ("host_tool:sovereign-epyc.service/enabled", "disabled", "disabled"),
        ("llama:/etc/systemd/system/llama-chat.service", "[Unit]\n\n[Service]\n", "a text of 3 lines"),
        ("desired:intent", "{}", "{}"),
    ],
)
def test_values_are_described(address: str, text: str | None, words: str) -> None:
    assert drift_words.format_value(address, text) == words


def finding(address: str = "sysfs:thp/enabled", **changes: Any) -> dict[str, Any]:
    """A finding on one address, as a check has it."""
    one = verdict("x/x", address, **{"wanted": "never", "found": None, **changes})
    (found,) = group_into_findings([one])
    return found.to_dict()


@pytest.mark.parametrize(
    ("address", "changes", "line"),
    [
        ("sysfs:thp/enabled", {}, "transparent huge pages: found nothing, wanted never"),
        ("sysfs:thp/enabled", {"reason": "why."}, "transparent huge pages: found nothing, wanted never; why"),
        ("sysfs:thp/enabled", {"live": "unknown", "reason": "why"}, "transparent huge pages: unknown: why"),
        (
            "cmdline:quiet",
            {"persistent": "drift", "at_boot": "", "wanted": None, "live": "ok"},
            "boot parameter, quiet: not there now, as wanted; a flag without a value after a boot",
        ),
        (
            "cmdline:nohz_full",
            {"persistent": "drift", "at_boot": "1", "wanted": "1-7", "found": "1-7", "live": "ok"},
            "boot parameter, nohz_full: 1-7 now, as wanted; 1 after a boot",
        ),
        ("msr:", {"live": "unknown", "supported": False, "reason": "why"}, "prefetchers: not supported here: why"),
        ("msr:", {"live": "unknown", "reason": "why"}, "prefetchers: unknown: why"),
        ("msr:", {"wanted": "stored", "reason": "why"}, "prefetchers: found nothing, wanted stored; why"),
        ("desired:", {"live": "unknown", "reason": "why"}, "stored requests: unknown: why"),
        ("colour:", {"live": "unknown", "reason": "why"}, "colour: unknown: why"),
    ],
)
def test_a_sentence_on_all_settings_names_the_layer(address: str, changes: dict[str, Any], line: str) -> None:
    assert drift_words.format_finding(finding(address, **changes)) == line


@pytest.mark.parametrize(
    ("repair", "step"),
    [
        ("sovereign.epyc.site", "run site.yml"),
        ("sovereign.epyc.site --tags cat", "run site.yml --tags cat"),
        ("sovereign-epyc apply", "run 'sovereign-epyc apply' on the host"),
        ("", ""),
    ],
)
def test_next_steps_of_findings(repair: str, step: str) -> None:
    assert drift_words.next_step_words({**finding(), "repair": repair}) == step
    sentence = f"{step[:1].upper()}{step[1:]}."
    assert drift_words.list_next_step_sentences([{**finding(), "repair": repair}] * 2) == ([sentence] if step else [])


def test_settings_are_counted_in_words() -> None:
    counts = {"ok": 335, "unsupported": 0, "unknown": 1, "drift": 1}
    assert drift_words.settings_checked_message(counts) == "337 settings checked, 2 not as configured"
    assert (
        drift_words.settings_checked_message({**counts, "ok": 0, "unknown": 0})
        == "1 setting checked, 1 not as configured"
    )


def test_places_are_formatted_with_units() -> None:
    assert drift_words.format_location("CPU", [3, 1, 2, 8]) == "CPUs 1-3,8"
    assert drift_words.format_location("policy", [0, 1]) == "policies 0-1"
    assert drift_words.format_location("node", [2]) == "node 2"
    assert drift_words.format_location("L3 domain", [6, 7], {6: 3, 7: 3}) == "L3 domains 6-7 (CCD 3)"
    assert drift_words.format_location("L3 domain", [0, 8], {0: 0, 8: 4}) == "L3 domains 0,8 (CCDs 0,4)"
    assert drift_words.format_location("L3 domain", [6]) == "L3 domain 6"
    assert drift_words.format_location("", ["isolcpus", "nohz_full"]) == "isolcpus, nohz_full"
    assert drift_words.format_location("", []) == ""
    assert drift_words.format_location("file", ["a", "b"]) == "2 files"


def test_numbers_in_texts_sort_by_value() -> None:
    assert sorted(["host10", "host9", "host", "host9b"], key=drift_words.natural_sort_key) == [
        "host",
        "host9",
        "host9b",
        "host10",
    ]
    assert sorted(["host1", "host01"], key=drift_words.natural_sort_key) == ["host01", "host1"]
    assert sorted(["0b", "00a", "1", "a"], key=drift_words.natural_sort_key) == ["a", "00a", "0b", "1"]


def test_natural_order_accepts_any_text() -> None:
    """Python makes no number of more than 4300 digits, and digits of other scripts are letters here."""
    long, longer = f"a{'9' * 5000}", f"a1{'0' * 5000}"
    assert sorted([longer, long, "a\u0663", "a4"], key=drift_words.natural_sort_key) == ["a\u0663", "a4", long, longer]
