# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Servers that are installed from sources or a package, and instances that are tried before they replace others."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from vepyc.llama import llama_cpp
from vepyc.playbook_runs import run_playbook

from ..fixtures.containers import ONE_LAYER_MORE, REPETITIVE_PROMPT

pytestmark = pytest.mark.slow

CHAT = {"name": "chat", "port": 8080}
RECOMMEND = Path(__file__).parents[2] / "playbooks/recommend.yml"
#: A repository on the disk with a package that has the server.
PACKAGE = """
set -e
mkdir -p /run/package/usr/bin /run/package/DEBIAN /srv/repository
cp /opt/built/bin/llama-server /run/package/usr/bin/
cat >/run/package/DEBIAN/control <<'END'
Package: llama.cpp
Version: 0.1
Architecture: amd64
Maintainer: nobody
Description: for tests
END
cd /srv/repository
dpkg-deb --root-owner-group -Znone --build /run/package llama.deb >/dev/null
{
    cat /run/package/DEBIAN/control
    echo "Filename: ./llama.deb"
    echo "Size: $(stat --format=%s llama.deb)"
    echo "SHA256: $(sha256sum llama.deb | cut --delimiter=' ' --fields=1)"
} >Packages
rm -f /etc/apt/sources.list.d/*
echo 'deb [trusted=yes] file:/srv/repository ./' >/etc/apt/sources.list
apt-get update
"""
#: Makes a program that logs the user and the rights of each of its runs, and then is llama-server.
WRAPPED = r"""
set -e
install -d -m 1777 /run/told && install -m 666 /dev/null /run/told/log
mkdir -p /opt/wrapped
cat >/opt/wrapped/llama-server <<'END'
#!/bin/sh
{
    id | tr '\n' ' '
    sed -nE 's/^(NoNewPrivs|CapBnd):\t0*(.)/\1:\2/p' /proc/self/status | tr '\n' ' '
    echo
} >>/run/told/log
exec /opt/built/bin/llama-server "$@"
END
chmod 755 /opt/wrapped/llama-server
"""


def test_it_is_installed_from_sources(service_host):
    """The lab has built these sources by the same module, so the role finds this build and does not compile."""
    dummy, asked = llama_cpp.build_request()
    wants = {"epyc_llama_source_archive": asked["archive"], "epyc_llama_source_checksum": asked["checksum"]}
    service_host.serve(CHAT, epyc_llama_install="source", epyc_llama_cmake_options=asked["cmake_options"], **wants)
    assert service_host.run(f"readlink /proc/{service_host.main_pid('chat')}/exe").startswith(
        f"{llama_cpp.BUILD_FOLDER}/"
    )
    assert service_host.fetch_status(8080, "/health") == 200


def test_it_is_installed_as_a_package(service_host):
    service_host.run(PACKAGE)
    wants = {"epyc_llama_install": "package", "epyc_llama_binary": "/usr/bin/llama-server"}
    played = service_host.run_role("--check", epyc_llama_instances=[{"model": service_host.model, **CHAT}], **wants)
    assert played.returncode == 0 and list(played.changed_results) == ["Install the package with the server"], (
        played.output
    )
    service_host.serve(CHAT, **wants)
    assert service_host.run(f"readlink /proc/{service_host.main_pid('chat')}/exe") == "/usr/bin/llama-server\n"


def test_what_is_tried_runs_behind_walls_and_only_before_a_start(service_host):
    """A wrapper of the server logs who runs it."""
    service_host.run(WRAPPED)
    wrapped = {**CHAT, "binary": "/opt/wrapped/llama-server", "model": "/home/Ann/hub/m.gguf"}
    wrapped["unit_settings"] = {"ReadWritePaths": "/run/told"}
    service_host.run(
        f"install -d -m 700 /home/Ann /home/Ann/blobs /home/Ann/hub && cp {service_host.model} /home/Ann/blobs/abc"
    )
    service_host.run("chmod 644 /home/Ann/blobs/abc && ln -s ../blobs/abc /home/Ann/hub/m.gguf")
    refusal = service_host.expect_refusal(wrapped)
    assert "/home/Ann/hub cannot be entered by the user that systemd makes for it." in refusal
    service_host.run("chmod 755 /home/Ann/hub /home/Ann/blobs; : >/run/told/log")
    service_host.serve(wrapped)
    told = service_host.run("cat /run/told/log").splitlines()
    # The runs print the help, print the version, read the arguments, compute a token, serve beside the running server,
    # and serve in its place.
    assert len(told) == 6 and all("uid=0" not in line and "CapBnd:0 NoNewPrivs:1" in line for line in told), told
    assert service_host.serve({**wrapped, "drain_timeout": 7}).changed_results
    assert len(service_host.run("cat /run/told/log").splitlines()) == 8, "help and version, and nothing was started"
    before = service_host.main_pid("chat")
    service_host.run("touch /opt/wrapped/llama-server")
    service_host.serve({**wrapped, "drain_timeout": 7})
    assert service_host.main_pid("chat") not in (0, before), "it was replaced"


def test_what_would_not_serve_stops_nothing_and_what_does_is_ready_first(service_host):
    """With start_first the new server serves beside the old one, and the old one stops only then."""
    first = {**CHAT, "update_order": "start_first"}
    service_host.serve(first)
    before = service_host.main_pid("chat")
    failing = {**first, "extra_arguments": ONE_LAYER_MORE}
    played = service_host.run_role(epyc_llama_instances=service_host.with_test_model(failing))
    assert played.returncode == 2 and "'blk.30.attn_norm.weight' not found" in played.output, played.output
    assert "It was started next to the running instance, which is untouched, and failed: " in played.output
    assert service_host.main_pid("chat") == before and "-next" not in service_host.run("ls /run/systemd/system")
    service_host.run("journalctl --rotate --vacuum-time=1s")
    service_host.serve({**first, "context": 4096})
    assert service_host.main_pid("chat") not in (0, before)
    told = service_host.run("journalctl --sync; journalctl --output=cat --unit='llama-*'")
    steps = ("Started llama-chat-next.service", "Stopped llama-chat-next.service", "Stopping llama-chat.service")
    assert [word for step in steps for word in [step] if step in told] == list(steps), told
    assert sorted(steps, key=told.index) == list(steps), told
    assert "-next" not in service_host.run("ls /run/systemd/system; systemctl list-units --all 'llama-*'")


def test_what_is_recommended_is_served(service_host):
    """The variables that recommend.yml prints are served, and replace the instance that runs until then."""
    service_host.serve(CHAT)
    asked = {"epyc_recommend_models": service_host.model, "epyc_llama_binary": service_host.binary}
    recommended = run_playbook(service_host.folder, RECOMMEND, "--extra-vars", json.dumps(asked))
    assert recommended.returncode == 0, recommended.output
    told = recommended["Recommend"]
    assert "llama-chat.service: installed on this host and not recommended here" in told["remarks"][0]
    written = yaml.safe_load(told["text"])
    served = service_host.run_role(**written)
    assert served.returncode == 0, served.output
    (instance,) = written["epyc_llama_instances"]
    (plan,) = served["Run the instances"]["services"].values()
    assert plan["need"] == told["services"][instance["name"]]["need"]
    assert instance["port"] == CHAT["port"], "the other one has left it"
    assert service_host.complete_text(CHAT["port"], REPETITIVE_PROMPT)["content"]
    assert service_host.main_pid("chat") == 0
