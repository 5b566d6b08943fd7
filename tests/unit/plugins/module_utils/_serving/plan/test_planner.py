# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Instances of llama-server on all machines: how they speculate, what their server is told, and what is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ansible_collections.sovereign.epyc.plugins.module_utils._host.host import Host
from ansible_collections.sovereign.epyc.plugins.module_utils._host.memory_speed import save_measured_speed
from ansible_collections.sovereign.epyc.plugins.module_utils._io.store import Store
from ansible_collections.sovereign.epyc.plugins.module_utils._notation.cpulist import format_cpulist
from ansible_collections.sovereign.epyc.plugins.module_utils._serving.plan.memory.free_memory import FreeMemory
from ansible_collections.sovereign.epyc.tests.unit.fakes import ggufs, hosts
from ansible_collections.sovereign.epyc.tests.unit.fakes.llama_plans import (
    GB,
    OLD,
    Able,
    Models,
    machine,
    planned,
    refused,
    remarks_of,
)

MACHINES = ("9754", "9754 SMT", "9654", "9354", "two 7543", "9655")


# Speculation


def test_ngram_is_the_default(host: Host, models: Models) -> None:
    wants = planned(host, models).parameters
    assert wants["speculation"] == ["ngram-simple"]
    assert (wants["ngram_lookup"], wants["ngram_max"], wants["ngram_min_hits"]) == (6, 8, 1)
    assert not any(key.startswith("draft") for key in wants)
    assert planned(host, models, speculation="none").parameters["speculation"] == []


@pytest.mark.parametrize(
    ("asked", "kinds"),
    [
        ("none", []),
        ("ngram_mod", ["ngram-mod"]),
        ("ngram, ngram_mod", ["ngram-simple", "ngram-mod"]),
        (["ngram_map", "draft"], ["ngram-map-k", "draft"]),
        ("cascade", ["ngram-simple", "draft"]),
    ],
)
def test_kinds_by_their_words(host: Host, models: Models, asked: Any, kinds: list[str]) -> None:
    found = planned(host, models, speculation=asked)
    assert found.parameters["speculation"] == kinds
    assert ("ngram_lookup" in found.parameters) == any(kind.startswith("ngram") for kind in kinds)


def test_another_order_than_that_of_the_server_is_told(host: Host, models: Models) -> None:
    found = planned(host, models, speculation=["draft", "ngram_mod"])
    assert found.parameters["speculation"] == ["ngram-mod", "draft"]
    assert "speculation: the server always asks the kinds in this order: ngram_mod, draft." in found.remarks


def test_weights_are_repacked_as_it_is_said(host: Host, models: Models) -> None:
    found = {said: planned(host, models, repack=said).parameters.get("repack") for said in (None, True, False)}
    assert found == {None: None, True: True, False: False}


def test_weights_that_are_repacked_at_the_start_are_read_and_not_mapped(host: Host, models: Models) -> None:
    build = Able(engine="ik_llama.cpp")
    plain, one = planned(host, models, build), planned(host, models, build, repack_at_start=True)
    assert plain.parameters["load"] == "mmap" and "repack_at_start" not in plain.parameters
    assert (one.parameters["load"], one.parameters["repack_at_start"]) == ("none", True)
    assert one.mapped == [] and plain.mapped == [models.large.path]
    assert one.need.to_dict() == plain.need.to_dict()
    assert planned(host, models, build, repack_at_start=True, lock=True).parameters["load"] == "mlock"
    assert planned(host, models, build, repack_at_start=True, hugepages="thp").parameters["load"] == "none"


def test_each_engine_has_its_own_option_to_repack(host: Host, models: Models) -> None:
    assert "repack_at_start is an option of ik_llama.cpp, and /opt/llama-server is llama.cpp, whose option" in refused(
        host, models, repack_at_start=True
    )
    for value in (True, False):
        assert "is ik_llama.cpp, whose option for this is repack_at_start. Leave repack out." in refused(
            host, models, Able(engine="ik_llama.cpp"), repack=value
        )


def test_the_draft_begins_with_what_the_costs_say(models: Models) -> None:
    found = {name: planned(machine(name), models, speculation="cascade").parameters for name in MACHINES}
    assert {name: wants["draft_max"] for name, wants in found.items()} == {
        "9754": 6, "9754 SMT": 6, "9654": 5, "9354": 1, "two 7543": 3, "9655": 4,
    }  # fmt: skip
    assert all(wants["speculation"] == ["ngram-simple", "draft"] for wants in found.values())
    assert planned(machine("9754"), models, speculation="draft", draft_p_min=0.75).parameters["draft_p_min"] == 0.75


def test_a_draft_that_loses_is_left_out(host: Host, models: Models) -> None:
    few = {"cpus": "1-2", "draft_placement": "own_ccd", "rpc_port": 50052}
    for raw in ({"cpus": "1-2"}, few):
        found = planned(host, models, speculation="cascade", **raw)
        assert found.parameters["speculation"] == ["ngram-simple"] and "draft_model" not in found.parameters
        assert "is left out; set draft_max to run it nevertheless" in remarks_of(found)[-1]
        assert found.rpc is None and list(found.files) == [models.large.path]
    insisted = planned(host, models, speculation="draft", cpus="1-2", draft_max=3)
    assert insisted.parameters["draft_max"] == 3 and "It runs because draft_max is set" in remarks_of(insisted)[-1]


def test_a_draft_for_a_mixture_of_experts(host: Host, models: Models) -> None:
    found = planned(host, models, moe=True, speculation="draft")
    assert found.parameters["speculation"] == []
    assert "a mixture of 128 experts" in found.remarks[0] and "computed to gain nothing" in found.remarks[1]


def test_a_foreign_draft_is_refused(host: Host, models: Models) -> None:
    assert "cannot draft for" in refused(host, models._replace(small=models.foreign), speculation="draft")


def test_a_host_of_unknown_memory(tmp_path: Path, models: Models) -> None:
    host = Host(hosts.small(tmp_path, family=99).fs)
    assert "65 GB/s are assumed" in planned(host, models, speculation="draft").remarks[0]
    told = planned(host, models, speculation="draft", bandwidth=100.0)
    assert not any("assumed" in remark for remark in told.remarks)
    save_measured_speed(host, Store(str(tmp_path)), dict.fromkeys(range(4), 25.0), 100.0)
    measured = planned(Host(host.fs), models, speculation="draft")
    assert not any("assumed" in remark for remark in measured.remarks)


def test_without_a_role_the_draft_has_the_fullest_ccd(models: Models) -> None:
    host = Host(machine("9754").fs)
    raw = {"speculation": "draft", "draft_placement": "own_ccd", "rpc_port": 50052}
    found = planned(host, models, **raw)
    assert found.rpc is not None and found.rpc.placement.cpus == tuple(range(16, 32))
    assert found.rpc.placement.group is None


ELSEWHERE = {
    "cpus": "1-3,36-39",
    "speculation": "draft",
    "draft_placement": "own_ccd",
    "draft_max": 4,
    "rpc_port": 50052,
}


def test_a_draft_on_another_socket_takes_its_memory_along(models: Models) -> None:
    """The memory of the model follows the CPUs that are left to it."""
    host = Host(machine("two 7543").fs)
    found = planned(host, models, **ELSEWHERE)
    assert found.rpc is not None
    assert format_cpulist(found.placement.busy_cpus) == "1-3" and format_cpulist(found.rpc.placement.cpus) == "36-39"
    assert (found.placement.nodes, found.placement.policy) == ((0,), "bind")
    assert (found.rpc.placement.nodes, found.rpc.placement.policy) == ((1,), "bind")
    assert (
        found.need.weights == models.large.parts[0].data_bytes
        and found.rpc.need.weights == models.small.parts[0].data_bytes
    )
    assert found.mapped == [models.large.path] and list(found.files) == [models.large.path, models.small.path]
    itself = planned(host, models, **ELSEWHERE, draft_model=models.large.path)
    assert itself.mapped == [models.large.path], "it is mapped, whoever drafts with it"
    shared = planned(host, models, **{**ELSEWHERE, "draft_placement": "shared", "rpc_port": None})
    assert shared.placement.nodes == (0, 1) and shared.mapped == [models.large.path, models.small.path]


def test_the_process_of_a_draft_must_fit_on_its_nodes(models: Models) -> None:
    host = Host(machine("two 7543").fs)
    full = FreeMemory({0: 200 * GB, 1: GB})
    words = refused(host, models, free=full, **ELSEWHERE)
    assert words.startswith("The process of the draft needs ") and "nodes 1 have" in words
    assert "prompt_cache" not in words
    beside = {**ELSEWHERE, "cpus": "1-3,8-11", "prompt_cache": "1GiB"}
    need = planned(host, models, **beside)
    assert need.rpc is not None and need.rpc.placement.nodes == need.placement.nodes == (0,)
    just = need.need.total + need.rpc.need.total
    planned(host, models, free=FreeMemory({0: just}), **beside)
    assert "The instance needs" in refused(host, models, free=FreeMemory({0: just - 4096}), **beside)


def test_groups(host: Host, models: Models) -> None:
    raw = {"speculation": "draft", "draft_placement": "own_ccd", "rpc_port": 50052}
    found = planned(host, models, **raw, l3_group="big", draft_l3_group="little")
    assert found.rpc is not None
    assert (found.expect["group"], found.rpc.expect["group"]) == ("big", "little")
    assert "group" not in planned(host, models).expect


# Memory


@pytest.mark.parametrize(
    ("raw", "load", "tunables", "expected"),
    [
        ({}, "mmap", None, None),
        ({"lock": True}, "mlock", None, None),
        ({"direct_io": True}, "dio", None, None),
        ({"hugepages": "thp"}, "none", "glibc.malloc.hugetlb=1", {"thp": "32043MiB"}),
        ({"hugepages": "thp", "lock": True}, "mlock", "glibc.malloc.hugetlb=1", {"thp": "32043MiB"}),
        ({"hugepages": "pool"}, "none", "glibc.malloc.hugetlb=2", {"hugetlb": "38051MiB"}),
        ({"hugepages": "hugetlbfs"}, "mmap", None, {"hugetlb": "38051MiB"}),
    ],
)
def test_pages(
    host: Host, models: Models, raw: dict[str, Any], load: str, tunables: str | None, expected: object
) -> None:
    found = planned(host, models, **raw)
    assert found.parameters["load"] == load
    assert found.placement.environment.get("GLIBC_TUNABLES") == tunables
    assert found.expect.get("hugepages") == expected
    staged = raw.get("hugepages") == "hugetlbfs"
    assert found.parameters["model"] == ("/dev/hugepages/llama-chat/large.gguf" if staged else models.large.path)
    assert found.parameters.get("repack") is (False if staged else None)
    assert any("not repacked" in remark for remark in found.remarks) == staged


def test_a_draft_is_staged_too_unless_it_is_sent_away(host: Host, models: Models) -> None:
    raw = {"speculation": "draft", "hugepages": "hugetlbfs"}
    found = planned(host, models, **raw)
    assert found.staged[models.small.path] == found.parameters["draft_model"] == "/dev/hugepages/llama-chat/small.gguf"
    apart = planned(host, models, **raw, draft_placement="own_ccd", rpc_port=50052)
    assert list(apart.staged) == [models.large.path] and apart.parameters["draft_model"] == models.small.path


def test_too_little_memory(host: Host, models: Models) -> None:
    free = FreeMemory(dict.fromkeys(range(4), 5 * GB))
    assert "The instance needs 50." in refused(host, models, free=free, prompt_cache="8GiB")
    assert "The instance needs 42." in refused(host, models, free=free)
    assert "pages of 2 MiB on nodes 0-3, and 0 are free" in refused(host, models, free=free, hugepages="pool")
    never = FreeMemory(dict.fromkeys(range(4), 200 * GB), thp="never")
    assert "switched off (never)" in refused(host, models, free=never, hugepages="thp")


# What it is made of, and what it is for


def test_weights_that_only_the_other_engine_reads(host: Host, tmp_path: Path, models: Models) -> None:
    """They count by their place in the file: as nothing, a token would take no time, and no draft would gain."""
    foreign = models._replace(large=ggufs.written(tmp_path / "ik.gguf", 42 * GB, kind=139))
    words = refused(host, foreign)
    assert words.startswith(f"{foreign.large.path} has tensors of types that only ik_llama.cpp reads (IQ4_K), and ")
    found, known = (planned(host, one, Able(engine="ik_llama.cpp"), speculation="draft") for one in (foreign, models))
    assert found.parameters["draft_max"] == known.parameters["draft_max"] == 6
    assert any("types that are not known here (IQ4_K)" in remark for remark in found.remarks)


@pytest.mark.parametrize("speculation", ["ngram", "draft", "cascade"])
def test_a_server_that_sees_pictures_does_not_guess(
    host: Host, tmp_path: Path, models: Models, speculation: str
) -> None:
    projector = ggufs.written(tmp_path / "projector.gguf", GB)
    found = planned(host, models, projector=projector, speculation=speculation)
    assert found.parameters["speculation"] == [] and found.parameters["projector"] == projector.path
    assert not any(key.startswith(("draft", "ngram")) for key in found.parameters)
    said = speculation.replace("cascade", "ngram,draft")
    assert any(f"speculation {said} is left out" in remark for remark in found.remarks)
    assert projector.path in found.files and projector.path not in found.mapped
    quiet = planned(host, models, projector=projector, speculation="none")
    assert remarks_of(quiet) == [] and quiet.need.weights > planned(host, models).need.weights


def test_a_server_that_does_not_go_on_with_texts(host: Host, models: Models) -> None:
    task = "embedding"
    found = planned(host, models, task=task, pooling="last", context=512)
    assert (found.parameters["task"], found.parameters["speculation"], remarks_of(found)) == (task, [], [])
    assert (found.parameters["prompt_cache"], found.parameters["checkpoints"]) == (0, 0)
    assert "ngram_max" not in found.parameters
    assert "which guesses no tokens" in refused(host, models, task=task, speculation="draft")
    assert "projector has no effect" in refused(host, models, projector=models.small, task=task)
    assert "task" not in planned(host, models).parameters


def test_what_is_kept_of_earlier_requests_is_told_to_the_server(host: Host, models: Models) -> None:
    wants = planned(host, models).parameters
    assert (wants["prompt_cache"], wants["checkpoints"]) == (8192, 32)
    wants = planned(host, models, prompt_cache="512MiB", checkpoints=0).parameters
    assert (wants["prompt_cache"], wants["checkpoints"]) == (512, 0)
    assert "is no whole number of MiB" in refused(host, models, prompt_cache="1KiB")
    assert "is no amount of memory" in refused(host, models, prompt_cache="much")


# What else the server is told


def test_what_is_said_is_handed_on(host: Host, models: Models) -> None:
    wants = planned(
        host,
        models,
        alias="big",
        context=65536,
        slots=4,
        cache_type_k="q8_0",
        cache_type_v="q8_0",
        flash_attention="on",
        batch=1024,
        ubatch=256,
        api_key_file="/etc/keys",
        sampling={"temperature": 0.6},
        extra_arguments=["--top-k", "20"],
    ).parameters
    told = {key: wants[key] for key in ("alias", "context", "slots", "cache_type_k", "cache_type_v", "flash_attention")}
    assert list(told.values()) == ["big", 65536, 4, "q8_0", "q8_0", "on"]
    assert (wants["batch"], wants["ubatch"], wants["extra"]) == (1024, 256, ["--top-k", "20"])
    assert wants["temperature"] == 0.6
    assert wants["api_key_file"] == "/run/credentials/llama-chat.service/api-key"
    assert wants["metrics"] is wants["slots_endpoint"] is True
    assert None not in planned(host, models).parameters.values()


@pytest.mark.parametrize(
    ("server", "reuse"),
    [(Able(), ""), (Able(lacks=("--reuse-port",)), "address"), (Able(engine="ik_llama.cpp"), "port")],
)
def test_the_socket_option_of_a_server_that_sets_only_one(host: Host, models: Models, server: Able, reuse: str) -> None:
    assert planned(host, models, server).port_reuse == reuse


def test_the_users_environment(host: Host, models: Models) -> None:
    found = planned(host, models, OLD, extra_environment={"OMP_WAIT_POLICY": "active"})
    assert list(found.placement.environment) == ["GOMP_CPU_AFFINITY", "OMP_WAIT_POLICY"]
    words = refused(host, models, hugepages="thp", extra_environment={"GLIBC_TUNABLES": "a=b"})
    assert "GLIBC_TUNABLES is set by the plan, to 'glibc.malloc.hugetlb=1'" in words


def test_what_the_catalogue_says_of_a_model(host: Host, models: Models) -> None:
    sampling = {"temperature": 1.0, "top_k": 20}
    facts = {"name": "qwen3.6-27b-q4", "fetched": False, "recommended_sampling": True}
    found = planned(host, models, sampling=sampling, catalogue_model=facts)
    assert [choice.to_dict() for choice in found.default_choices if choice.option == "sampling"] == [
        {
            "option": "sampling",
            "value": "temperature 1, top_k 20",
            "reason": "the catalogue recommends it for qwen3.6-27b-q4",
            "expected_gain": "",
            "undo": "sampling: {}",
        }
    ]
    assert any(remark.startswith("qwen3.6-27b-q4 was never fetched by us: ") for remark in found.remarks)
    facts = {"name": "smollm2-135m-q4", "fetched": True, "recommended_sampling": False}
    found = planned(host, models, sampling=sampling, catalogue_model=facts)
    assert not any("never fetched" in remark or "the catalogue recommends" in remark for remark in found.remarks)


def test_fewer_experts_cost_quality(host: Host, models: Models) -> None:
    found = planned(host, models, moe=True, experts=4)
    assert found.parameters["experts"] == ("llama", 4) and "for the worse" in found.remarks[0]
    assert "uses 8 for each token" in refused(host, models, moe=True, experts=8)
    assert "is a dense model" in refused(host, models, experts=4)


def test_a_context_beyond_the_training(host: Host, models: Models) -> None:
    free = FreeMemory(dict.fromkeys(range(4), 999 * GB))
    assert "more than the 131072 tokens" in planned(host, models, free=free, context=131073).remarks[0]
    assert remarks_of(planned(host, models, free=free, context_per_slot=131072, slots=2)) == []
