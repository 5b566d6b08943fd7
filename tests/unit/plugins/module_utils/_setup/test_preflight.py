# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""All that a host cannot have of a run is found by one look, and what the run brings to it is not held against it."""

from __future__ import annotations

import socket
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.sovereign.epyc.plugins.module_utils._errors import BadRequest
from ansible_collections.sovereign.epyc.plugins.module_utils._host.host import Host
from ansible_collections.sovereign.epyc.plugins.module_utils._io.checksum import compute_sha256
from ansible_collections.sovereign.epyc.plugins.module_utils._io.kernelfs import KernelFS
from ansible_collections.sovereign.epyc.plugins.module_utils._io.store import Store
from ansible_collections.sovereign.epyc.plugins.module_utils._knobs.protocol.ledger import Ledger
from ansible_collections.sovereign.epyc.plugins.module_utils._models import model_file
from ansible_collections.sovereign.epyc.plugins.module_utils._serving.llama_cpp import probe
from ansible_collections.sovereign.epyc.plugins.module_utils._serving.unit import shared_host as planning
from ansible_collections.sovereign.epyc.plugins.module_utils._setup import preflight
from ansible_collections.sovereign.epyc.plugins.modules.epyc_preflight import SPEC
from ansible_collections.sovereign.epyc.tests.unit.fakes import ggufs, hosts

NOTHING: dict[str, Any] = {name: option.get("default") for name, option in SPEC.items()}
INTENT: dict[str, Any] = {}
MISSING = "Instance chat: /none.gguf cannot be read: No such file or directory. Give the full path of a GGUF file."


class Machine:
    """A host that was booted with systemd, on which no instance runs."""

    def __init__(self, tree: hosts.Host, monkeypatch: pytest.MonkeyPatch) -> None:
        self.tree = tree
        self.server = str(tree.root / "llama-server")
        self.store = Store(str(tree.root))
        (tree.root / "run/systemd/system").mkdir(parents=True)
        monkeypatch.setattr(planning, "read_unit_properties", lambda names: {})
        monkeypatch.setattr(probe, "probe_capabilities", self.refuse_server)

    def refuse_server(self, binary: str, walls: object) -> None:
        raise BadRequest(f"{binary} does not answer to --help, exit code 1")

    def refusals(self, *layers: str, **asked: Any) -> list[str]:
        params = {**NOTHING, "intent": INTENT, "layers": list(layers), **asked}
        fs = KernelFS(str(self.tree.root), read_only=True)
        return preflight.Preflight(params, Host(fs, params["intent"]), Ledger(self.store, fs)).find_refusals_of_layers()

    def of_instance(self, *layers: str, **asked: Any) -> list[str]:
        """Return the refusals where one instance is asked for, whose server will be installed."""
        one = {"name": "chat", "model": "/none.gguf", "port": free_port(), **asked.pop("instance", {})}
        given = {"instances": [one], "binary": self.server, "installs": True, **asked}
        return self.refusals("base", "llama", *layers, **given)


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    return Machine(hosts.small(tmp_path), monkeypatch)


def test_nothing_stands_in_the_way_of_what_can_be_had(machine: Machine) -> None:
    system = {"distributions": {}, "kernel": "", "allow_unsupported": False}
    assert machine.refusals("prerequisites", "base", "numa", "cat", system=system) == []
    assert machine.refusals("llama") == []


def test_without_systemd_only_what_needs_none_can_be_had(machine: Machine) -> None:
    (machine.tree.root / "run/systemd/system").rmdir()
    assert machine.refusals("bios", "bios_check") == []
    (refusal,) = machine.refusals("bios_check", "base", "numa")
    assert "was not booted with systemd, which these layers need: base, numa." in refusal
    refusals = machine.of_instance(installs=False)
    assert [one.partition(",")[0] for one in refusals[:1]] == ["This host was not booted with systemd"]
    assert refusals[1:] == [MISSING], "files are looked at without systemd, too"


def test_a_container_is_told_which_layers_belong_to_its_host(machine: Machine) -> None:
    machine.tree.put(preflight.CONTAINER_FILE, "lxc")
    assert machine.refusals("base") == []
    (refusal,) = machine.refusals("base", "irq", "cat")
    assert "is a container" in refusal and "leave irq, cat out of epyc_steps" in refusal


def test_a_distribution_that_is_not_supported_is_refused_with_all_else(machine: Machine) -> None:
    machine.tree.put("/etc/os-release", 'NAME="Plan 9"\nPRETTY_NAME="Plan 9"\nID=plan9\nVERSION_ID="4"')
    machine.tree.put("/proc/sys/kernel/osrelease", "6.1.0")
    asked = {
        "system": {"distributions": {"Debian": "12"}, "kernel": "6.1", "allow_unsupported": False},
        "boot_parameters": {"parameters": ["nokaslr"], "absent": []},
    }
    system, loader = machine.refusals("prerequisites", "grub_params", **asked)
    assert system.startswith("Plan 9 4 with kernel 6.1.0 is not what the collection is made for")
    assert loader.startswith("Plan 9 has neither /usr/sbin/update-grub nor grubby")
    assert machine.refusals("base", **asked) == [], "only the layers of this run are looked at"
    nothing = {"parameters": [], "absent": []}
    assert machine.refusals("grub_params", boot_parameters=nothing) == []


def test_what_the_plan_cannot_have_is_refused(machine: Machine) -> None:
    share = {"verify": {"l3": "50%"}}
    machine.tree.drop("/proc/cpuinfo")
    machine.tree.put("/proc/cpuinfo", "vendor_id: AuthenticAMD\nmodel name: AMD EPYC 9754\nflags: fpu msr")
    (refusal,) = machine.refusals("cat", intent=share)
    assert "resctrl" in refusal
    assert machine.refusals("numa", intent=share) == []
    assert machine.refusals("cat", intent=None) == [], "without a plan nothing is known of its layers"


def test_all_instances_are_refused_at_once(machine: Machine) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        taken = server.getsockname()[1]
        asked = [
            {"name": "chat", "modell": "/none.gguf", "port": 8080},
            {"name": "code", "model": "/none.gguf", "port": taken},
            {"name": "third", "model": "/none.gguf", "port": 80},
        ]
        refusals = machine.refusals("base", "llama", instances=asked, binary=machine.server)
    assert refusals == [
        "Instance chat: An instance has no option 'modell'; did you mean model?",
        "Instance third: port is '80'; say a whole number from 1024 to 65535.",
        f"Instance code: {machine.server} does not answer to --help, exit code 1",
        f"Instance code: port {taken} of 127.0.0.1 is taken by another program; 'ss -ltnp' shows which. Give the "
        "instance another port, or stop that program.",
        MISSING.replace("chat", "code"),
    ]


def test_a_model_that_will_be_fetched_is_not_missing(machine: Machine) -> None:
    assert machine.of_instance() == [MISSING]
    assert machine.of_instance(fetched=[{"path": "/none.gguf", "checksum": [f"sha256:{'a' * 64}"]}]) == []
    assert machine.of_instance(made=["/none.gguf"]) == []
    (refusal,) = machine.of_instance(fetched=[{"path": "/none.gguf", "checksum": []}], instance={"user": "nobody-here"})
    assert "There is no user nobody-here" in refusal


def test_the_command_that_units_call_comes_with_another_layer(machine: Machine) -> None:
    asked: dict[str, Any] = {"instances": [{"name": "chat", "modell": "/m", "port": 8080}], "binary": machine.server}
    command, key = machine.refusals("llama", **asked)
    assert command.startswith("There is no /usr/sbin/sovereign-epyc, which the units of instances call.")
    assert "did you mean model" in key
    machine.tree.put("/usr/sbin/sovereign-epyc", "")
    assert machine.refusals("llama", **asked) == machine.refusals("base", "llama", **asked) == [key]


def test_a_model_that_must_be_there_is_refused_though_no_instance_has_it(machine: Machine) -> None:
    (refusal,) = machine.refusals("llama", instances=[], present=["/none.gguf"])
    assert refusal.startswith("epyc_llama_models: there is no file /none.gguf on the host.")


def test_a_server_that_is_there_is_compared_with_its_checksum(machine: Machine) -> None:
    asked: dict[str, Any] = {"instances": [], "binary": machine.server, "binary_checksum": f"sha256:{'a' * 64}"}
    assert machine.refusals("llama", **asked) == [], "it may be installed later"
    Path(machine.server).write_text("a server")
    (refusal,) = machine.refusals("llama", **asked)
    assert "and epyc_llama_checksum says sha256:aaaa" in refusal
    assert machine.refusals("llama", **{**asked, "binary_checksum": f"sha256:{compute_sha256(machine.server)}"}) == []


def test_a_server_that_will_be_built_is_not_asked(machine: Machine) -> None:
    path = ggufs.servable(machine.tree.root / "m.gguf").path
    assert machine.of_instance(binary=None, instance={"model": path}) == []
    (refusal,) = machine.of_instance(installs=False, instance={"model": path})
    assert "does not answer to --help" in refusal


@pytest.mark.parametrize(
    ("layers", "asked", "pending"),
    [
        ([], {}, False),
        ([], {"intent": None}, True),
        ([], {"pools": True}, False),
        (["numa"], {"pools": True}, True),
        (["numa"], {"smt": "on"}, False),
        (["numa"], {"smt": "off"}, True),
    ],
)
def test_what_an_earlier_layer_changes_is_not_known_yet(
    machine: Machine, layers: list[str], asked: dict[str, Any], pending: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Memory and CPUs that will be others when the instance starts refuse nothing."""
    machine.tree.put("/sys/devices/system/cpu/smt/control", "on")
    seen = []
    monkeypatch.setattr(preflight.instances, "build_knobs", lambda *given: seen.append(given[-1]) or [])
    assert machine.of_instance(*layers, **asked) == []
    assert [one.placement for one in seen] == [pending]


def test_a_fetched_model_is_known_by_its_digest(machine: Machine) -> None:
    path = str(machine.tree.root / "m.gguf")
    Path(path).write_text("a model")
    digest = compute_sha256(path)
    right, other = ([f"sha256:{one}"] for one in (digest, "a" * 64))
    is_as_verified = model_file.has_stored_requested_digests
    assert not is_as_verified(machine.store, {"path": path, "checksum": right}), "nobody has read it yet"
    row = {"stamp": model_file.read_file_stamp(path), "sha256": digest}
    with machine.store.hold_lock():
        machine.store.save_document(model_file.FACTS_FILE, {"files": {path: row}, "parts": {}})
    assert is_as_verified(machine.store, {"path": path, "checksum": right})
    assert is_as_verified(machine.store, {"path": path, "checksum": ["server"]})
    assert not is_as_verified(machine.store, {"path": path, "checksum": other}), "another one will be fetched"
    Path(path).write_text("another model")
    assert not is_as_verified(machine.store, {"path": path, "checksum": right})
