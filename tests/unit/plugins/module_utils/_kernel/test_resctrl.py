# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.sovereign.epyc.plugins.module_utils._kernel import resctrl
from ansible_collections.sovereign.epyc.tests.unit.fakes import hosts

FLAGS = frozenset(hosts.FLAGS.split())
HOME = "/sys/fs/resctrl"


def mounted(root: Path, options: str = "", **files: str) -> hosts.Host:
    """A small machine with resctrl mounted; a file's slashes are written as double underscores."""
    host = hosts.small(root)
    host.put("/proc/self/mounts", f"sysfs /sys sysfs rw 0 0\nresctrl {HOME} resctrl rw,relatime{options} 0 0")
    for name, text in files.items():
        host.put(f"{HOME}/info/{name.replace('__', '/')}", text)
    return host


# Schemata

ROWS = st.dictionaries(st.integers(0, 300), st.integers(0, 1 << 32).map(lambda mask: f"{mask:x}"), min_size=1)
TABLES = st.dictionaries(st.sampled_from(resctrl.RESOURCES), ROWS)


@given(TABLES)
def test_what_is_rendered_parses_back(table: dict[str, dict[int, str]]) -> None:
    assert resctrl.parse_schemata(resctrl.format_schemata(table)) == table


@given(TABLES)
def test_every_line_ends_as_the_kernel_insists(table: dict[str, dict[int, str]]) -> None:
    text = resctrl.format_schemata(table)
    assert text.count("\n") == len(table)
    assert text == "" or text.endswith("\n")


def test_padding_is_not_part_of_a_value() -> None:
    text = "    MB:0=2048;1=  16\nL3CODE:0=ffff;1=000f\n    L3:0=0000;16=0ff0\n"
    assert resctrl.parse_schemata(text) == {
        "MB": {0: "2048", 1: "16"},
        "L3CODE": {0: "ffff", 1: "f"},
        "L3": {0: "0", 16: "ff0"},
    }


@pytest.mark.parametrize("text", ["", "\n", "L3\n"])
def test_lines_without_values_are_passed_over(text: str) -> None:
    assert resctrl.parse_schemata(text) == {}


def test_a_resource_that_is_locked_has_no_values() -> None:
    assert resctrl.parse_schemata("L3:uninitialized\n") == {"L3": {}}


def test_what_has_no_values_is_not_written() -> None:
    assert resctrl.format_schemata({"L3": {}, "MB": {16: "8", 0: "16"}}) == "MB:0=16;16=8\n"


# Addresses


@pytest.mark.parametrize(
    ("parts", "text"),
    [
        (("draft", "", ""), "resctrl:draft"),
        (("draft", "cpus", ""), "resctrl:draft/cpus"),
        (("draft", "L3", "16"), "resctrl:draft/L3/16"),
        (("draft", "tasks_of", "a/b.service"), "resctrl:draft/tasks_of/a/b.service"),
        (("odd:name", "mon", "m/cpus"), "resctrl:odd:name/mon/m/cpus"),
    ],
)
def test_an_address_splits_into_what_it_was_made_of(parts: tuple[str, str, str], text: str) -> None:
    assert resctrl.format_address(*(part for part in parts if part)) == text
    assert resctrl.split_address(text) == parts


# The mount


def test_no_mount(tmp_path: Path) -> None:
    host = hosts.small(tmp_path)
    assert resctrl.find_mount(host.fs) is None
    host.drop("/proc/self/mounts")
    assert resctrl.find_mount(host.fs) is None


def test_a_mount_tells_resctrls_own_options_only(tmp_path: Path) -> None:
    host = mounted(tmp_path, ",cdp,mba_MBps")
    assert resctrl.find_mount(host.fs) == (HOME, ("cdp", "mba_MBps"))


def test_a_mount_elsewhere_is_found(tmp_path: Path) -> None:
    host = hosts.small(tmp_path)
    host.put("/proc/self/mounts", "none /mnt/resctrl resctrl rw 0 0\nbroken line")
    assert resctrl.find_mount(host.fs) == ("/mnt/resctrl", ())


# Abilities


def test_a_mounted_file_system_wins_over_cpuid(tmp_path: Path) -> None:
    host = mounted(
        tmp_path,
        L3__cbm_mask="fffff",
        L3__num_closids="15",
        L3__min_cbm_bits="0",
        L3__sparse_masks="1",
        MB__num_closids="16",
        L3_MON__num_rmids="256",
    )
    assert resctrl.read_features(host.fs, FLAGS).to_dict() == {
        "mount_point": HOME,
        "mount_options": [],
        "features": ["cat_l3", "cdp_l3", "cqm_llc", "mba"],
        "cbm_mask": "fffff",
        "closids": 15,
        "min_cbm_bits": 0,
        "sparse_masks": True,
        "throttle_max": {"MB": 2048, "SMBA": 2048},
        "io_alloc": None,
        "io_ways": {},
        "shareable_ways": "0",
        "source": f"{HOME}/info",
    }


@pytest.mark.parametrize("folder", ["L3", "L3CODE"])
def test_io_may_have_ways_of_its_own(tmp_path: Path, folder: str) -> None:
    files = {f"{folder}__io_alloc": "enabled\n", f"{folder}__io_alloc_cbm": "0=ffff;1=00ff\n"}
    able = resctrl.read_features(mounted(tmp_path, **files, **{f"{folder}__shareable_bits": "c000\n"}).fs, FLAGS)
    assert (able.io_alloc, able.io_ways, able.shareable_ways) == (True, {0: 0xFFFF, 1: 0xFF}, 0xC000)
    assert able.to_dict()["io_ways"] == {"0": "ffff", "1": "ff"}


@pytest.mark.parametrize(("word", "state"), [("disabled", False), ("not supported", None)])
def test_io_without_ways_of_its_own(tmp_path: Path, word: str, state: bool | None) -> None:
    host = mounted(tmp_path, L3__io_alloc=word, L3__io_alloc_cbm="io_alloc is not enabled")
    able = resctrl.read_features(host.fs, FLAGS)
    assert (able.io_alloc, able.io_ways) == (state, {})


def test_cdp_halves_the_classes_of_service(tmp_path: Path) -> None:
    host = mounted(
        tmp_path,
        ",cdp",
        L3CODE__cbm_mask="ffff",
        L3CODE__num_closids="8",
        L3DATA__num_closids="8",
        MB__num_closids="16",
    )
    able = resctrl.read_features(host.fs, FLAGS)
    assert (able.closids, able.cbm_mask, able.mount_options) == (8, 0xFFFF, ("cdp",))


def test_what_the_kernel_does_not_tell_is_none_and_not_guessed(tmp_path: Path) -> None:
    host = mounted(tmp_path)
    host.drop("/dev/cpu/0/cpuid")
    able = resctrl.read_features(host.fs, FLAGS).to_dict()
    assert [able[key] for key in ("cbm_mask", "closids", "min_cbm_bits", "sparse_masks")] == [None] * 4
    assert able["throttle_max"] == {}
    assert able["source"] == ""


def test_older_kernels_do_not_tell_of_sparse_masks(tmp_path: Path) -> None:
    host = mounted(tmp_path, L3__cbm_mask="ffff", L3__min_cbm_bits="1")
    able = resctrl.read_features(host.fs, FLAGS)
    assert (able.min_cbm_bits, able.sparse_masks) == (1, None)


def test_without_the_flag_cpuids_l3_leaf_means_nothing(tmp_path: Path) -> None:
    able = resctrl.read_features(hosts.small(tmp_path).fs, frozenset({"mba"}))
    assert (able.cbm_mask, able.closids, able.source) == (None, None, "")


def test_a_processor_without_slow_memory_limits(tmp_path: Path) -> None:
    host = hosts.small(tmp_path)
    host.cpuid(0x80000020, 0, 0, ebx=1 << 1)
    host.cpuid(0x80000020, 1, 12)
    assert resctrl.read_features(host.fs, FLAGS).throttle_max == {"MB": 4096}


def test_a_short_answer_of_the_cpuid_driver_is_no_answer(tmp_path: Path) -> None:
    host = hosts.small(tmp_path)
    host.fs.answers[1 << 32 | 0x10] = b"\x0f\x00"
    assert resctrl.read_features(host.fs, FLAGS).cbm_mask is None


@pytest.mark.parametrize(("options", "closids"), [((), 16), (("debug",), 16), (("cdp", "debug"), 8)])
def test_a_mount_to_come_is_taken_into_account(tmp_path: Path, options: tuple[str, ...], closids: int) -> None:
    able = resctrl.read_features(hosts.small(tmp_path).fs, FLAGS)
    able.assume_mount_options(options)
    assert (able.mount_options, able.closids) == (options, closids)


def test_what_is_unknown_of_a_mount_to_come_stays_unknown(tmp_path: Path) -> None:
    able = resctrl.read_features(hosts.small(tmp_path).fs, frozenset())
    able.assume_mount_options(("cdp",))
    assert able.closids is None


# Why not


@pytest.mark.parametrize(
    ("offered", "flags", "words"),
    [
        ("nodev\tsysfs", frozenset({"fpu"}), "the hypervisor must pass it on"),
        ("nodev\tsysfs", FLAGS, "this kernel does not offer the file system"),
    ],
)
def test_the_reason_why_not(tmp_path: Path, offered: str, flags: frozenset[str], words: str) -> None:
    host = hosts.small(tmp_path)
    host.put("/proc/filesystems", offered)
    reason = resctrl.resctrl_unavailable_reason(host.fs, flags)
    assert reason is not None
    assert reason.startswith("resctrl is absent: ")
    assert words in reason


def test_an_offered_file_system_needs_no_reason(tmp_path: Path) -> None:
    assert resctrl.resctrl_unavailable_reason(hosts.small(tmp_path).fs, frozenset()) is None
