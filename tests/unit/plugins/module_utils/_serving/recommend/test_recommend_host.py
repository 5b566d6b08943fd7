# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What is recommended for a host that lacks a layer, and for one that has instances and ports in use."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest
import yaml

from ansible_collections.sovereign.epyc.plugins.module_utils._errors import BadRequest
from ansible_collections.sovereign.epyc.plugins.module_utils._serving.recommend import (
    host_variables,
    memory_for_instances,
)
from ansible_collections.sovereign.epyc.plugins.module_utils._serving.recommend import recommend as recommending
from ansible_collections.sovereign.epyc.tests.unit.fakes import hosts
from ansible_collections.sovereign.epyc.tests.unit.fakes.recommendations import (
    free_all_ports,
    instances,
    recommended,
    refused,
)
from ansible_collections.sovereign.epyc.tests.unit.fakes.sized_hosts import (
    GIB,
    ROOT,
    THP,
    Sized,
    planned_as_site_would,
    sized,
)


@pytest.fixture(autouse=True)
def all_ports_free(monkeypatch: pytest.MonkeyPatch) -> None:
    free_all_ports(monkeypatch)


def test_l3_domains_that_are_nodes(models: dict[str, str], tmp_path: Path) -> None:
    """A core of each would be an eighth of the host, so one of the socket is kept."""
    tree = hosts.shape(tmp_path / "host", "9754", nodes=16)
    for node in range(16):
        text = f"Node {node} MemTotal: {48 * (1 << 20)} kB\nNode {node} MemFree: {46 * (1 << 20)} kB"
        tree.put(f"/sys/devices/system/node/node{node}/meminfo", text)
    tree.put(THP, "always [madvise] never")
    found = recommended(tree.fs, models["dense 8B"], tmp_path)["variables"]
    assert found["epyc_plan_housekeeping"] == {"cores": 1, "per": "socket"}


def test_without_cache_allocation(models: dict[str, str], tmp_path: Path) -> None:
    fs = sized("9754", **{"/proc/filesystems": "nodev\tsysfs"})
    result = recommended(fs, models["dense 8B"], tmp_path)
    assert result["variables"]["epyc_plan_verify"] == {}
    assert result["variables"]["epyc_steps"] == [layer for layer in host_variables.LAYERS if layer != "cat"]
    assert "Without cat: resctrl is absent" in " ".join(result["text"].replace("# ", " ").split())
    planned_as_site_would(fs, result["variables"])


def test_without_a_boot_loader_that_is_known(models: dict[str, str], tmp_path: Path) -> None:
    fs = sized("9754", **{"/run/ostree-booted": "#"})
    result = recommended(fs, models["dense 8B"], tmp_path)
    assert "grub_params" not in result["variables"]["epyc_steps"]
    assert "epyc_grub_params_isolation" not in result["variables"]
    assert "Without grub_params: This host boots by ostree" in " ".join(result["text"].replace("# ", " ").split())


def test_layers_are_those_of_site() -> None:
    (play,) = yaml.safe_load((ROOT / "playbooks/site.yml").read_text())
    assert list(host_variables.LAYERS) == play["vars"]["epyc_site_layers"]


def test_without_a_driver_of_frequencies(models: dict[str, str], tmp_path: Path) -> None:
    class Without(Sized):
        def read_if_present(self, path: str) -> str | None:
            return None if path.endswith("scaling_driver") else super().read_if_present(path)

    fs = sized("9754")
    fs.__class__ = Without
    found = recommended(fs, models["dense 8B"], tmp_path)["variables"]
    assert [found[f"epyc_cpufreq_{role}"] for role in ("draft", "verify", "housekeeping")] == [{}, {}, {}]


def test_the_server_that_is_there(models: dict[str, str], tmp_path: Path) -> None:
    program = tmp_path / "llama-server"
    fs = sized("9754")
    (said,) = recommended(fs, models["dense 8B"], tmp_path, binary=str(program))["remarks"]
    assert said.startswith(f"There is no {program} on this host.")
    program.touch()
    result = recommended(fs, models["dense 8B"], tmp_path, binary=str(program))
    assert result["remarks"] == []
    assert result["variables"]["epyc_llama_binary"] == str(program)
    assert result["variables"]["epyc_llama_install"] == "binary"


def test_instances_that_would_go(models: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Their memory is free by then, and so is their port."""
    monkeypatch.setattr(recommending, "read_instance_unit_texts", lambda root: {"old": "", "stopped": ""})
    monkeypatch.setattr(recommending, "find_running_instances", lambda names: ["old"])
    held: list[tuple[dict[int, int], dict[tuple[int, int], int]]] = [(dict.fromkeys(range(4), 8 * GIB), {})]
    monkeypatch.setattr(memory_for_instances, "list_memory_of_instance", lambda host, name: held)
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
    monkeypatch.setattr(recommending, "require_free_port", _taken)
    assert "port: other programs have all ports from 8080 on" in refused(sized("9754"), models["dense 8B"], tmp_path)


def _taken(fs: object, options: object, ours: object) -> None:
    raise BadRequest("taken.")
