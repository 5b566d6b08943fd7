# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The role epyc_monitoring with the real Prometheus, which scrapes a real llama-server, HAProxy and node_exporter."""

from __future__ import annotations

import json
import re
import time
import urllib.parse
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.sovereign.epyc.plugins.plugin_utils._serving_page import serving_html
from vepyc.container import running_container
from vepyc.images import debian_packages
from vepyc.llama import llama_cpp
from vepyc.playbook_runs import PlaybookRun, run_playbook, write_inventory

from ..fixtures.containers import BUILD, MODELS, ServiceHost

pytestmark = pytest.mark.slow

ROLE = Path(__file__).parents[2] / "roles/epyc_monitoring/files"
PARTS = "/opt/parts"
FOLDER = "/etc/prometheus/sovereign-epyc"
CHAT = {"name": "chat", "port": 8080, "alias": "m"}
PACKAGES = ("prometheus", "prometheus-node-exporter", *debian_packages.HAPROXY)
#: Before one server with one slot, as the role epyc_gateway names things.
HAPROXY = """
defaults
  mode http
  timeout connect 5s
  timeout client 100s
  timeout server 100s
frontend api
  bind 127.0.0.1:8443
  default_backend model_m
backend model_m
  server one:chat 127.0.0.1:8080 maxconn 1
frontend metrics
  bind 127.0.0.1:8405
  http-request use-service prometheus-exporter if { path /metrics }
"""
PROMETHEUS = f"""
global: {{scrape_interval: 1s, evaluation_interval: 1s}}
rule_files: [{FOLDER}/*.rules.yml]
scrape_config_files: [{FOLDER}/scrape.yml]
"""
START = f"""
set -e
mkdir -p {PARTS} /run/textfile
for deb in /srv/packages/*.deb; do dpkg-deb --extract $deb {PARTS}; done
cat >/run/haproxy.cfg
export LD_LIBRARY_PATH={PARTS}/usr/lib/x86_64-linux-gnu
sovereign-epyc check --textfile /run/textfile/sovereign-epyc.prom || [ $? = 2 ]
run() {{ unit=$1; shift; systemd-run --quiet --setenv=LD_LIBRARY_PATH --unit=$unit "$@"; }}
run gate {PARTS}/usr/sbin/haproxy -db -f /run/haproxy.cfg
run node {PARTS}/usr/bin/prometheus-node-exporter --collector.textfile.directory=/run/textfile
run prometheus {PARTS}/usr/bin/prometheus --config.file=/run/prometheus.yml --storage.tsdb.path=/run/tsdb
timeout 60 bash -c 'until (exec 3<>/dev/tcp/127.0.0.1/9090) 2>/dev/null; do sleep 0.2; done'
"""
#: What this container has none of, and why; each is on a real or virtual host.
ABSENT = {
    "sovereign_epyc_l3_occupancy_bytes": "a container has no resctrl",
    "sovereign_epyc_memory_bytes_total": "a container has no resctrl",
    "sovereign_epyc_hugepages": "it may have no pool",
    "sovereign_epyc_memory_bandwidth_share": "nothing was measured",
    "sovereign_epyc_repair_given_up": "nothing was repaired",
    "sovereign_epyc_measured_over_ceiling": "nothing was measured",
    "node_cpu_scaling_frequency_hertz": "a virtual machine has no cpufreq",
}
#: Selectors, ranges and labels of PromQL, and its words that are no metrics.
ASIDE = re.compile(r"\{[^}]*\}|\[[^\]]*\]|\b(?:by|on) *\([^)]*\)")
METRIC = re.compile(r"\b[A-Za-z_:][\w:]*\b(?! *\()")
WORDS = {"and", "or", "unless"}


def queries_by_dashboard() -> dict[str, list[str]]:
    """The queries by dashboard, and those of the page of what is served."""
    found = {"serving": [*serving_html.QUERIES.values()]}
    for file in sorted(ROLE.glob("dashboards/*.json")):
        panels = json.loads(file.read_text())["panels"]
        found[file.stem] = [target["expr"] for one in panels for target in one["targets"]]
    return found


def metrics_in_query(query: str) -> set[str]:
    return set(METRIC.findall(ASIDE.sub(" ", query))) - WORDS


class Watched(ServiceHost):
    """The host, and Prometheus on it."""

    def watch(self, *arguments: str) -> PlaybookRun:
        folder = self.folder / "watch"
        folder.mkdir(exist_ok=True)
        mine = {
            **self.box.inventory_variables(),
            "epyc_llama_instances": self.with_test_model(CHAT),
            "epyc_monitoring_service": "",
        }
        name = self.box.name
        write_inventory(folder, {name: mine}, epyc_monitoring={name: {}}, epyc_gateway={name: {}})
        return run_playbook(folder, "playbooks/monitoring.yml", *arguments)

    def get(self, path: str, **words: str) -> Any:
        status, text = self.send_request(9090, f"/api/v1/{path}?{urllib.parse.urlencode(words)}")
        assert status == 200, text
        return json.loads(text)["data"]


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Watched]:
    build, model = llama_cpp.ensure_llama(), llama_cpp.ensure_model()
    binds = {
        build: BUILD,
        model.parent: MODELS,
        debian_packages.fetch_packages("trixie", *PACKAGES)[0].parent: "/srv/packages",
    }
    with running_container("monitoring", binds) as box:
        yield Watched(box, tmp_path_factory.mktemp("monitoring"))


def test_a_check_writes_nothing_and_a_second_run_changes_nothing(host: Watched) -> None:
    host.serve(CHAT)
    checked = host.watch("--check")
    assert checked.returncode == 0, checked.output
    assert "sovereign-epyc" not in host.run("ls /etc/prometheus 2>&1", check=False)
    played = host.watch()
    assert played.returncode == 0, played.output
    assert host.watch().changed_results == {}
    (target,) = json.loads(host.run(f"cat {FOLDER}/targets/llama.json"))
    assert target["targets"] == ["127.0.0.1:8080"] and target["labels"]["speculation"] == "ngram"


def test_each_query_of_a_panel_has_an_answer_after_some_traffic(host: Watched) -> None:
    host.run(f"cat >/run/prometheus.yml <<'END'\n{PROMETHEUS}\nEND")
    host.run(START, text=HAPROXY)
    end = time.monotonic() + 60
    while {one["health"] for one in host.get("targets")["activeTargets"]} != {"up"}:
        assert time.monotonic() < end, host.get("targets")
        time.sleep(1)
    # It goes on with what stands in it already, so that guesses are right.
    prompt = "one two three four five six seven eight nine ten\n" * 3 + "one two three"
    body = {"prompt": prompt, "n_predict": 24, "ignore_eos": True, "temperature": 0}
    for _dummy in range(12):
        assert host.send_request(8443, "/completion", body)[0] == 200
        time.sleep(0.7)
    known = set(host.get("label/__name__/values"))
    for name, queries in queries_by_dashboard().items():
        for query in queries:
            # Nothing is stored on this host, which its check calls unknown: that is what there is in place of drift.
            asked = query.replace("$host", host.box.name).replace('status="drift"', 'status="unknown"')
            unknown = metrics_in_query(query) - known
            assert unknown <= set(ABSENT), f"{name}: {query} names {unknown - set(ABSENT)}"
            if not unknown:
                assert host.get("query", query=asked)["result"], f"{name}: {query} has no answer"


def test_no_alert_fires_where_all_is_well(host: Watched) -> None:
    groups = host.get("rules")["groups"]
    rules = [rule for group in groups for rule in group["rules"]]
    assert len(rules) > 10 and all(rule["health"] == "ok" for rule in rules), rules
    assert [one["labels"]["alertname"] for one in host.get("alerts")["alerts"] if one["state"] == "firing"] == []
    named = {metric for rule in rules for metric in metrics_in_query(rule["query"])}
    assert named - set(host.get("label/__name__/values")) <= set(ABSENT)
