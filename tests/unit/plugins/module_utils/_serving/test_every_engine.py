# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""One life of an instance, the same for every engine: start, wait, drain, update, failed update, drift, check,
benchmark, roll behind a gateway, and removal.

Servers and systemd are stand-ins; tests/service has the real ones.
"""

from __future__ import annotations

import shlex
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.sovereign.epyc.plugins.module_utils._bench.load.answer import fetch_answer
from ansible_collections.sovereign.epyc.plugins.module_utils._bench.load.prompts import Prompt
from ansible_collections.sovereign.epyc.plugins.module_utils._bench.target.vllm_instance import (
    find_instance_of_any_engine,
)
from ansible_collections.sovereign.epyc.plugins.module_utils._errors import TuningError
from ansible_collections.sovereign.epyc.plugins.module_utils._gateway import gateway_lock
from ansible_collections.sovereign.epyc.plugins.module_utils._gateway.haproxy import Haproxy
from ansible_collections.sovereign.epyc.plugins.module_utils._gateway.member import GatewayMember
from ansible_collections.sovereign.epyc.plugins.module_utils._host.host import Host
from ansible_collections.sovereign.epyc.plugins.module_utils._io.kernelfs import KernelFS
from ansible_collections.sovereign.epyc.plugins.module_utils._io.paths import HOST_TOOL, INSTANCE_HEAD, UNIT_FOLDER
from ansible_collections.sovereign.epyc.plugins.module_utils._io.store import Store
from ansible_collections.sovereign.epyc.plugins.module_utils._knobs import managed_units
from ansible_collections.sovereign.epyc.plugins.module_utils._knobs.protocol.converge import Outcome, converge_knobs
from ansible_collections.sovereign.epyc.plugins.module_utils._knobs.protocol.ledger import Ledger
from ansible_collections.sovereign.epyc.plugins.module_utils._serving.catalogue import ENGINES
from ansible_collections.sovereign.epyc.plugins.module_utils._serving.hooks import cli
from ansible_collections.sovereign.epyc.plugins.module_utils._serving.llama_cpp.engine import LlamaEngine
from ansible_collections.sovereign.epyc.plugins.module_utils._serving.unit import drift, instances
from ansible_collections.sovereign.epyc.plugins.module_utils._serving.unit.engine import Engine
from ansible_collections.sovereign.epyc.plugins.module_utils._serving.unit.installed import (
    list_installed_instances,
    parse_unit_plan,
)
from ansible_collections.sovereign.epyc.plugins.module_utils._serving.vllm.engine import VllmEngine
from ansible_collections.sovereign.epyc.tests.unit.fakes import completions, ggufs, hosts, llama_servers
from ansible_collections.sovereign.epyc.tests.unit.fakes.haproxies import FakeHaproxy, FakeServer
from ansible_collections.sovereign.epyc.tests.unit.fakes.instances import Instances, trial
from ansible_collections.sovereign.epyc.tests.unit.fakes.instances import instances as serving_instances
from ansible_collections.sovereign.epyc.tests.unit.fakes.servers import say, serving
from ansible_collections.sovereign.epyc.tests.unit.fakes.systemds import Systemd
from ansible_collections.sovereign.epyc.tests.unit.fakes.vllm_plans import Machine, capabilities


class Life:
    """A host on which one instance of an engine comes, changes and goes."""

    def __init__(self, engine: Engine, asked: dict[str, Any], root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.engine = engine
        self.asked = asked
        self.root = root
        self.unit = engine.row.unit_name("chat")
        self.systemd = Systemd(root, {self.unit: "multi-user.target"})
        tool = root / HOST_TOOL[1:]
        tool.parent.mkdir(parents=True)
        tool.touch()
        monkeypatch.setattr(managed_units.command, "run_command", self.systemd.run)
        monkeypatch.setattr(instances, "list_memory_of_instance", lambda *dummy: [])
        monkeypatch.setattr(engine, "try_program_in_sandbox", lambda *dummy: [])

    def converge(self, *asked: dict[str, Any]) -> Outcome:
        """Have these instances on the host and no others of this engine."""
        host = Host(hosts.standing("9754").fs, {"housekeeping": {"cores": 1}})
        knobs = instances.build_knobs(self.engine, host, asked, instances.Purge(True), str(self.root))
        return converge_knobs(knobs, Ledger(Store(str(self.root)), KernelFS(str(self.root))))

    def text(self) -> str:
        return (self.root / f"{UNIT_FOLDER}/{self.unit}"[1:]).read_text()

    def command(self, setting: str, verb: str, url: str) -> list[str]:
        """Return the words behind "sovereign-epyc llama" of a command of the unit, for a server at another URL."""
        (line,) = [line for line in self.text().splitlines() if line.startswith(setting) and f" llama {verb} " in line]
        words = shlex.split(line.partition(" llama ")[2])
        return [words[0], url, *words[2:]]

    def drifted(self) -> list[str]:
        return [verdict.address for verdict in drift.list_unit_verdicts(str(self.root)) if not verdict.is_clean]


def llama(folder: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Engine, dict[str, Any]]:
    engine = LlamaEngine()
    server = llama_servers.server("b11434")
    monkeypatch.setattr(engine, "read_capabilities", lambda host, options: server)
    Machine(folder, monkeypatch)
    return engine, {"binary": "/opt/llama-server", "model": str(ggufs.servable(folder / "m.gguf").path)}


def vllm(folder: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Engine, dict[str, Any]]:
    engine = VllmEngine()
    monkeypatch.setattr(engine, "read_capabilities", lambda host, options: capabilities())
    return engine, {"folder": "/opt/vllm", "model": str(Machine(folder, monkeypatch).model)}


#: The engine, and a request for an instance, by the key of the engine.
CASES = {"llama": llama, "vllm": vllm}
#: The streamed answer of five tokens, as the server of each engine sends it.
ANSWERS: dict[str, list[dict[str, Any]]] = {
    "llama": completions.events(5),
    "vllm": [
        *({"choices": [{"text": f"{number} "}], "usage": None} for number in range(5)),
        {"choices": [], "usage": {"prompt_tokens": 20, "completion_tokens": 5}},
    ],
}


@pytest.fixture(params=list(ENGINES))
def life(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Life:
    folder = tmp_path / "srv"
    folder.mkdir()
    engine, asked = CASES[request.param](folder, monkeypatch)
    port = {"name": "chat", "port": 18080, "update_order": "stop_first"}
    return Life(engine, {**port, **asked}, tmp_path / "host", monkeypatch)


def test_it_starts_and_the_next_run_changes_nothing(life: Life) -> None:
    first = life.converge(life.asked)
    assert first.changes and life.text().startswith(INSTANCE_HEAD)
    assert life.systemd.active == {life.unit: "active"} and life.systemd.state(life.unit) == "enabled"
    life.systemd.asked()
    assert life.converge(life.asked).changes == []
    assert not [call for call in life.systemd.asked() if "restart" in call]
    (installed,) = list_installed_instances(str(life.root))
    assert installed.row is life.engine.row and installed.plan and installed.plan["unit"] == life.unit


def test_its_unit_is_hardened_and_placed(life: Life) -> None:
    life.converge(life.asked)
    plan = parse_unit_plan(life.text())
    assert plan and f"\nAllowedCPUs={plan['expect']['cpus']}\n" in life.text()
    for line in ("DynamicUser=yes", "NoNewPrivileges=yes", "ProtectSystem=strict", "PrivateUsers=yes"):
        assert f"\n{line}\n" in life.text()


def test_it_is_waited_for_and_drained(life: Life, capsys: pytest.CaptureFixture[str]) -> None:
    """The commands of its unit, against a server that answers as this engine does."""
    life.converge(life.asked)
    row, busy = life.engine.row, [2, 0, 0]

    def answer(request: BaseHTTPRequestHandler) -> None:
        health = '{"status":"ok"}' if row.health_is_json else ""
        metrics = "".join(
            f"{name} {0 if number else busy[0]}\n" for number, name in enumerate(row.active_request_metrics)
        )
        answers = {"/health": health, "/metrics": metrics}
        say(request, 200, answers.get(request.path, '{"usage": {"completion_tokens": 3}}').encode())
        if request.path == "/metrics":
            busy.pop(0)

    with serving(answer) as http:
        assert cli.run_hook_command(life.command("ExecStartPost=", "await", http.url)) == 0
        assert cli.run_hook_command(life.command("ExecStartPost=", "answer", http.url)) == 0
        assert cli.run_hook_command(life.command("ExecStop=", "drain", http.url)) == 0
    said = capsys.readouterr().out
    assert f"{http.url} serves after" in said and " has answered." in said and f"{http.url} is idle after" in said


def test_an_update_starts_it_again_and_a_later_change_does_not(life: Life) -> None:
    life.converge(life.asked)
    life.systemd.asked()
    life.converge({**life.asked, "slots": 4})
    assert f"try-restart {life.unit}" in life.systemd.asked() and " 4 " in life.text()
    life.converge({**life.asked, "slots": 4, "stop_timeout": 9})
    assert not [call for call in life.systemd.asked() if "restart" in call]


def test_an_update_that_fails_is_put_back(life: Life) -> None:
    life.converge(life.asked)
    before = life.text()
    life.systemd.refuses, life.systemd.journal = f"try-restart {life.unit}", "no memory\n"
    with pytest.raises(TuningError, match="The journal ends: no memory"):
        life.converge({**life.asked, "slots": 4})
    assert life.text() == before and life.systemd.active == {life.unit: "active"}


def test_its_drift_is_seen(life: Life) -> None:
    life.converge(life.asked)
    life.systemd.reload()
    files = [address for address in life.drifted() if not address.endswith("/loaded")]
    assert files == []
    path = life.root / f"{UNIT_FOLDER}/{life.unit}"[1:]
    path.write_text(life.text().replace("AllowedCPUs=", "AllowedCPUs=9-"))
    life.systemd.active[life.unit] = "failed"
    assert {f"llama:{life.unit}/file", f"llama:{life.unit}/active"} <= set(life.drifted())


def test_it_is_removed_with_what_it_kept(life: Life) -> None:
    life.converge(life.asked)
    folders = [life.root / folder[1:] for folder in life.engine.row.state_folders("chat")]
    for folder in folders:
        folder.mkdir(parents=True)
    life.converge()
    assert list_installed_instances(str(life.root)) == [] and life.systemd.active == {life.unit: "inactive"}
    assert [folder for folder in folders if folder.exists()] == []


def test_a_name_that_another_engine_has_is_refused(life: Life) -> None:
    other = next(row for row in ENGINES.values() if row is not life.engine.row)
    path = life.root / f"{UNIT_FOLDER}/{other.unit_name('chat')}"[1:]
    path.write_text(INSTANCE_HEAD)
    with pytest.raises(TuningError, match=f"{other.title} has an instance chat on this host. Give this one another"):
        life.converge(life.asked)


@pytest.mark.parametrize("key", ENGINES)
def test_the_checklist_proves_it(key: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with serving_instances(tmp_path, monkeypatch) as here:
        unit = ENGINES[key].unit_name("chat")
        here.states[unit] = "active"
        here.runs(unit)
        here.planned(unit, engine=key, speculation=[], details={"alias": "m", "hosts": 1})
        here.trial = trial(drafts=None, drafted=None, accepted=None)
        items, facts = here.check()
        assert {name: verdict for name, (verdict, dummy) in items.items()} == {
            "service/chat": "ok",
            "speculation/chat": "not asked for",
            "placement/chat": "ok",
            "jitter/chat": "not asked for",
            "speed/chat": "ok",
        }
        assert facts["chat"]["tokens_per_second"] == 12.5


@pytest.mark.parametrize("key", ENGINES)
def test_the_benchmark_measures_it(key: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The benchmark finds the instance by its plan, and times an answer at the API of its engine."""
    row = ENGINES[key]
    completion = completions.Completions(ANSWERS[key])

    def answer(request: BaseHTTPRequestHandler) -> None:
        if request.path == row.completions:
            completion(request)
        else:
            say(request, 200, b'{"status":"ok"}')

    with serving_instances(tmp_path, monkeypatch) as here, serving(answer) as http:
        here.url = http.url
        unit = row.unit_name("chat")
        here.states = {unit: "active"}
        here.runs(unit)
        here.service.tree.put("/proc/100/cmdline", "server")
        here.planned(unit, engine=key, speculation=[], details={"alias": "m", "hosts": 1, "slots": 2})
        instance = find_instance_of_any_engine(Host(here.service.tree.fs), "chat")
        result = fetch_answer(instance.server, Prompt("prose", "Once", 5))
    assert (instance.name, instance.units, instance.cpus) == ("chat", [unit], (4, 5))
    assert (result.generated_tokens, result.text) == (5, "0 1 2 3 4 ") and result.ttft_ms > 0


def test_it_is_rolled_behind_a_gateway(life: Life, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The host leaves the gateway when its last request has ended, is updated, and takes requests again."""
    life.converge(life.asked)
    life.systemd.asked()
    monkeypatch.setattr(gateway_lock, "LOCK", str(tmp_path / "run/gateway.lock"))
    server = FakeServer(working=1)
    haproxy = FakeHaproxy(tmp_path, {"model_chat/h1:a": server, "model_chat/h2:a": FakeServer()})

    class RequestEnds:
        """A clock, in whose first pause the last request ends."""

        def monotonic(self) -> float:
            return 0.0

        def sleep(self, seconds: float) -> None:
            assert not life.systemd.asked(), "nothing is restarted while the host has a request"
            server.working = 0

    member = GatewayMember(
        Haproxy(haproxy.socket, haproxy.master), str(tmp_path / "servers.state"), "h1", RequestEnds()
    )
    try:
        left = member.move_servers_to_state_and_report("maint", 10, False, False)
        assert left["out"] and left["in_work"] == {"before": 1, "after": 0}
        life.converge({**life.asked, "slots": 4})
        assert f"try-restart {life.unit}" in life.systemd.asked()
        returned = member.move_servers_to_state_and_report("ready", 0, False, False)
        assert returned["changed"] and not returned["out"] and server.admin == 0
    finally:
        haproxy.close()


def test_a_part_that_answers_nobody_is_judged_by_its_unit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with serving_instances(tmp_path, monkeypatch) as here:
        here.url = ""
        unit = "vllm-large.service"
        here.planned(unit, name="large", engine="vllm", details={"alias": "m", "hosts": 2})
        here.runs(unit)
        states = {"active": "ok", "failed": "wrong"}
        for word, verdict in states.items():
            here.states[unit] = word
            items, dummy = check_parts(here, monkeypatch)
            assert items["service/large"][0] == verdict


def check_parts(here: Instances, monkeypatch: pytest.MonkeyPatch) -> tuple[dict[str, tuple[str, str]], dict[str, Any]]:
    from ansible_collections.sovereign.epyc.plugins.module_utils._serving.verify import silent_unit_items

    monkeypatch.setattr(silent_unit_items, "read_unit_properties", here.show)
    return here.check()
