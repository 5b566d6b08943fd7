# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any, Optional

import pytest
import yaml

from ansible_collections.sovereign.epyc.plugins.module_utils._knobs.catalogue import KNOBS
from ansible_collections.sovereign.epyc.plugins.module_utils._knobs.change_text import add_text_to_diff, format_changes

MODULES = Path(__file__).parents[5] / "plugins/modules"
PACKAGE = "ansible_collections.sovereign.epyc.plugins.modules"
INTENT, UNIT = "desired:intent", "llama:/etc/systemd/system/llama-chat.service"
Values = dict[str, Optional[str]]


def format_with_all_words(before: Values, after: Values) -> list[str]:
    return format_changes(before, after, KNOBS).splitlines()


def of_policies(values: dict[int, str]) -> Values:
    return {f"cpufreq:policy{number}/scaling_governor": value for number, value in values.items()}


def list_samples() -> dict[str, dict[str, Any]]:
    """Return the sample of the diff of each module that documents one."""
    documented = {
        path.stem: yaml.safe_load(getattr(importlib.import_module(f"{PACKAGE}.{path.stem}"), "RETURN", "") or "{}")
        for path in MODULES.glob("*.py")
    }
    return {name: doc["diff"]["sample"] for name, doc in documented.items() if "sample" in doc.get("diff", {})}


@pytest.mark.parametrize(("name", "sample"), list_samples().items())
def test_the_documented_text_is_that_of_the_documented_values(name: str, sample: dict[str, Any]) -> None:
    changes = sample["changes"]
    assert sample["prepared"] == format_changes(changes["before"], changes["after"], KNOBS), name


def test_each_module_of_a_knob_has_a_sample() -> None:
    assert {row.module for row in KNOBS.values()} <= list_samples().keys()


def test_policies_that_change_in_the_same_way_are_one_line() -> None:
    before = of_policies(dict.fromkeys(range(256), "schedutil"))
    after = of_policies(dict.fromkeys(range(256), "performance"))
    assert format_with_all_words(before, after) == ["governor, policies 0-255: schedutil -> performance"]


def test_policies_that_change_in_another_way_are_a_line_of_their_own() -> None:
    before = of_policies({0: "schedutil", 1: "schedutil", 2: "powersave", 3: "schedutil"})
    after = of_policies({0: "performance", 1: "performance", 2: "performance", 3: "ondemand"})
    assert format_with_all_words(before, after) == [
        "governor, policies 0-1: schedutil -> performance",
        "governor, policy 2: powersave -> performance",
        "governor, policy 3: schedutil -> ondemand",
    ]


def test_a_value_has_its_unit_and_its_meaning() -> None:
    before: Values = {"cpufreq:policy0/scaling_max_freq": "3100000", "cmdline:quiet": None}
    after: Values = {"cpufreq:policy0/scaling_max_freq": "2250000", "cmdline:quiet": ""}
    assert format_with_all_words(before, after) == [
        "highest frequency, policy 0: 3.1 GHz -> 2.25 GHz",
        "boot parameter, quiet: nothing -> a flag without a value",
    ]


def test_files_of_the_engine_are_counted() -> None:
    new: Values = {f"host_tool:/usr/lib/sovereign-epyc/{number}.py": "9f86d081" for number in range(264)}
    old: Values = dict.fromkeys(new)
    assert format_with_all_words(old, new) == ["engine on the host, 264 files: new"]
    assert format_with_all_words(new, old) == ["engine on the host, 264 files: removed"]
    assert format_with_all_words(dict.fromkeys(new, "0000"), new) == ["engine on the host, 264 files: changed"]


def test_the_intent_is_not_repeated_beside_the_settings_of_a_layer() -> None:
    before: Values = {"sysfs:numa_balancing": "1", "desired:sysfs/numa": None, INTENT: None}
    after: Values = {"sysfs:numa_balancing": "0", "desired:sysfs/numa": "{}", INTENT: '{"draft": {"ccds": 1}}'}
    lines = ["NUMA balancing: 1 -> 0", "stored request, sysfs/numa: new"]
    assert format_with_all_words(before, after) == lines
    diff = add_text_to_diff({"diff": {"before": before, "after": after}}, KNOBS)["diff"]
    assert diff["changes"]["after"][INTENT] == '{"draft": {"ccds": 1}}'


def test_an_intent_that_changes_alone_or_is_removed_is_shown() -> None:
    assert format_with_all_words({INTENT: None}, {INTENT: "{}"}) == ["stored intent: nothing -> {}"]
    removed = format_with_all_words({INTENT: "{}", "sysfs:x": "1"}, {INTENT: None, "sysfs:x": "0"})
    assert removed == ["stored intent: {} -> nothing", "x: 1 -> 0"]


def test_a_unit_shows_its_changed_lines() -> None:
    text = "[Service]\n" + "".join(f"Environment=A{number}=1\n" for number in range(70))
    lines = format_with_all_words({UNIT: text}, {UNIT: text.replace("A35=1", "A35=2")})
    assert lines[0] == "unit of instance chat:" and lines[1].startswith("@@ ")
    assert [line for line in lines[2:] if line[0] != " "] == ["-Environment=A35=1", "+Environment=A35=2"]
    assert len(lines) == 10


def test_a_new_unit_shows_all_its_lines() -> None:
    lines = format_with_all_words({UNIT: None}, {UNIT: "[Unit]\n[Service]\n"})
    assert lines == ["unit of instance chat:", "@@ -0,0 +1,2 @@", "+[Unit]", "+[Service]"]


def test_a_text_whose_lines_are_the_same_is_still_said_to_change() -> None:
    assert format_with_all_words({UNIT: "[Unit]\n"}, {UNIT: "[Unit]"}) == ["unit of instance chat: changed"]


def test_a_terminal_obeys_nothing_that_is_printed() -> None:
    escape = "\x1b[2J"
    before: Values = {f"strange:{escape}": escape, UNIT: f"{escape}\n"}
    after: Values = {f"strange:{escape}": f"a\r{escape}", UNIT: "\n"}
    text = format_changes(before, after, {})
    assert text.replace("\n", "").isprintable() and text.count(r"\x1b[2J") == 4


def test_a_module_without_words_shows_the_address() -> None:
    assert format_changes({}, {"model_file:/x.gguf": "sha256:12"}, {}) == ("model_file:/x.gguf: nothing -> sha256:12\n")


def test_what_does_not_change_has_an_empty_text() -> None:
    nothing: dict[str, Values] = {"before": {}, "after": {}}
    assert add_text_to_diff({"changed": False}, {}) == {"changed": False}
    for diff in ({}, nothing):
        assert add_text_to_diff({"diff": diff}, {}) == {"diff": {"prepared": "", "changes": nothing}}
