# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What is refused before any instance is touched, and what several of them have to share."""

from __future__ import annotations

import copy
import os
import socket
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ansible_collections.sovereign.epyc.plugins.module_utils._errors import BadRequest, TuningError
from ansible_collections.sovereign.epyc.plugins.module_utils._host.host import Host
from ansible_collections.sovereign.epyc.plugins.module_utils._io import sandbox, textfile
from ansible_collections.sovereign.epyc.plugins.module_utils._io.command import CommandResult
from ansible_collections.sovereign.epyc.plugins.module_utils._io.kernelfs import KernelFS
from ansible_collections.sovereign.epyc.plugins.module_utils._kernel import tcp_sockets
from ansible_collections.sovereign.epyc.plugins.module_utils._knobs.protocol.knob import Knob
from ansible_collections.sovereign.epyc.plugins.module_utils._serving.llama_cpp import probe
from ansible_collections.sovereign.epyc.plugins.module_utils._serving.llama_cpp.engine import LlamaEngine
from ansible_collections.sovereign.epyc.plugins.module_utils._serving.options.options import Options
from ansible_collections.sovereign.epyc.plugins.module_utils._serving.plan.instance_plan import (
    InstancePlan,
    MemoryNeed,
    Placement,
)
from ansible_collections.sovereign.epyc.plugins.module_utils._serving.plan.memory.free_memory import FreeMemory
from ansible_collections.sovereign.epyc.plugins.module_utils._serving.unit import instances, refusals
from ansible_collections.sovereign.epyc.plugins.module_utils._serving.unit import shared_host as planning
from ansible_collections.sovereign.epyc.plugins.module_utils._serving.unit.instance import Instance
from ansible_collections.sovereign.epyc.plugins.module_utils._serving.unit.instances import Purge
from ansible_collections.sovereign.epyc.plugins.module_utils._serving.update.restart import Restart
from ansible_collections.sovereign.epyc.tests.unit.fakes import ggufs, services
from ansible_collections.sovereign.epyc.tests.unit.fakes.llama_servers import server

ASKED = {"name": "chat", "binary": "/opt/llama-server", "model": "/srv/model.gguf"}
GIB = 1 << 30
FS = KernelFS(read_only=True)


@pytest.fixture(autouse=True)
def without_walls(monkeypatch: pytest.MonkeyPatch) -> None:
    """There is no systemd here that could raise them."""
    attempt = sandbox.run_in_sandbox
    monkeypatch.setattr(sandbox, "run_in_sandbox", lambda walls, words, seconds: attempt(None, words, seconds))


@pytest.fixture
def port() -> Iterator[int]:
    """A port on which this process listens."""
    server = socket.create_server(("127.0.0.1", 0))
    number: int = server.getsockname()[1]
    with server:
        yield number


def test_a_port_that_another_has_is_refused(port: int) -> None:
    with pytest.raises(BadRequest, match=rf"port {port} of 127\.0\.0\.1 is taken by another program; 'ss -ltnp'"):
        refusals.require_free_port(FS, Options.parse({**ASKED, "port": port}), [])


def test_the_port_of_a_unit_that_ends_before_is_free(port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever has the port is known by the control group of the process, not by what a unit says of itself."""
    processes = {"llama-chat.service": [os.getpid()], "llama-other.service": [os.getppid()]}
    monkeypatch.setattr(tcp_sockets, "list_processes", lambda fs, unit: processes[unit])
    options = Options.parse({**ASKED, "port": port})
    refusals.require_free_port(FS, options, list(processes))
    with pytest.raises(BadRequest, match="is taken by another program"):
        refusals.require_free_port(FS, options, ["llama-other.service"])


def test_a_port_at_which_only_ended_connections_are_left_is_free(port: int) -> None:
    """A start waits for them; see the hook port."""
    with socket.socket() as server:
        server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        server.bind(("127.0.0.1", 0))
        server.listen()
        ended = server.getsockname()[1]
        with socket.create_connection(("127.0.0.1", ended)):
            server.accept()[0].close()
    refusals.require_free_port(FS, Options.parse({**ASKED, "port": ended}), [])


def test_an_address_of_another_host_is_refused() -> None:
    with pytest.raises(BadRequest, match=r"host 192\.0\.2\.1: .* Give an address of this host\."):
        refusals.require_free_port(FS, Options.parse({**ASKED, "port": 8080, "host": "192.0.2.1"}), [])


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ({"binary": "/usr/bin/false"}, "Instance chat: /usr/bin/false does not answer to --help, exit code 1"),
        ({"binary": "/none"}, "there is no /none"),
        ({"port": 80}, "Instance chat: port is '80'; say a whole number from 1024 to 65535."),
        ({"user": "nobody-here"}, "Instance chat: There is no user nobody-here. Make one, or leave user out."),
        ({"name": "chat-rpc"}, "names that end in -rpc are reserved for the units of drafts"),
    ],
)
def test_what_cannot_be_is_refused_first(asked: dict[str, object], words: str) -> None:
    with pytest.raises(TuningError) as caught:
        instances.build_knobs(
            LlamaEngine(), Host(KernelFS(read_only=True)), [{**ASKED, "port": 8080, **asked}], Purge()
        )
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
    monkeypatch.setattr(probe, "probe_capabilities", lambda binary, walls: binary)
    asked = {**ASKED, "port": 8080}
    with pytest.raises(BadRequest) as caught:
        instances.build_knobs(LlamaEngine(), Host(KernelFS(read_only=True)), [asked, {**asked, **second}], Purge())
    assert words in str(caught.value)


# What is tried, and when


class Tries:
    """A host on which an instance runs as it was planned, and what of a new plan is tried there."""

    def __init__(self, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.root = root
        self.server = copy.copy(server("b11434"))
        self.server.files = {"/opt/llama-server": [1, 1]}
        self.tried: list[str] = []
        self.restarts: list[dict[str, Any]] = []
        self.active = "active"
        self.check = True
        self.said = CommandResult(0, "", "")
        self.model = ggufs.servable(root / "m.gguf")
        self.keys = root / "keys"
        self.keys.write_text("secret\n")
        put = monkeypatch.setattr
        put(planning, "read_unit_properties", lambda names: {name: {"ActiveState": self.active} for name in names})
        put(instances, "list_memory_of_instance", lambda host, name, row: [])
        put(instances, "plan_instance_among_others", lambda engine, host, options, *others: self.planned(options))
        # The memory is enough for two servers, new connections can be handed over, and a start takes 95 s.
        put(
            instances.start_first,
            "plan_instance_among_others",
            lambda engine, host, options, *more: self.planned(options),
        )
        put(instances.Handover, "redirection_impossible_reason", lambda handover: "")
        put(instances, "estimate_start_seconds", lambda *dummy: 95)
        put(instances, "require_free_port", lambda fs, options, units: None)
        put(probe, "probe_capabilities", lambda binary, walls: self.server)
        put(probe, "require_accepted_arguments", lambda binary, arguments, walls, folders: self.tried.append("dry run"))
        put(probe, "try_to_compute_one_token", lambda binary, server, walls: self.tried.append("token") or ["slow"])
        put(refusals.sandbox, "run_in_sandbox", lambda walls, words, seconds: self.tried.append("read") or self.said)

    def planned(self, options: Options) -> InstancePlan:
        seat = Placement([1], [0, 1], [0, 1], "interleave", "")
        wants = {"model": self.model.path, "load": "mmap", "port": options.port, "context": options.context}
        return InstancePlan(options, seat, MemoryNeed(1, 2, 3), wants, None, [self.model], [], {"nodes": "0-1"}, [])

    def knobs(self, *more: dict[str, object], **asked: object) -> list[Knob]:
        """Plan it again; return the knobs, and have ``tried`` hold what was tried."""
        self.tried = []
        one = {"name": "chat", "binary": "/opt/llama-server", "model": self.model.path, "port": 8080}
        host = Host(KernelFS(str(self.root), read_only=self.check))
        every = [{**one, **asked}, *({**one, **other} for other in more)]
        knobs = instances.build_knobs(LlamaEngine(), host, every, Purge(), str(self.root))
        self.restarts = knobs[-1].module_facts()["restarts"]
        return knobs

    def install(self, **asked: object) -> None:
        for knob in self.knobs(**asked):
            for path, text in knob.files.items() if isinstance(knob, Instance) else ():
                textfile.write_file(textfile.path_in_tree(str(self.root), path), text)


@pytest.fixture
def tries(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Tries:
    return Tries(tmp_path, monkeypatch)


ALL = ["read", "dry run", "token"]


def test_what_runs_is_tried_only_before_it_is_started_again(tries: Tries) -> None:
    tries.install()
    assert tries.tried == ALL
    tries.knobs()
    assert tries.tried == [], "it is what runs"
    tries.knobs(drain_timeout=5)
    assert tries.tried == [], "it goes on running"
    tries.knobs(port=8081)
    assert tries.tried == ALL, "other arguments"
    tries.server.files = {"/opt/llama-server": [1, 2]}
    tries.knobs()
    assert tries.tried == ALL, "another program"
    tries.install()
    tries.active = "failed"
    tries.knobs()
    assert tries.tried == ALL, "it does not run"


def test_instances_that_name_their_cpus_are_planned_before_those_that_choose_a_socket(tries: Tries) -> None:
    knobs = tries.knobs({"name": "fixed", "port": 8081, "cpus": "0-1"}, {"name": "last", "port": 8082})
    facts: Any = knobs[-1].module_facts()
    assert list(facts["services"]) == ["fixed", "chat", "last"]


def test_an_instance_that_is_being_started_is_waited_for(tries: Tries, monkeypatch: pytest.MonkeyPatch) -> None:
    tries.install()
    pauses: list[float] = []

    def sleep(seconds: float) -> None:
        pauses.append(seconds)
        tries.active = "active" if len(pauses) == 3 else tries.active

    monkeypatch.setattr(planning.time, "sleep", sleep)
    monkeypatch.setattr(instances, "require_host_tool", lambda root: None)
    monkeypatch.setattr(instances, "describe_start_of_unit", lambda unit, plan: f"{unit} is being started")
    tries.active = "activating"
    (knob, dummy) = tries.knobs()
    told = "llama-chat.service is being started. A run that is no check waits until it serves."
    assert (knob.list_remarks(), pauses, tries.tried) == ([told], [], [])
    tries.check = False
    (knob, dummy) = tries.knobs()
    assert (knob.list_remarks(), len(pauses), tries.tried) == ([], 3, [])


def test_an_instance_that_changes_while_it_is_started_is_not_waited_for(
    tries: Tries, monkeypatch: pytest.MonkeyPatch
) -> None:
    tries.install()
    monkeypatch.setattr(instances, "require_host_tool", lambda root: None)
    monkeypatch.setattr(instances, "describe_start_of_unit", lambda unit, plan: f"{unit} is being started")
    tries.active, tries.check = "activating", False
    (knob, dummy) = tries.knobs(port=8081)
    assert "llama-chat.service is being started. It is stopped, because the instance changes." in knob.list_remarks()


def test_a_start_that_never_ends_is_an_error(tries: Tries, monkeypatch: pytest.MonkeyPatch) -> None:
    tries.active = "activating"
    clock = SimpleNamespace(now=0.0)
    clock.monotonic = lambda: clock.now
    clock.sleep = lambda seconds: setattr(clock, "now", clock.now + 100)
    plan = tries.planned(Options.parse({**ASKED, "port": 8080}))
    with pytest.raises(TuningError, match=r"llama-chat\.service has not started after \d+ s\. 'systemctl list-jobs'"):
        planning.wait_for_changing_units([plan], clock)


def test_of_each_binary_one_token_is_enough(tries: Tries) -> None:
    tries.active = "inactive"
    knobs = tries.knobs({"name": "code", "port": 8081})
    assert tries.tried == [*ALL, "read", "dry run"]
    assert [knob.list_remarks() for knob in knobs[:-1]] == [["slow"], ["slow"]]


def test_keys_that_are_missing_or_open_a_server_are_refused_before_it_is_touched(tries: Tries) -> None:
    tries.install(api_key_file=str(tries.keys))
    tries.keys.write_text("# none yet\n")
    with pytest.raises(TuningError, match=f"Instance chat: The key file {tries.keys} holds no key, so that everyone"):
        tries.knobs(api_key_file=str(tries.keys))
    tries.keys.unlink()
    with pytest.raises(TuningError, match=f"Instance chat: The key file {tries.keys} cannot be read"):
        tries.knobs(api_key_file=str(tries.keys))
    assert tries.tried == []


def test_a_comment_is_a_key_to_an_old_server(tries: Tries) -> None:
    tries.keys.write_text("# of the team\nsecret\n")
    tries.knobs(api_key_file=str(tries.keys))
    tries.server = server("b9093")
    with pytest.raises(BadRequest, match=r"has lines that begin with #, and llama-server \(.*9093\) takes"):
        tries.knobs(api_key_file=str(tries.keys))


def test_keys_that_were_rotated_change_the_unit(tries: Tries) -> None:
    asked = {"api_key_file": str(tries.keys)}
    tries.install(**asked)
    text = tries.root / "etc/systemd/system/llama-chat.service"
    before = text.read_text()
    tries.install(**asked)
    assert text.read_text() == before and "secret" not in before
    tries.keys.write_text("another\n")
    os.utime(tries.keys, ns=(1, 1))
    tries.install(**asked)
    assert text.read_text() != before and tries.tried == ALL


def test_settings_that_systemd_does_not_take_are_refused_before_it_is_touched(tries: Tries) -> None:
    with pytest.raises(BadRequest, match="Instance chat: unit_settings: systemd does not take them: 'MemoryMax=64Q'"):
        tries.knobs(unit_settings={"MemoryMax": "64Q"})
    assert tries.tried == []


def test_a_file_that_the_unit_cannot_read_is_refused_with_what_bars_it(tries: Tries) -> None:
    tries.said = CommandResult(1, "", f"head: cannot open '{tries.model.path}' for reading: Permission denied\n")
    tries.root.chmod(0o755)
    os.chmod(tries.model.path, 0o644)
    words = "The unit cannot read its model, though the modes of .* allow it: head: cannot open .* lists of access"
    with pytest.raises(BadRequest, match=words):
        tries.knobs()
    tries.root.chmod(0o700)
    with pytest.raises(
        BadRequest, match=f"{tries.root} cannot be entered by the user that systemd makes for it. Change"
    ):
        tries.knobs()
    assert tries.tried == ["read"]
    with pytest.raises(BadRequest, match=f"{tries.root} cannot be entered by user daemon. Change"):
        tries.knobs(user="daemon")


def test_variables_of_the_users_own_are_looked_at(tries: Tries) -> None:
    with pytest.raises(BadRequest, match="Instance chat: extra_environment: LLAMA_API_KEY would put a secret"):
        tries.knobs(extra_environment={"LLAMA_API_KEY": "a-secret"})


def test_how_fast_the_model_comes_is_measured_before_a_start(tries: Tries, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was found holds until the next one, so that a second run changes nothing."""
    speeds: list[float | None] = [30e6, 90e6]
    monkeypatch.setattr(instances.read_speed, "measure_direct_read_speed", lambda path: speeds.pop(0))
    tries.model.parts[0].size = 10**9
    unit = tries.root / "etc/systemd/system/llama-chat.service"
    tries.install()
    first = unit.read_text()
    assert "\nTimeoutStartSec=430\n" in first, "300, 100 for the model at 10 MB/s, and 30"
    (knob, dummy) = tries.knobs()
    assert speeds == [90e6] and isinstance(knob, Instance) and first in knob.files.values()
    assert "come at less than 100 MB/s, so that a start may take 400 s" in " ".join(knob.list_remarks())
    tries.install(port=8081)
    assert speeds == [] and "\nTimeoutStartSec=380\n" in unit.read_text()


def planned_restart(tries: Tries, **asked: object) -> Restart | None:
    (knob,) = (knob for knob in tries.knobs(**asked) if isinstance(knob, Instance))
    assert (knob.next_server is not None) == (knob.restart is not None and knob.restart.order == "start_first")
    assert [restart["message"] for restart in tries.restarts] == (
        [knob.restart.format_message()] if knob.restart else []
    )
    return knob.restart


def test_what_runs_is_stopped_last_where_both_fit(tries: Tries) -> None:
    tries.install()
    assert planned_restart(tries) is None, "it is what runs"
    assert planned_restart(tries, drain_timeout=5) is None, "it needs no restart"
    restart = planned_restart(tries, context=512)
    assert restart and (restart.order, restart.announced_seconds) == ("start_first", 0)
    assert restart.format_message() == (
        "llama-chat.service needs a restart; nobody notices: the new server is started first."
    )
    tries.active = "failed"
    assert planned_restart(tries, context=512) is None, "nothing runs"


def test_why_somebody_notices_a_restart_is_said_before_it(tries: Tries, monkeypatch: pytest.MonkeyPatch) -> None:
    tries.install()

    def message(order: str, *more: dict[str, object], **asked: object) -> str:
        knob = next(knob for knob in tries.knobs(*more, **asked) if isinstance(knob, Instance) and knob.restart)
        assert knob.restart and (knob.restart.order, knob.restart.announced_seconds) == (order, 95)
        text = knob.restart.format_message()
        assert text.startswith(
            "llama-chat.service needs a restart; nobody is served for about 95 s, and up to 5 s more"
        )
        assert text in knob.list_remarks()
        return text

    assert message("stop_first", context=512, update_order="stop_first").endswith("while its last requests end.")
    assert "a hugetlbfs holds one copy" in message("stop_first", context=512, hugepages="hugetlbfs")
    monkeypatch.setattr(instances.systemd_verify, "require_valid_units", lambda files: None)
    folder = {"context": 512, "unit_settings": {"StateDirectory": "mine"}}
    assert "because /var/lib/mine in unit_settings is for one server" in message("stop_first", **folder)
    assert "because chat-next is another instance" in message(
        "stop_first", {"name": "chat-next", "port": 8082}, context=512
    )
    assert "The port changes" in message("start_first", port=8081)
    monkeypatch.setattr(instances.Handover, "redirection_impossible_reason", lambda handover: "Install nftables.")
    assert message("start_first", context=512).endswith("Install nftables.")

    def full(*dummy: object) -> None:
        raise BadRequest("The instance needs 9 GiB.")

    monkeypatch.setattr(instances.start_first, "plan_instance_among_others", full)
    assert message("stop_first", context=512).endswith("for want of room. The instance needs 9 GiB.")


def test_the_new_server_is_only_tried_where_it_does_not_fit_beside_itself(
    tries: Tries, monkeypatch: pytest.MonkeyPatch
) -> None:
    tries.install()

    def plan(
        engine: object,
        host: object,
        options: Options,
        capabilities: object,
        held: object,
        before: list[InstancePlan],
        *_: object,
    ) -> InstancePlan:
        if before:
            raise BadRequest("The instance needs 9 GiB.")
        return tries.planned(options)

    monkeypatch.setattr(instances, "plan_instance_among_others", plan)
    restart = planned_restart(tries, context=512)
    assert restart and restart.announced_seconds == 95
    assert "memory does not suffice for two of it. The instance needs 9 GiB." in restart.format_message()


# Memory


def planned(**asked: object) -> InstancePlan:
    """An instance with 4 GiB of weights and 2 GiB beside them on nodes 0 and 1."""
    options = Options.parse({**ASKED, "port": 8080, **asked})
    seat = Placement([1], [0, 1], [0, 1], "interleave", "")
    return InstancePlan(options, seat, MemoryNeed(4 * GIB, GIB, GIB), {}, None, [], [], {}, [])


def test_an_instance_that_is_planned_takes_its_memory() -> None:
    free = FreeMemory({0: 10 * GIB, 1: 10 * GIB, 2: 10 * GIB})
    planning._reserve_memory_of_earlier_instance(free, planned())
    assert free.available == {0: 7 * GIB, 1: 7 * GIB, 2: 10 * GIB}


def test_every_process_of_a_running_instance_gives_its_memory_back(tmp_path: Path) -> None:
    tree = services.Service(tmp_path).tree
    tree.put("/proc/200/numa_maps", "7f0000000000 default heap anon=512 dirty=512 N1=512 kernelpagesize_kB=4")
    tree.put("/proc/200/smaps_rollup", services.ROLLUP.rstrip())
    memory, dummy = zip(*planning._list_memory_of_unit(Host(tree.fs), "llama.service"))
    assert len(memory) == 1
    tree.put(f"{services.UNIT}/cgroup.procs", "100\n200")
    both, dummy = zip(*planning._list_memory_of_unit(Host(tree.fs), "llama.service"))
    assert both == (memory[0], {1: 512 * 4096})


def test_an_instance_in_a_pool_takes_its_pages() -> None:
    free = FreeMemory({0: 10 * GIB, 1: 10 * GIB}, {(0, 2048): 4000, (1, 2048): 4000})
    planning._reserve_memory_of_earlier_instance(free, planned(hugepages="pool"))
    assert free.available == {0: 10 * GIB, 1: 10 * GIB}
    assert free.free == {(0, 2048): 4000 - 1536, (1, 2048): 4000 - 1536}


def test_a_staged_instance_takes_pages_for_what_is_not_there_yet(tmp_path: Path) -> None:
    service = planned(hugepages="hugetlbfs")
    for name in ("new", "old"):
        (tmp_path / name).write_bytes(bytes(4 << 20))
    (tmp_path / "staged").touch()
    service.staged = {str(tmp_path / "new"): str(tmp_path / "none"), str(tmp_path / "old"): str(tmp_path / "staged")}
    free = FreeMemory({0: 10 * GIB, 1: 10 * GIB}, {(0, 2048): 100, (1, 2048): 100}, hugetlbfs_kb=2048)
    planning._reserve_memory_of_earlier_instance(free, service)
    assert free.available == {0: 9 * GIB, 1: 9 * GIB}
    assert free.free == {(0, 2048): 99, (1, 2048): 99}
