# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A host with Ubuntu 24.04: a served model, the gateway before it, drift, verify and the undo of both.

The container has Ubuntu's systemd, Python, OpenSSH, apt and HAProxy, and the kernel of this machine, so the layers of
the kernel do not run. The tests follow one another on it. The server was compiled on Debian 13.
"""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from vepyc.container import SYSTEM_PACKAGES, running_container
from vepyc.llama import llama_cpp
from vepyc.playbook_runs import PlaybookRun, run_playbook, write_inventory

from ..fixtures.containers import BUILD, MODELS, REPETITIVE_PROMPT, ServiceHost
from .test_upgrade import RESTORE, STATE

pytestmark = pytest.mark.slow

SUITE, PACKAGES = "noble", (*SYSTEM_PACKAGES, "haproxy", "libgomp1")
PORT, GATEWAY_PORT = 8081, 8443
CHAT = {"name": "chat", "alias": "chat", "port": PORT, "context": 2048}


class UbuntuHost(ServiceHost):
    """A host that serves one instance, and the gateway before it."""

    def play(self, playbook: str, *arguments: str, **asked: object) -> PlaybookRun:
        """Run a playbook with these variables beside those of the instance and of the gateway; it must succeed."""
        variables = {
            "epyc_steps": ["base", "llama"],
            "epyc_llama_install": "binary",
            "epyc_llama_binary": self.binary,
            "epyc_llama_instances": self.with_test_model(CHAT),
            "epyc_gateway_bind": f"127.0.0.1:{GATEWAY_PORT}",
            "epyc_gateway_plain_http": True,
            "epyc_gateway_open": True,
            "epyc_gateway_member_address": "127.0.0.1",
            **asked,
        }
        played = run_playbook(self.folder, f"playbooks/{playbook}.yml", "-e", json.dumps(variables), *arguments)
        assert played.returncode == 0, played.output
        return played


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[UbuntuHost]:
    """The host, in the group of servers and in that of gateways."""
    build, model = llama_cpp.ensure_llama(), llama_cpp.ensure_model()
    with running_container("test-ubuntu", {build: BUILD, model.parent: MODELS}, suite=SUITE, packages=PACKAGES) as box:
        host = UbuntuHost(box, tmp_path_factory.mktemp("ubuntu"))
        write_inventory(
            host.folder, {box.name: box.inventory_variables()}, epyc_gateway={box.name: box.inventory_variables()}
        )
        host.first = host.run(STATE).splitlines()
        yield host


def test_a_check_changes_nothing(host: UbuntuHost) -> None:
    assert 'VERSION_ID="24.04"' in host.run("cat /etc/os-release")
    host.play("site", "--check")
    assert host.run(STATE).splitlines() == host.first


def test_site_serves_and_a_second_run_changes_nothing(host: UbuntuHost) -> None:
    host.play("site")
    assert host.complete_text(PORT, REPETITIVE_PROMPT, 4)["content"]
    assert host.play("site").changed_results == {}


def test_the_gateway_passes_requests_on(host: UbuntuHost) -> None:
    host.play("gateway")
    body = {"model": "chat", "prompt": REPETITIVE_PROMPT, "max_tokens": 4, "temperature": 0}
    answer = host.fetch_json(GATEWAY_PORT, "/v1/completions", body)
    assert answer["choices"][0]["text"], answer
    assert host.play("gateway").changed_results == {}


def test_drift_and_verify_find_nothing(host: UbuntuHost) -> None:
    host.play("drift")
    assert host.play("verify")["Go through the checklist"]["complaints"] == []


def test_the_undo_is_exact(host: UbuntuHost) -> None:
    host.play("gateway", epyc_gateway_state="absent")
    host.play("restore", *RESTORE)
    assert set(host.run(STATE).splitlines()) ^ set(host.first) == set()
