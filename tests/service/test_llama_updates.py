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

from ansible_collections.sovereign.epyc.plugins.module_utils._knobs.managed_units import OLD, RESTARTS
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
#: The default of the option stop_timeout.
STOP_SECONDS = 5
#: A program that passes all trials, and ends with an error as the new server.
UNLUCKY = b"""#!/bin/sh
grep -q llama-chat-next /proc/self/cgroup && exit 7
exec /opt/copy/bin/llama-server "$@"
"""
#: Makes a network of a client, from which the host has the address 10.77.0.1.
CLIENT = """
set -e
ip netns add client
ip link add veth0 type veth peer name veth1 netns client
ip address add 10.77.0.1/24 dev veth0
ip link set veth0 up
ip -n client address add 10.77.0.2/24 dev veth1
ip -n client link set veth1 up
"""


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
        host.run(CLIENT)
        host.serve(CHAT)
        yield host


@contextmanager
def constant_traffic(host: ServiceHost, key: str = "", is_remote: bool = False) -> Iterator[dict[str, Any]]:
    """Have clients send short and streamed requests during the block; afterwards the dictionary has what they got."""
    result: dict[str, Any] = {}
    url = f"http://{'10.77.0.1' if is_remote else '127.0.0.1'}:8080"
    program = shlex.join(["/usr/bin/python3", "/srv/programs/constant_traffic.py", url, "/run/end"])
    program = f"/usr/sbin/ip netns exec client {program}" if is_remote else program
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


def serve_under_traffic(
    host: ServiceHost, instance: dict[str, Any], key: str = "", is_remote: bool = False
) -> tuple[dict[str, Any], Any]:
    """Change the instance under traffic; return what the clients got, and the result of the module."""
    before = host.main_pid("chat")
    with constant_traffic(host, key, is_remote) as traffic:
        played = host.serve(instance)
    assert host.main_pid("chat") not in (0, before)
    return traffic, played["Run the instances"]


def require_no_leftovers(host: ServiceHost) -> None:
    assert host.run("nft list tables | grep sovereign", check=False) == ""
    assert "-next" not in host.run("ls /run/systemd/system; systemctl list-units --all 'llama-*'")


@pytest.mark.parametrize(
    "change",
    [
        {"context": 4096},
        {"model": "/srv/other.gguf"},
        {"binary": "/opt/copy/bin/llama-server"},
        {"host": "0.0.0.0"},
        {},
    ],
    ids=str,
)
def test_no_request_fails_and_no_stream_is_cut(host, change):
    traffic, result = serve_under_traffic(host, {**CHAT, **change})
    assert traffic["failures"] == [] and traffic["counts"]["stream"] > 2, traffic
    (restart,) = result["restarts"]
    assert (restart["unit"], restart["order"]) == (UNIT, "start_first")
    assert restart["announced_seconds"] == restart["outage_seconds"] == 0, restart
    assert f"{UNIT} was restarted; nobody noticed: the new server was started first." in result["remarks"]
    require_no_leftovers(host)


def test_clients_on_other_hosts_notice_nothing_either(host):
    listening = {**CHAT, "host": "0.0.0.0"}
    host.serve(listening)
    traffic, result = serve_under_traffic(host, {**listening, "context": 4096}, is_remote=True)
    assert traffic["failures"] == [] and result["restarts"][0]["outage_seconds"] == 0, traffic
    require_no_leftovers(host)


def test_keys_are_rotated_without_a_failed_request(host):
    """The old key stays in the file until all clients have the new one."""
    host.run("echo old >/etc/keys")
    host.serve({**CHAT, "api_key_file": "/etc/keys"})
    host.run("echo new >>/etc/keys")
    traffic, result = serve_under_traffic(host, {**CHAT, "api_key_file": "/etc/keys"}, "old")
    assert traffic["failures"] == [] and result["restarts"][0]["outage_seconds"] == 0, traffic
    assert host.fetch_status(8080, "/v1/models", key="new") == 200
    assert host.fetch_status(8080, "/v1/completions", {"prompt": "a", "max_tokens": 1}, key="none") == 401
    host.serve(CHAT)


def test_a_check_says_what_a_change_costs_and_changes_nothing(host):
    changed = host.with_test_model({**CHAT, "context": 4096})
    before = host.main_pid("chat")
    played = host.run_role("--check", "--diff", epyc_llama_instances=changed)
    message = f"{UNIT} needs a restart; nobody notices: the new server is started first."
    result = played["Run the instances"]
    assert message in result["remarks"] and result["diff"]["prepared"].endswith(f"{message}\n")
    assert host.main_pid("chat") == before and result["restarts"][0]["outage_seconds"] is None
    require_no_leftovers(host)


def test_a_new_version_that_does_not_serve_is_no_failure_of_the_host(host):
    host.run("journalctl --rotate --vacuum-time=1s")
    before = host.main_pid("chat")
    host.write_file("/opt/copy/bin/wary", UNLUCKY)
    host.run("chmod +x /opt/copy/bin/wary")
    wary = host.with_test_model({**CHAT, "binary": "/opt/copy/bin/wary"})
    played = host.run_role(epyc_llama_instances=wary)
    assert played.returncode == 2 and "is untouched" in played.output, played.output
    assert host.main_pid("chat") == before
    assert host.run("journalctl --sync; journalctl --priority=err --output=cat --no-pager") == ""
    assert "llama" not in host.run("systemctl --failed --plain")
    require_no_leftovers(host)


@pytest.mark.parametrize("way", ["stop_first", "without nft"])
def test_the_announced_outage_is_near_the_real_one(host, way):
    changed = {**CHAT, "context": 2048 if way == "stop_first" else 1024}
    if way == "stop_first":
        changed["update_order"] = "stop_first"
    else:
        host.run("mv /usr/sbin/nft /usr/sbin/nft.away")
    try:
        traffic, result = serve_under_traffic(host, changed)
    finally:
        host.run("mv /usr/sbin/nft.away /usr/sbin/nft", check=way != "stop_first")
    (restart,) = result["restarts"]
    print(restart, restart["announced_seconds"] / restart["outage_seconds"])
    assert 0 < restart["outage_seconds"] < 30 and traffic["failures"], "there is an outage"
    # The requests of the traffic run on while the old server stops, for 5 s at most.
    least = max(restart["outage_seconds"] - STOP_SECONDS, 0.1)
    assert restart["announced_seconds"] / least > 0.2 and restart["announced_seconds"] < 5 * restart["outage_seconds"]
    (message,) = [text for text in result["remarks"] if "was restarted; nobody was served for" in text]
    assert ("package nftables" in message) == (way != "stop_first")
    require_no_leftovers(host)


@pytest.mark.parametrize("moment", ["llama-chat-next.service", UNIT])
def test_a_run_that_is_killed_in_the_middle_leaves_a_server_that_serves(host, moment):
    """It is killed while the new version starts, and while the instance itself is replaced."""
    host.run("systemctl unmask llama-chat-next.service; true")
    changed = host.with_test_model({**CHAT, "context": 3072 if moment == UNIT else 5120})
    watch = (
        f"until systemctl is-active {moment} | grep -q ating; do sleep 0.02; done; "
        "kill -KILL $(pgrep -n -f 'AnsiballZ_llama_[s]erver')"
    )
    host.run(f"systemd-run --quiet --collect sh -c {shlex.quote(watch)}")
    with constant_traffic(host) as traffic:
        assert host.run_role(epyc_llama_instances=changed).returncode != 0
        wait_until(lambda: host.run(f"systemctl is-active {UNIT}", check=False) == "active\n")
    assert traffic["failures"] == [], traffic
    traffic = serve_under_traffic(host, {**CHAT, "context": 6144})[0]
    assert traffic["failures"] == [], traffic
    require_no_leftovers(host)


def test_a_restart_that_a_killed_run_owes_is_made_by_the_next(host):
    """It was killed after systemd had read the new unit, and before the restart; what it notes is known to systemd."""
    host.serve(CHAT)
    before = host.main_pid("chat")
    start = f"systemctl show --property=InvocationID --value {UNIT}"
    host.run(f"mkdir -p {RESTARTS} && {start} >{RESTARTS}/{UNIT}")
    result = host.serve(CHAT)["Run the instances"]
    assert result["diff"]["changes"]["before"] == {f"llama:{UNIT}/active": OLD}
    assert host.main_pid("chat") not in (0, before)
    assert not host.serve(CHAT)["Run the instances"]["changed"]
    # A note on an earlier start is none on this one.
    host.run(f"mkdir -p {RESTARTS} && echo {before:032x} >{RESTARTS}/{UNIT}")
    assert not host.serve(CHAT)["Run the instances"]["changed"]


def test_a_drop_in_is_copied(host):
    host.run(f"mkdir -p /etc/systemd/system/{UNIT}.d")
    host.run(f"printf '[Service]\\nNice=5\\n' >/etc/systemd/system/{UNIT}.d/mine.conf && systemctl daemon-reload")
    result = host.serve(CHAT)["Run the instances"]
    assert "mine.conf is a drop-in that this collection has not written. It is removed; " in str(result["remarks"])
    assert host.run(f"cat /var/lib/sovereign-epyc/removed-drop-ins/{UNIT}/mine.conf.*") == "[Service]\nNice=5\n"
