# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The role epyc_gateway with the real HAProxy of the distribution: install, check, roll under load, and removal."""

from __future__ import annotations

import json

import pytest

from ..fixtures.gateways import KEYS, Gateway, build_get, build_request, generate_load
from ..fixtures.rolling import ROLL_VARIABLES, RollingHosts, read_stop_reason

pytestmark = [pytest.mark.slow, pytest.mark.everyday]


@pytest.fixture(scope="module")
def gateway_of_two(bare_gateway: Gateway) -> Gateway:
    """A gateway before two hosts, after a check that changed nothing and a run that showed no secret."""
    checked = bare_gateway.run_role("--check")
    assert checked.returncode == 0 and list(checked.changed_results) == ["Install HAProxy"], checked.output
    assert bare_gateway.run("ls /etc/haproxy 2>&1", check=False).startswith("ls: cannot access")
    played = bare_gateway.run_role("-vvv", "--diff")
    assert played.returncode == 0, played.output
    assert "server h1:a 10.9.0.1:8081 maxconn 2" in played.output, "the difference is shown"
    assert not [key for key in ("of-the-servers", *KEYS.values()) if key in played.output]
    return bare_gateway


def test_the_next_run_changes_nothing(gateway_of_two: Gateway) -> None:
    before = gateway_of_two.read_state()
    played = gateway_of_two.run_role()
    assert played.returncode == 0 and played.changed_results == {}, played.output
    assert gateway_of_two.read_state() == before


def test_a_check_shows_what_would_change_and_changes_nothing(gateway_of_two: Gateway) -> None:
    before = gateway_of_two.read_state()
    played = gateway_of_two.run_role(
        "--check", "--diff", epyc_gateway_queue_timeout="7s", epyc_gateway_server_key="another"
    )
    assert played.returncode == 0 and "timeout queue 7s" in played.output, played.output
    assert gateway_of_two.read_state() == before


def test_what_haproxy_does_not_take_leaves_the_configuration_before(gateway_of_two: Gateway) -> None:
    before = gateway_of_two.read_state()
    played = gateway_of_two.run_role(epyc_gateway_queue_timeout="soon")
    assert played.returncode == 2 and "in 'timeout queue'" in played.output, played.output
    assert gateway_of_two.read_state() == before
    assert gateway_of_two.fetch_statuses(build_request()) == [200]


def test_a_key_in_place_of_its_hash_is_refused_and_not_shown(gateway_of_two: Gateway) -> None:
    before = gateway_of_two.read_state()
    played = gateway_of_two.run_role("-vvv", epyc_gateway_tenants=[{"name": "a", "sha256": ["Key-of-the-team"]}])
    assert played.returncode == 2 and "64 hexadecimal digits" in played.output, played.output
    assert "Key-of-the-team" not in played.output
    assert gateway_of_two.read_state() == before


def test_models_are_listed_and_reached_by_their_names(gateway_of_two: Gateway) -> None:
    (listed,) = gateway_of_two.send_requests(build_get("/v1/models"))
    assert [one["id"] for one in json.loads(listed["text"])["data"]] == ["chat", "org/code"]
    last = json.dumps({"prompt": "x" * 900_000, "model": "org/code"})
    escaped = [build_request(text) for text in ('{"model":"org\\/code"}', '{"model":"\\u006frg/code"}')]
    assert gateway_of_two.fetch_servers(build_request(last), *escaped) == ["code"] * 3
    assert gateway_of_two.fetch_servers(build_request())[0] in ("first", "second")
    answers = gateway_of_two.send_requests(
        build_request({"model": "none"}),
        build_request("{}"),
        build_request("no JSON"),
        build_request(last, path="/slots/0"),
    )
    assert [answer["status"] for answer in answers] == [404, 400, 400, 404]
    assert "No host serves this model" in json.loads(answers[0]["text"])["error"]["message"]


def test_what_is_for_operators_is_not_for_clients(gateway_of_two: Gateway) -> None:
    paths = ("/metrics", "/configuration", "/slots", "/props", "/v1/../metrics", "/", "/haproxy?stats", "/%73lots")
    paths += ("//slots", "https://127.0.0.1:8443/metrics", "/v1/chat/completions/../../slots")
    assert gateway_of_two.fetch_statuses(*map(build_get, paths)) == [404] * len(paths)
    script = "from urllib.request import urlopen; print(urlopen('http://127.0.0.1:8405/metrics').read().decode())"
    metrics = gateway_of_two.run(f'python3 -c "{script}"')
    assert 'haproxy_server_limit_sessions{proxy="model_chat",server="h2:a"} 2' in metrics
    listening = gateway_of_two.run("ss -Hltn").split()
    assert {one for one in listening if one.endswith((":8405", ":8406"))} == {"127.0.0.1:8405", "127.0.0.1:8406"}
    assert gateway_of_two.run("stat --format=%a:%U:%G /run/haproxy/admin.sock").strip() == "660:root:haproxy"


def test_hosts_are_rolled_under_load_without_a_lost_request(
    gateway_of_two: Gateway, rolling_hosts: RollingHosts
) -> None:
    """Only h2 serves the second model, so a roll refuses it unless epyc_gateway_drain_last accepts a gap."""
    before = rolling_hosts.read_states()
    with generate_load(gateway_of_two) as answers:
        refused = rolling_hosts.run_playbook("roll", **ROLL_VARIABLES)
        between = rolling_hosts.read_states()
        played = rolling_hosts.run_playbook("roll", "-l", "h2", epyc_gateway_drain_last=True, **ROLL_VARIABLES)
    assert refused.returncode == 2, refused.output
    message = read_stop_reason(refused)
    assert "h2 was not taken out of service" in message and "No host but h2 serves model_org_code" in message
    assert played.returncode == 0, played.output
    after = rolling_hosts.read_states()
    assert {one["h1:a"] for one in (before, between, after)} == {"0"} and after["h2:a"] == after["h2:b"] == "0"
    assert len({one["pids"] for one in (before, between, after)}) == 3, "each of them was restarted"
    assert [answer["text"] for answer in answers if answer["status"] != 200] == [] and len(answers) >= 60
    print(f"{len(answers)} requests answered while both hosts were restarted")


def test_it_goes_as_it_came(gateway_of_two: Gateway) -> None:
    played = gateway_of_two.run_role(epyc_gateway_state="absent")
    assert played.returncode == 0, played.output
    assert gateway_of_two.run("dpkg --verify haproxy", check=False) == ""
    assert gateway_of_two.run("find /etc/haproxy -name '*sovereign*'") == ""
    assert gateway_of_two.run("systemctl is-active haproxy; systemctl is-enabled haproxy") == "active\nenabled\n"
    assert gateway_of_two.run("ss -Hltn 'sport = 8443'") == ""
