# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What is recommended for every shape of machine and every size of model goes through the planner and the roles."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ansible_collections.sovereign.epyc.plugins.module_utils._serving.recommend.model_use import USES
from ansible_collections.sovereign.epyc.tests.unit.fakes import ggufs
from ansible_collections.sovereign.epyc.tests.unit.fakes.recommendations import (
    GB,
    SIZES,
    free_all_ports,
    instances,
    recommended,
    refused,
)
from ansible_collections.sovereign.epyc.tests.unit.fakes.sized_hosts import (
    GIB,
    MEMORY,
    check_text,
    check_variables,
    planned_as_site_would,
    sized,
)


@pytest.fixture(autouse=True)
def all_ports_free(monkeypatch: pytest.MonkeyPatch) -> None:
    free_all_ports(monkeypatch)


def slots_and_tokens(instance: dict[str, Any]) -> tuple[int, int]:
    """The slots of an instance, and the tokens of each."""
    slots = instance["slots"]
    return slots, instance.get("context_per_slot") or instance["context"] // slots


@pytest.mark.parametrize("shape", MEMORY)
@pytest.mark.parametrize("name", SIZES)
def test_every_shape_and_model(models: dict[str, str], tmp_path: Path, shape: str, name: str) -> None:
    fs = sized(shape)
    result = recommended(fs, models[name], tmp_path)
    check_text(result["text"], result["variables"])
    check_variables(result["variables"])
    services = planned_as_site_would(fs, result["variables"])
    assert [remark.count("ik_llama.cpp may serve it faster") for remark in result["remarks"]] == [1] * (
        name == "moe 671B"
    )
    assert [one.need.to_dict() for one in services] == [one["need"] for one in result["services"].values()]
    assert services[0].need.weights // GIB == SIZES[name]
    level = (1, 8192) if (shape, name) == ("9354", "moe 671B") else (4, 32768)
    assert [slots_and_tokens(one) for one in instances(result)] == [level] * len(services)
    assert {one["speculation"] for one in instances(result)} == {"ngram"}


def test_two_sockets_have_an_instance_each(models: dict[str, str], tmp_path: Path) -> None:
    """Where both fit; the largest model is on both at once then."""
    small = instances(recommended(sized("two 7543"), models["dense 70B"], tmp_path))
    assert [(one["cpus"], one["port"]) for one in small] == [("socket0", 8080), ("socket1", 8081)]
    assert small[0]["name"] != small[1]["name"]
    (large,) = instances(recommended(sized("two 7543", 640), models["moe 671B"], tmp_path))
    assert "cpus" not in large


def test_without_huge_pages_a_file_is_on_both_sockets(models: dict[str, str], tmp_path: Path) -> None:
    """It is mapped then, and in memory once: site.yml --check refuses thp where the kernel has it switched off."""
    fs = sized("two 7543", thp="always madvise [never]")
    result = recommended(fs, models["dense 8B"], tmp_path)
    (one,) = instances(result)
    assert not {"hugepages", "cpus"} & one.keys()
    planned_as_site_would(fs, result["variables"])


@pytest.mark.parametrize(
    ("gib", "level", "cache"),
    [(384, (4, 32768), "32GiB"), (96, (4, 32768), "11GiB"), (48, (1, 8192), "3GiB"), (42, (1, 4096), "512MiB")],
)
def test_little_memory_gets_less(
    models: dict[str, str], tmp_path: Path, gib: int, level: tuple[int, int], cache: str
) -> None:
    fs = sized("9354", gib)
    result = recommended(fs, models["dense 70B"], tmp_path)
    (one,) = instances(result)
    planned_as_site_would(fs, result["variables"])
    assert (slots_and_tokens(one), one["prompt_cache"]) == (level, cache)
    assert ("More does not fit." in result["text"]) == (level != (4, 32768))
    remark = "is not kept when another request takes its slot"
    assert (remark in " ".join(result["text"].replace("# ", " ").split())) == (gib == 42)


def test_a_context_that_is_asked_for_is_kept(models: dict[str, str], tmp_path: Path) -> None:
    asked = {"model": models["dense 70B"], "context": 65536, "slots": 2}
    (one,) = instances(recommended(sized("9354"), asked, tmp_path))
    assert (one["context"], one["slots"]) == (65536, 2)
    said = refused(sized("9354", 48), asked, tmp_path)
    assert "with a context of 65536, and 44.2 GiB are available" in said
    assert "With a context of 8192 it would fit." in said


def test_what_does_not_fit(models: dict[str, str], tmp_path: Path) -> None:
    said = refused(sized("9354", 256), models["moe 671B"], tmp_path)
    assert f"{models['moe 671B']} does not fit on this host: it needs at least 35" in said
    assert "with a context of 4096, and 235.5 GiB are available evenly on its nodes." in said
    assert "A file with 3.0 bits for each weight would fit, as IQ2_XXS has; this one has 4.5." in said


def test_nothing_would_make_it_fit(models: dict[str, str], tmp_path: Path) -> None:
    said = refused(sized("9354", 8), models["moe 671B"], tmp_path)
    assert said.endswith("evenly on its nodes. Take a smaller model. Nothing is recommended.")


def test_each_slot_has_its_share(models: dict[str, str], tmp_path: Path) -> None:
    (one,) = instances(recommended(sized("9754"), {"model": models["dense 8B"], "slots": 4}, tmp_path))
    assert slots_and_tokens(one) == (4, 32768)
    (one,) = instances(recommended(sized("9754"), {"model": models["dense 8B"], "slots": 6}, tmp_path))
    assert slots_and_tokens(one) == (6, 32768)


def test_what_was_trained_for_less(tmp_path: Path) -> None:
    path = tmp_path / "short.gguf"
    path.write_bytes(ggufs.gguf(ggufs.model(block_count=1, context_length=2048), ggufs.WEIGHTS, 1152))
    (one,) = instances(recommended(sized("9754"), str(path), tmp_path))
    assert slots_and_tokens(one) == (4, 2048)


# What a model is used for


def test_the_use_chooses(models: dict[str, str], tmp_path: Path) -> None:
    fs = sized("9754")
    found = {}
    for use in ("chat", "coding", "batch"):
        result = recommended(fs, {"model": models["dense 70B"], "use": use}, tmp_path)
        check_text(result["text"], result["variables"])
        planned_as_site_would(fs, result["variables"])
        (one,) = instances(result)
        found[use] = (*slots_and_tokens(one), one["prompt_cache"], one["speculation"])
        assert f"For use {use}: " in result["text"]
    assert found == {
        "chat": (4, 32768, "64GiB", "ngram"),
        "coding": (2, 131072, "64GiB", "ngram"),
        "batch": (16, 8192, "0MiB", "none"),
    }
    (one,) = instances(recommended(fs, models["dense 70B"], tmp_path, use="batch"))
    assert slots_and_tokens(one) == (16, 8192)


def test_a_model_of_embeddings_is_for_retrieval(models: dict[str, str], tmp_path: Path) -> None:
    path = tmp_path / "vectors.gguf"
    numbers = {"block_count": 1, "context_length": 2048, "embedding_length": 256, "pooling_type": 1}
    path.write_bytes(ggufs.gguf(ggufs.model(architecture="qwen3", **numbers), ggufs.WEIGHTS, 1152))
    fs = sized("two 7543")
    result = recommended(fs, [models["dense 70B"], str(path)], tmp_path, use="coding")
    coder, vectors = instances(result)
    assert (coder["slots"], slots_and_tokens(vectors)) == (2, (4, 2048))
    assert refused(fs, {"model": str(path), "use": "chat"}, tmp_path).startswith("use chat: ")
    said = refused(fs, {"model": models["dense 8B"], "use": "retrieval"}, tmp_path)
    assert "states no pooling, as of a model that makes text" in said
    (one,) = instances(recommended(sized("9754"), models["dense 8B"], tmp_path, use="retrieval"))
    assert slots_and_tokens(one) == (4, 32768), "all models of a play have that use, and this one makes text"


def test_uses_that_are_refused(models: dict[str, str], tmp_path: Path) -> None:
    said = refused(sized("9754"), {"model": models["dense 8B"], "use": "poetry"}, tmp_path)
    assert said == "models: use is 'poetry'; say one of chat, coding, batch, retrieval."
    asked = {"model": models["dense 70B"], "draft": models["dense 8B"], "use": "batch"}
    assert "use batch guesses no tokens, so that a draft has no effect." in refused(sized("9754"), asked, tmp_path)


def test_few_cores_get_few_slots() -> None:
    """A slot for two cores."""
    levels = USES["batch"].levels_for_model(131072, None, None, most_slots=2)
    assert levels == [(2, 8192), (2, 4096), (1, 4096)]
    assert USES["coding"].levels_for_model(None, None, 65536, most_slots=8) == [(2, 32768)]


def test_a_prompt_cache_leaves_room_for_the_next_model(models: dict[str, str], tmp_path: Path) -> None:
    """Two models on one node: the first one's prompt cache could have all that the second one needs."""
    fs = sized("9354", 60)
    result = recommended(fs, [models["dense 32B"], models["moe 30B-A3B"]], tmp_path)
    planned_as_site_would(fs, result["variables"])
    assert len(instances(result)) == 2


# Drafts and other kinds of models


def test_a_draft_that_gains(models: dict[str, str], tmp_path: Path) -> None:
    draft = ggufs.written(tmp_path / "draft.gguf", 8 * GB // 10).path
    model = ggufs.written(tmp_path / "large.gguf", 42 * GB).path
    fs = sized("9754")
    result = recommended(fs, {"model": model, "draft": draft}, tmp_path)
    (one,) = instances(result)
    assert (one["speculation"], one["draft_model"]) == ("cascade", draft)
    check_text(result["text"], result["variables"])
    (service,) = planned_as_site_would(fs, result["variables"])
    assert f"# Drafts {service.parameters['draft_max']} tokens at a time" in result["text"]


def test_a_draft_that_loses_is_left_out(tmp_path: Path) -> None:
    draft = ggufs.written(tmp_path / "draft.gguf", 20 * GB).path
    model = ggufs.written(tmp_path / "large.gguf", 42 * GB).path
    result = recommended(sized("9354"), {"model": model, "draft": draft}, tmp_path)
    (one,) = instances(result)
    assert one["speculation"] == "ngram" and "draft_model" not in one
    assert "is computed to gain nothing" in " ".join(result["text"].replace("# ", " ").split())


def test_a_draft_of_another_family(tmp_path: Path) -> None:
    draft = ggufs.written(tmp_path / "draft.gguf", GB, tokens=5).path
    model = ggufs.written(tmp_path / "large.gguf", 42 * GB).path
    assert "cannot draft for" in refused(sized("9754"), {"model": model, "draft": draft}, tmp_path)


@pytest.mark.parametrize(("pooling", "task"), [(1, "embedding"), (4, "rerank"), (0, None)])
def test_what_makes_no_text(tmp_path: Path, pooling: int, task: str | None) -> None:
    path = tmp_path / "vectors.gguf"
    numbers = {"block_count": 1, "context_length": 8192, "embedding_length": 256, "pooling_type": pooling}
    entries = ggufs.model(architecture="qwen3", **numbers)
    head = [ggufs.tensor("cls.output.weight", (8,), 0, 1152)] if task == "rerank" else []
    path.write_bytes(ggufs.gguf(entries, [*ggufs.WEIGHTS, *head], 1184))
    fs = sized("9754")
    result = recommended(fs, str(path), tmp_path)
    (one,) = instances(result)
    assert (one.get("task"), "speculation" in one, "prompt_cache" in one) == (task, not task, not task)
    planned_as_site_would(fs, result["variables"])
    if task:
        assert "nothing can draft for it" in refused(fs, {"model": str(path), "draft": str(path)}, tmp_path)


def test_a_projector_serves_nothing(tmp_path: Path) -> None:
    path = tmp_path / "mmproj.gguf"
    path.write_bytes(ggufs.gguf(ggufs.model(architecture="clip"), ggufs.WEIGHTS, 1152))
    assert "is a projector and serves nothing by itself" in refused(sized("9754"), str(path), tmp_path)
