# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Prometheus, Alertmanager and node exporters of Debian in containers, as services of their systemd."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from .container import Container
from .images import debian_packages

#: Where containers have the programs and the folder of the metrics that the node exporters read.
PARTS, TEXTFILES = "/opt/parts", "/run/textfiles"
#: Where monitoring.yml puts its files.
FOLDER = "/etc/prometheus/sovereign-epyc"
PORTS = {"prometheus": 9090, "alertmanager": 9093}
_PROMETHEUS = f"""
global: {{scrape_interval: 2s, evaluation_interval: 2s}}
rule_files: [{FOLDER}/*.rules.yml]
scrape_config_files: [{FOLDER}/scrape.yml]
alerting: {{alertmanagers: [{{static_configs: [{{targets: ["127.0.0.1:{PORTS["alertmanager"]}"]}}]}}]}}
"""
_ALERTMANAGER = "route: {receiver: nobody}\nreceivers: [{name: nobody}]\n"


def ensure_programs() -> Path:
    """Return the folder with the programs, which a container needs at PARTS; download what is missing first."""
    names = ("prometheus", "prometheus-alertmanager", "prometheus-node-exporter")
    return debian_packages.ensure_extracted("trixie", *names)


def start_as_unit(box: Container, unit: str, *words: str) -> None:
    """Run a program in a container as a service."""
    box.run(f"systemd-run --quiet --unit={unit} {' '.join(words)}")


def start_monitoring(boxes: Sequence[Container]) -> None:
    """Start a node exporter in each container; in the first one, which monitoring.yml has set up, the rest too."""
    for box in boxes:
        node = f"{PARTS}/usr/bin/prometheus-node-exporter"
        start_as_unit(box, "node-exporter", node, f"--collector.textfile.directory={TEXTFILES}")
    first = boxes[0]
    # Alertmanager reads its templates there.
    first.run(f"ln -s {PARTS}/usr/share/prometheus /usr/share/")
    first.run("cat >/run/prometheus.yml", input=_PROMETHEUS)
    first.run("cat >/run/alertmanager.yml", input=_ALERTMANAGER)
    for name, port in PORTS.items():
        program = f"{PARTS}/usr/bin/prometheus{'-alertmanager' if name == 'alertmanager' else ''}"
        store = "--storage.tsdb.path" if name == "prometheus" else "--cluster.listen-address= --storage.path"
        address = f"--web.listen-address=127.0.0.1:{port}"
        start_as_unit(first, name, program, f"--config.file=/run/{name}.yml", f"{store}=/run/{name}", address)
