# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Drift of a tuned machine is put back: by the module, and by an alert through the real Alertmanager and rulebook."""

from __future__ import annotations

import secrets
import subprocess
import time
import urllib.request

import pytest

from tests.fixtures.rulebooks import post, run_rulebook, wait_until
from vepyc.images import debian_packages

pytestmark = pytest.mark.slow

#: Another share of the cache than the draft has, and the only one of its domain that is changed here.
OTHER = "echo 'L3:2=ffff' >/sys/fs/resctrl/draft/schemata"
ALERTMANAGER = """
route:
  receiver: people
  group_by: [host, role]
  group_wait: 1s
  routes:
    - matchers: [alertname="EpycDrift"]
      receiver: repair
      group_wait: 1s
      group_interval: 1s
receivers:
  - name: people
  - name: repair
    webhook_configs:
      - url: http://127.0.0.1:5001/alerts
        http_config: {authorization: {type: Bearer, credentials_file: TOKEN}}
"""


@pytest.fixture(scope="module")
def host(tuned_guest):
    return tuned_guest


def draft_group_mask(guest):
    return guest.masks("draft")[2]


def repair_results(guest, **asked):
    """What the module did, by what became of it."""
    found = guest.module("epyc_repair", **asked)
    assert not found.get("failed"), found
    return {name: [one["what"] for one in found[name]] for name in ("repaired", "given_up", "left") if found[name]}


def test_a_third_time_within_a_day_is_given_up(host):
    before = draft_group_mask(host)
    grub = "sha256sum /etc/default/grub.d/*"
    kept = host.run(grub)
    assert repair_results(host) == {}
    for _dummy in range(2):
        host.run(OTHER)
        assert repair_results(host, roles=["irq", "numa"]) == {} and draft_group_mask(host) == "ffff", (
            "a layer that was not asked for"
        )
        assert repair_results(host, _ansible_check_mode=True) == {"repaired": ["L3 share of group draft"]}
        assert draft_group_mask(host) == "ffff"
        assert repair_results(host) == {"repaired": ["L3 share of group draft"]} and draft_group_mask(host) == before
    host.run(OTHER)
    assert repair_results(host) == {"given_up": ["L3 share of group draft"]} and draft_group_mask(host) == "ffff"
    assert host.run("sovereign-epyc repair cat; echo $?", check=False).splitlines()[-1] == "2"
    told = host.run("sovereign-epyc check --textfile /run/epyc.prom >/run/said; cat /run/epyc.prom")
    assert 'sovereign_epyc_repair_given_up{layer="resctrl",what="L3 share of group draft"' in told
    assert host.run(grub) == kept, "boot parameters are for people"
    # As after a day.
    host.run("rm /var/lib/sovereign-epyc/repairs.json")
    assert repair_results(host) == {"repaired": ["L3 share of group draft"]} and draft_group_mask(host) == before
    host.run("rm /var/lib/sovereign-epyc/repairs.json")


@pytest.fixture(scope="module")
def loop(host, tmp_path_factory):
    """Alertmanager and the rulebook: a function that calls an alert as Prometheus would, and the log of the latter."""
    folder = tmp_path_factory.mktemp("loop")
    token = secrets.token_hex(16)
    (folder / "token").write_text(token)
    (folder / "alertmanager.yml").write_text(ALERTMANAGER.replace("TOKEN", str(folder / "token")))
    package = debian_packages.ensure_extracted("bookworm", "prometheus-alertmanager") / "usr"
    # It reads its templates where the package would have put them.
    shared = f"mount -t tmpfs none /usr/share && ln -s {package}/share/prometheus /usr/share/ && exec"
    web = "--web.listen-address=127.0.0.1:9093 --cluster.listen-address="
    files = f"--config.file={folder}/alertmanager.yml --storage.path={folder}/alerts"
    alertmanager = ["unshare", "--mount", "sh", "-c", f"{shared} {package}/bin/prometheus-alertmanager {web} {files}"]
    with run_rulebook(folder, host.folder, token) as log, (folder / "alertmanager.log").open("w") as other:
        started = subprocess.Popen(alertmanager, stdout=other, stderr=other)
        try:
            answers = "http://127.0.0.1:9093/api/v2/alerts"
            wait_until(lambda: post(answers, []) == 200, folder / "alertmanager.log")
            yield lambda **labels: send_alert(host, **labels), log
        finally:
            started.terminate()
            started.wait()


def notified():
    """How many messages Alertmanager has sent to the rulebook."""
    told = urllib.request.urlopen("http://127.0.0.1:9093/metrics", timeout=10).read().decode()
    name = 'alertmanager_notifications_total{integration="webhook"}'
    return next(float(line.split()[1]) for line in told.splitlines() if line.startswith(name))


def send_alert(host, **labels):
    told = {"alertname": "EpycDrift", "host": host.machine.name, "role": "cat", "live": "drift"}
    alert = {"labels": {**told, "pending_reboot": "false", **labels}}
    assert post("http://127.0.0.1:9093/api/v2/alerts", [alert]) == 200


def test_an_alert_is_repaired_and_what_it_must_not_touch_is_not(host, loop):
    call, log = loop
    before = draft_group_mask(host)
    host.run(OTHER)
    call(role="grub_params", what="isolcpus")
    call(what="waits", pending_reboot="true")
    begun = time.monotonic()
    call(what="L3 share of group draft")
    wait_until(lambda: draft_group_mask(host) == before, log)
    print(f"repaired {time.monotonic() - begun:.0f} s after the alert")
    wait_until(lambda: "PLAY RECAP" in log.read_text(), log)
    # The same again within five minutes.
    host.run(OTHER)
    sent = notified()
    call(what="L3 share of group draft", again="yes")
    wait_until(lambda: notified() > sent, log)
    time.sleep(5)
    assert draft_group_mask(host) == "ffff"
    assert log.read_text().count("PLAY [Repair what has drifted]") == 1, log.read_text()
    assert post("http://127.0.0.1:5001/alerts", {"alerts": []}, "another") == 401
