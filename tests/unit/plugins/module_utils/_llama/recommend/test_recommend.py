# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What is recommended for every shape of machine and every size of model goes through the planner and the roles."""

from __future__ import annotations

import socket
from pathlib import Path
from typing import Any

import pytest
import yaml

from ansible_collections.sovereign.epyc.plugins.module_utils._errors import BadRequest, TuningError
from ansible_collections.sovereign.epyc.plugins.module_utils._io.kernelfs import KernelFS
from ansible_collections.sovereign.epyc.plugins.module_utils._llama.recommend import host_lines
from ansible_collections.sovereign.epyc.plugins.module_utils._llama.recommend import recommend as recommending
from ansible_collections.sovereign.epyc.plugins.module_utils._llama.recommend.recommend import Request, recommend
from ansible_collections.sovereign.epyc.tests.unit.fakes import architectures, ggufs, hosts
from ansible_collections.sovereign.epyc.tests.unit.fakes.architectures import Q4_K
from ansible_collections.sovereign.epyc.tests.unit.fakes.sized_hosts import (
    GIB,
    MEMORY,
    ROOT,
    THP,
    Sized,
    check_text,
    check_variables,
    planned_as_site_would,
    sized,
)

GB = 10**9
#: The five models, and how many whole GiB their weights have in Q4_K.
SIZES = {"dense 8B": 3, "dense 32B": 16, "dense 70B": 35, "moe 30B-A3B": 15, "moe 671B": 350}


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The five models, whose weights are holes."""
    folder = tmp_path_factory.mktemp("models")
    return {name: str(architectures.write(folder / f"{name}-Q4_K_M.gguf", name, Q4_K)) for name in SIZES}


@pytest.fixture(autouse=True)
def all_ports_free(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recommending, "refuse_taken_port", lambda options, ours: None)


def recommended(fs: KernelFS, asked: object, root: Path, **more: Any) -> dict[str, Any]:
    request = Request(**{"folder": "/srv/models", "port": 8080, "binary": None, "timeout": 5, **more})
    return recommend(fs, asked, request, str(root))


def refused(fs: KernelFS, asked: object, root: Path, **more: Any) -> str:
    with pytest.raises(TuningError) as caught:
        recommended(fs, asked, root, **more)
    assert str(caught.value).endswith(".") and "\n" not in str(caught.value)
    return str(caught.value)


def instances(result: dict[str, Any]) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = result["variables"]["llama_instances"]
    return rows


@pytest.mark.parametrize("shape", MEMORY)
@pytest.mark.parametrize("name", SIZES)
def test_every_shape_and_model(models: dict[str, str], tmp_path: Path, shape: str, name: str) -> None:
    fs = sized(shape)
    result = recommended(fs, models[name], tmp_path)
    check_text(result["text"], result["variables"])
    check_variables(result["variables"])
    services = planned_as_site_would(fs, result["variables"])
    assert result["remarks"] == []
    assert [one.need.to_dict() for one in services] == [one["need"] for one in result["services"].values()]
    assert services[0].need.weights // GIB == SIZES[name]
    context = 16384 if (shape, name) == ("9354", "moe 671B") else 32768
    assert [one["context"] for one in instances(result)] == [context] * len(services)
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
    ("gib", "context", "cache"),
    [(384, 32768, "64GiB"), (96, 32768, "8GiB"), (48, 16384, "2GiB"), (42, 4096, "0MiB")],
)
def test_little_memory_gets_less(models: dict[str, str], tmp_path: Path, gib: int, context: int, cache: str) -> None:
    fs = sized("9354", gib)
    result = recommended(fs, models["dense 70B"], tmp_path)
    (one,) = instances(result)
    planned_as_site_would(fs, result["variables"])
    assert (one["context"], one["prompt_cache"]) == (context, cache)
    assert ("A longer one does not fit." in result["text"]) == (context < 32768)


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
    assert one["context"] == 4 * 32768


def test_what_was_trained_for_less(tmp_path: Path) -> None:
    path = tmp_path / "short.gguf"
    path.write_bytes(ggufs.gguf(ggufs.model(block_count=1, context_length=2048), ggufs.WEIGHTS, 1152))
    (one,) = instances(recommended(sized("9754"), str(path), tmp_path))
    assert one["context"] == 2048


# Several models


@pytest.mark.parametrize("shape", MEMORY)
def test_two_models_share_a_host(models: dict[str, str], tmp_path: Path, shape: str) -> None:
    fs = sized(shape)
    result = recommended(fs, [models["dense 70B"], models["moe 30B-A3B"]], tmp_path)
    check_text(result["text"], result["variables"])
    check_variables(result["variables"])
    services = planned_as_site_would(fs, result["variables"])
    cores = [len(one.placement.busy_cpus) for one in services]
    # The dense model reads ten times as much for each token.
    assert cores[0] == cores[1] if shape == "two 7543" else cores[0] > cores[1]
    assert [one["port"] for one in instances(result)] == [8080, 8081]


def test_many_models_get_a_ccd_each(models: dict[str, str], tmp_path: Path) -> None:
    copies = [tmp_path / f"copy-{number}.gguf" for number in range(9)]
    for copy in copies:
        copy.symlink_to(models["dense 8B"])
    paths = list(map(str, copies))
    fs = sized("9754")
    result = recommended(fs, paths[:6], tmp_path)
    assert len(planned_as_site_would(fs, result["variables"])) == 6
    assert sum(len(one["cpus"].split(",")) for one in instances(result)) == 8
    said = refused(fs, paths, tmp_path)
    assert "do not fit beside each other" in said and "on 4 nodes with 8 CCDs" in said


def test_two_large_models_do_not_fit(models: dict[str, str], tmp_path: Path) -> None:
    twin = tmp_path / "twin.gguf"
    twin.symlink_to(models["moe 671B"])
    said = refused(sized("9754", 512), [models["moe 671B"], str(twin)], tmp_path)
    assert "do not fit beside each other: they need at least 35" in said and f"for {twin}" in said


def test_a_large_and_a_small_model_share_by_memory(models: dict[str, str], tmp_path: Path) -> None:
    fs = sized("9754")
    result = recommended(fs, [models["moe 671B"], models["dense 8B"]], tmp_path)
    services = planned_as_site_would(fs, result["variables"])
    assert [one.placement.nodes for one in services] == [(0, 1, 2), (3,)]


def test_two_models_on_one_node_share_its_memory(models: dict[str, str], tmp_path: Path) -> None:
    """The first one has the large prompt cache, and leaves the other what it needs."""
    fs = sized("9655", 160)
    result = recommended(fs, [models["dense 70B"], models["dense 32B"]], tmp_path)
    planned_as_site_would(fs, result["variables"])
    assert [one["prompt_cache"] for one in instances(result)] == ["64GiB", "8GiB"]


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
    assert f"# Drafts {service.wants['draft_max']} tokens at a time" in result["text"]


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
    entries = ggufs.model(architecture="qwen3", block_count=1, context_length=8192, pooling_type=pooling)
    path.write_bytes(ggufs.gguf(entries, ggufs.WEIGHTS, 1152))
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


# The host


def test_l3_domains_that_are_nodes(models: dict[str, str], tmp_path: Path) -> None:
    """A core of each would be an eighth of the host."""
    tree = hosts.shape(tmp_path / "host", "9754", nodes=16)
    for node in range(16):
        text = f"Node {node} MemTotal: {48 * (1 << 20)} kB\nNode {node} MemFree: {46 * (1 << 20)} kB"
        tree.put(f"/sys/devices/system/node/node{node}/meminfo", text)
    tree.put(THP, "always [madvise] never")
    found = recommended(tree.fs, models["dense 8B"], tmp_path)["variables"]
    assert found["plan_housekeeping"] == {"cores": 4, "per": "socket"}


def test_without_cache_allocation(models: dict[str, str], tmp_path: Path) -> None:
    fs = sized("9754", **{"/proc/filesystems": "nodev\tsysfs"})
    result = recommended(fs, models["dense 8B"], tmp_path)
    assert result["variables"]["plan_verify"] == {}
    assert result["variables"]["epyc_steps"] == [layer for layer in host_lines.LAYERS if layer != "cat"]
    assert "Without cat: resctrl is absent" in " ".join(result["text"].replace("# ", " ").split())
    planned_as_site_would(fs, result["variables"])


def test_without_a_boot_loader_that_is_known(models: dict[str, str], tmp_path: Path) -> None:
    fs = sized("9754", **{"/run/ostree-booted": "#"})
    result = recommended(fs, models["dense 8B"], tmp_path)
    assert "grub_params" not in result["variables"]["epyc_steps"]
    assert "grub_params_isolation" not in result["variables"]
    assert "Without grub_params: This host boots by ostree" in " ".join(result["text"].replace("# ", " ").split())


def test_layers_are_those_of_site() -> None:
    (play,) = yaml.safe_load((ROOT / "playbooks/site.yml").read_text())
    assert list(host_lines.LAYERS) == play["vars"]["site_layers"]


def test_without_a_driver_of_frequencies(models: dict[str, str], tmp_path: Path) -> None:
    class Without(Sized):
        def find(self, path: str) -> str | None:
            return None if path.endswith("scaling_driver") else super().find(path)

    fs = sized("9754")
    fs.__class__ = Without
    found = recommended(fs, models["dense 8B"], tmp_path)["variables"]
    assert [found[f"cpufreq_{role}"] for role in ("draft", "verify", "housekeeping")] == [{}, {}, {}]


def test_the_server_that_is_there(models: dict[str, str], tmp_path: Path) -> None:
    program = tmp_path / "llama-server"
    fs = sized("9754")
    (said,) = recommended(fs, models["dense 8B"], tmp_path, binary=str(program))["remarks"]
    assert said.startswith(f"There is no {program} on this host.")
    program.touch()
    result = recommended(fs, models["dense 8B"], tmp_path, binary=str(program))
    assert result["remarks"] == []
    assert result["variables"]["llama_binary"] == str(program)
    assert result["variables"]["llama_install"] == "binary"


def test_instances_that_would_go(models: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Their memory is free by then, and so is their port."""
    monkeypatch.setattr(recommending, "installed_units", lambda root: {"old": "", "stopped": ""})
    monkeypatch.setattr(recommending, "running", lambda names: ["old"])
    held: list[tuple[dict[int, int], dict[tuple[int, int], int]]] = [(dict.fromkeys(range(4), 8 * GIB), {})]
    monkeypatch.setattr(recommending, "held_by", lambda host, name: held)
    result = recommended(sized("9354", 40), models["dense 70B"], tmp_path)
    (said,) = result["remarks"]
    assert said.startswith("llama-old.service, llama-stopped.service: installed on this host")
    held.clear()
    assert "does not fit" in refused(sized("9354", 40), models["dense 70B"], tmp_path)


def test_ports_that_others_have(models: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        result = recommended(sized("9754"), models["dense 8B"], tmp_path, port=port)
        assert instances(result)[0]["port"] > port
    monkeypatch.setattr(recommending, "refuse_taken_port", _taken)
    assert "port: other programs have all ports from 8080 on" in refused(sized("9754"), models["dense 8B"], tmp_path)


def _taken(options: object, ours: object) -> None:
    raise BadRequest("taken.")


def test_names_of_instances(tmp_path: Path) -> None:
    paths = [
        "/a/Llama-3.1 70B_Q4.K.gguf",
        "/b/llama-3.1-70b_q4.k.gguf",
        "/c/R1-00001-of-00003.gguf",
        "/d/...gguf",
        "/e/x-rpc.gguf",
        f"/f/{'long' * 20}.gguf",
    ]
    names = recommending._names(paths)
    assert names == ["llama-3-1-70b_q4-k", "llama-3-1-70b_q4-k-2", "r1", "model", "x-rpc-model", "long" * 9]


# Bad requests


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ([], "models is empty: name at least one model"),
        ("", "models is empty: name at least one model"),
        (None, "models is empty: name at least one model"),
        (5, "models: model is 5; say the path of a GGUF file on the host, or its URL."),
        ([["x"]], "models: model is ['x']; say the path"),
        ({"model": "/x", "size": 5}, "models: a model has no 'size'; it takes model, draft, checksum"),
        ({"draft": "/x"}, "models: model is ''; say the path"),
        ({"model": "/x", "context": 0}, "models: context is 0; say a whole number from 1 up."),
        ({"model": "/x", "slots": True}, "models: slots is True; say a whole number from 1 up."),
        ({"model": "/x", "checksum": [5]}, "models: checksum is [5]; say a list with sha256:HEX for each file."),
        ({"model": "/x", "draft_checksum": "x"}, "draft_checksum is given without a draft."),
        ({"model": "/x", "checksum": "x"}, "is on the host already, so its checksum is not asked for."),
        (["/x", "/x"], "models: /x is named twice."),
        ("/srv/{{ x }}.gguf", "with signs that Ansible takes for a template"),
        ("/srv/a\nb.gguf", "or that no unit file can hold"),
        ("models/x.gguf", "'models/x.gguf' is neither a URL nor a whole path"),
        ("/srv/nowhere.gguf", "/srv/nowhere.gguf cannot be read: No such file or directory."),
        ("/etc/passwd", "/etc/passwd is not a GGUF file."),
        ("ftp://127.0.0.1/x.gguf", "say one that begins with https:// or http://."),
    ],
)
def test_bad_requests(tmp_path: Path, asked: object, words: str) -> None:
    assert words in refused(sized("9754"), asked, tmp_path)


def test_a_folder_that_is_no_path(tmp_path: Path) -> None:
    assert "folder is 'models'" in refused(sized("9754"), "/x", tmp_path, folder="models")


def test_a_header_that_is_cut(tmp_path: Path) -> None:
    path = tmp_path / "cut.gguf"
    path.write_bytes(ggufs.WHOLE[:500])
    assert "is truncated or damaged" in refused(sized("9754"), str(path), tmp_path)
