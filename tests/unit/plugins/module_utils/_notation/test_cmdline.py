# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.sovereign.epyc.plugins.module_utils._notation import cmdline

NAMES = st.text(string.ascii_letters + string.digits + "_-.", min_size=1, max_size=8)
VALUES = st.one_of(st.none(), st.text(string.ascii_letters + string.digits + ":,=*!+ \t", max_size=10))


@given(st.lists(st.tuples(NAMES, VALUES), max_size=8), st.sampled_from([" ", "  ", "\t", "\n"]))
def test_what_is_rendered_parses_back(pairs: list[tuple[str, str | None]], gap: str) -> None:
    line = gap.join(cmdline.format_kernel_parameter(name, value) for name, value in pairs)
    assert [cmdline.split_kernel_parameter(word) for word in cmdline.split_kernel_command_line(line)] == pairs


@given(st.lists(st.tuples(NAMES, VALUES), max_size=8))
def test_what_a_setting_says_is_written_so_that_it_reads_the_same(pairs: list[tuple[str, str | None]]) -> None:
    settings = cmdline.parameters_to_settings(cmdline.format_kernel_parameter(name, value) for name, value in pairs)
    words = [word for name, text in settings.items() for word in cmdline.setting_to_parameters(name, text)]
    assert cmdline.parameters_to_settings(words) == settings
    assert cmdline.parameters_to_settings(cmdline.split_kernel_command_line(" ".join(words))) == settings
    assert len(words) == len(pairs)


@given(st.text(alphabet='ab="\t -_', max_size=20))
def test_any_line_is_taken_apart_without_losing_a_character(line: str) -> None:
    assert "".join(cmdline.split_kernel_command_line(line)).replace(" ", "").replace("\t", "") == line.replace(
        " ", ""
    ).replace("\t", "")
    cmdline.parameters_to_settings(cmdline.split_kernel_command_line(line))


@pytest.mark.parametrize(
    ("line", "settings"),
    [
        ("", {}),
        ("quiet", {"quiet": ""}),
        ("foo=", {"foo": '""'}),
        ('foo=""', {"foo": '""'}),
        ('foo="a b" quiet', {"foo": '"a b"', "quiet": ""}),
        ('"foo=a b" quiet', {"foo": '"a b"', "quiet": ""}),
        ("a-b=1", {"a_b": "1"}),
        ("console=tty0 quiet console=ttyS0", {"console": "console=tty0 console=ttyS0", "quiet": ""}),
        ("a-b=1 a_b=2", {"a_b": "a_b=1 a_b=2"}),
        ("hugepages=4", {"hugepages": "hugepages=4"}),
        (
            "hugepagesz=1G hugepages=4 quiet default-hugepagesz=2M hugepagesz=2M hugepages=8",
            {
                "hugepages": "hugepagesz=1G hugepages=4 default_hugepagesz=2M hugepagesz=2M hugepages=8",
                "quiet": "",
            },
        ),
        ('open="to the end', {"open": '"to the end"'}),
    ],
)
def test_settings(line: str, settings: dict[str, str]) -> None:
    assert cmdline.parameters_to_settings(cmdline.split_kernel_command_line(line)) == settings
