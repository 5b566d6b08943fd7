# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Updates of a running instance under constant traffic, with the real llama-server, nftables and systemd."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from vepyc.container import running_container
from vepyc.images import debian_packages
from vepyc.llama import llama_cpp

from ..fixtures.containers import BUILD, MODELS, ServiceHost, wait_until

pytestmark = pytest.mark.slow

CHAT = {"name": "chat", "port": 8080, "slots": 4, "context": 8192}
#: The package nftables, and its dependencies that the image of the containers lacks.
NFTABLES = ("nftables", "libnftables1", "libnftnl11", "libjansson4", "libxtables12", "libedit2", "libbsd0")
PROGRAMS = Path(__file__).parents[1] / "fixtures/programs"
UNIT = "llama-chat.service"


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServiceHost]:
    """A host with nftables, the real llama-server, and two models in files of their own."""
    build, model = llama_cpp.ensure_llama(), llama_cpp.ensure_model()
    packages = debian_packages.fetch_packages("trixie", *NFTABLES)[0].parent
    binds = {build: BUILD, model.parent: MODELS, packages: "/srv/packages", PROGRAMS: "/srv/programs"}
    with running_container("test-llama-updates", binds, {build.parent: llama_cpp.BUILD_FOLDER}) as box:
        host = ServiceHost(box, tmp_path_factory.mktemp("updates"))
        host.run("dpkg -i /srv/packages/*.deb")
        host.run(f"cp {host.model} /srv/other.gguf && cp -rL {BUILD} /opt/copy")
        host.serve(CHAT)
        yield host


@contextmanager
def constant_traffic(host: ServiceHost, key: str = "") -> Iterator[dict[str, Any]]:
    """Have clients send short and streamed requests during the block; afterwards the dictionary has what they got."""
    result: dict[str, Any] = {}
    program = shlex.join(["/usr/bin/python3", "/srv/programs/constant_traffic.py", "http://127.0.0.1:8080", "/run/end"])
    host.run("rm -f /run/end /run/traffic.json; systemctl reset-failed traffic.service 2>/dev/null; true")
    host.run(
        "systemd-run --quiet --unit=traffic --property=StandardOutput=file:/run/traffic.json "
        f"{program} 3 2 {shlex.quote(key) if key else ''}"
    )
    try:
        host.run("sleep 2")
        yield result
    finally:
        host.run("sleep 2; touch /run/end")
        wait_until(lambda: host.run("systemctl is-active traffic.service", check=False) != "active\n")
        result.update(json.loads(host.run("cat /run/traffic.json")))
        print(result)


def read_tables(host: ServiceHost) -> str:
    return host.run("nft list tables | grep sovereign", check=False)


def test_updates_of_everything_under_traffic(host):
    """Options, the model, the program and the keys change, and no request fails and no stream is cut."""
    updates = [
        {**CHAT, "context": 4096},
        {**CHAT, "model": "/srv/other.gguf"},
        {**CHAT, "binary": "/opt/copy/bin/llama-server"},
        CHAT,
    ]
    for instance in updates:
        before = host.main_pid("chat")
        with constant_traffic(host) as traffic:
            played = host.serve(instance)
        assert host.main_pid("chat") not in (0, before)
        assert traffic["failures"] == [] and traffic["counts"]["stream"] > 2, traffic
        (restart,) = played["Run the instances"]["restarts"]
        assert (restart["unit"], restart["order"]) == (UNIT, "start_first")
        assert restart["announced_seconds"] == restart["outage_seconds"] == 0, restart
        assert "nobody noticed" in str(played["Run the instances"]["remarks"])
        assert read_tables(host) == "" and "-next" not in host.run("ls /run/systemd/system")
    assert "llama-" not in host.run("journalctl --priority=err --output=cat --no-pager")
