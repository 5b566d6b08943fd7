# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What is refused before any instance is touched, and what several of them have to share."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from ansible_collections.sovereign.epyc.plugins.module_utils._errors import BadRequest, TuningError
from ansible_collections.sovereign.epyc.plugins.module_utils._host.host import Host
from ansible_collections.sovereign.epyc.plugins.module_utils._io.kernelfs import KernelFS
from ansible_collections.sovereign.epyc.plugins.module_utils._llama.plan.memory import FreeMemory, Need
from ansible_collections.sovereign.epyc.plugins.module_utils._llama.plan.options import Options
from ansible_collections.sovereign.epyc.plugins.module_utils._llama.plan.service import Placement, Service
from ansible_collections.sovereign.epyc.plugins.module_utils._llama.unit import instances, refusals
from ansible_collections.sovereign.epyc.plugins.module_utils._llama.unit import planned as planning
from ansible_collections.sovereign.epyc.tests.unit.fakes import services

ASKED = {"name": "chat", "binary": "/opt/llama-server", "model": "/srv/model.gguf"}
GIB = 1 << 30


@pytest.fixture
def port() -> Iterator[int]:
    """A port on which this process listens."""
    server = socket.create_server(("127.0.0.1", 0))
    number: int = server.getsockname()[1]
    with server:
        yield number


def test_a_port_that_another_has_is_refused(port: int) -> None:
    with pytest.raises(BadRequest, match=rf"port {port} of 127\.0\.0\.1 is taken by another program; 'ss -ltnp'"):
        refusals.refuse_taken_port(Options.parse({**ASKED, "port": port}), [])


def test_a_port_that_the_instance_has_itself_is_not_taken(port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    options = Options.parse({**ASKED, "port": port})
    monkeypatch.setattr(refusals.textfile, "read", lambda path: f"ExecStart=x --port {port} --slots\n")
    refusals.refuse_taken_port(options, ["chat"])
    monkeypatch.setattr(refusals.textfile, "read", lambda path: "ExecStart=x --port 1 --slots\n")
    with pytest.raises(BadRequest, match="is taken by another program"):
        refusals.refuse_taken_port(options, ["chat"])


def test_an_address_of_another_host_is_refused() -> None:
    with pytest.raises(BadRequest, match=r"host 192\.0\.2\.1: .* Say an address of this host\."):
        refusals.refuse_taken_port(Options.parse({**ASKED, "port": 8080, "host": "192.0.2.1"}), [])


def test_a_port_that_begins_alike_is_not_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(refusals.textfile, "read", lambda path: "ExecStart=x --port 12345 --slots\n")
    assert refusals._has_port("chat", 12345)
    assert not refusals._has_port("chat", 1234)


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ({"binary": "/usr/bin/false"}, "Instance chat: /usr/bin/false does not answer to --help, exit code 1"),
        ({"binary": "/none"}, "there is no /none"),
        ({"port": 80}, "Instance chat: port is '80'; say a whole number from 1024 to 65535."),
        ({"name": "chat-rpc"}, "names that end in -rpc are reserved for the units of drafts"),
    ],
)
def test_what_cannot_be_is_refused_first(asked: dict[str, object], words: str) -> None:
    with pytest.raises(TuningError) as caught:
        instances.knobs_of(Host(KernelFS(read_only=True)), [{**ASKED, "port": 8080, **asked}], False)
    assert words in str(caught.value)


@pytest.mark.parametrize(
    ("second", "words"),
    [
        ({}, "Two instances have the name chat."),
        ({"name": "code"}, "Instances chat and code both have port 8080."),
        (
            {"name": "code", "port": 8081, "speculation": "draft", "draft_model": "/d", "rpc_port": 8080},
            "Instances chat and code both have port 8080.",
        ),
    ],
)
def test_what_two_cannot_have(second: dict[str, object], words: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(instances.server_probe, "capabilities", lambda binary: binary)
    asked = {**ASKED, "port": 8080}
    with pytest.raises(BadRequest) as caught:
        instances.knobs_of(Host(KernelFS(read_only=True)), [asked, {**asked, **second}], False)
    assert words in str(caught.value)


# Memory


def planned(**asked: object) -> Service:
    """An instance with 4 GiB of weights and 2 GiB beside them on nodes 0 and 1."""
    options = Options.parse({**ASKED, "port": 8080, **asked})
    seat = Placement([1], [0, 1], [0, 1], "interleave", "")
    return Service(options, seat, Need(4 * GIB, GIB, GIB), {}, None, [], [], {}, [])


def test_an_instance_that_is_planned_takes_its_memory() -> None:
    free = FreeMemory({0: 10 * GIB, 1: 10 * GIB, 2: 10 * GIB})
    planning._reserve(free, planned())
    assert free.available == {0: 7 * GIB, 1: 7 * GIB, 2: 10 * GIB}


def test_every_process_of_a_running_instance_gives_its_memory_back(tmp_path: Path) -> None:
    tree = services.Service(tmp_path).tree
    tree.put("/proc/200/numa_maps", "7f0000000000 default heap anon=512 dirty=512 N1=512 kernelpagesize_kB=4")
    tree.put("/proc/200/smaps_rollup", services.ROLLUP.rstrip())
    memory, dummy = zip(*planning.held_by(Host(tree.fs), "llama.service"))
    assert len(memory) == 1
    tree.put(f"{services.UNIT}/cgroup.procs", "100\n200")
    both, dummy = zip(*planning.held_by(Host(tree.fs), "llama.service"))
    assert both == (memory[0], {1: 512 * 4096})


def test_an_instance_in_a_pool_takes_its_pages() -> None:
    free = FreeMemory({0: 10 * GIB, 1: 10 * GIB}, {(0, 2048): 4000, (1, 2048): 4000})
    planning._reserve(free, planned(hugepages="pool"))
    assert free.available == {0: 10 * GIB, 1: 10 * GIB}
    assert free.free == {(0, 2048): 4000 - 1536, (1, 2048): 4000 - 1536}


def test_a_staged_instance_takes_pages_for_what_is_not_there_yet(tmp_path: Path) -> None:
    service = planned(hugepages="hugetlbfs")
    for name in ("new", "old"):
        (tmp_path / name).write_bytes(bytes(4 << 20))
    (tmp_path / "staged").touch()
    service.staged = {str(tmp_path / "new"): str(tmp_path / "none"), str(tmp_path / "old"): str(tmp_path / "staged")}
    free = FreeMemory({0: 10 * GIB, 1: 10 * GIB}, {(0, 2048): 100, (1, 2048): 100}, hugetlbfs_kb=2048)
    planning._reserve(free, service)
    assert free.available == {0: 9 * GIB, 1: 9 * GIB}
    assert free.free == {(0, 2048): 99, (1, 2048): 99}
