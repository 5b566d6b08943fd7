# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Counts the requests that fail while an instance is updated many times, and compares outages with their forecasts."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

from vepyc.container import Container
from vepyc.figures import Bar, Figures
from vepyc.images import debian_packages

#: The package nftables, and its dependencies that the image of the containers lacks.
NFTABLES = ("nftables", "libnftables1", "libnftnl11", "libjansson4", "libxtables12", "libedit2", "libbsd0")
#: The folder in the container to which the packages are bound.
PACKAGE_FOLDER = "/srv/packages"
#: The program of the clients, which send short and streamed requests until a file exists.
CLIENTS = Path(__file__).parents[2] / "tests/fixtures/programs/constant_traffic.py"
PROGRAM, END_FILE, RESULT_FILE = "/run/constant_traffic.py", "/run/traffic.end", "/run/traffic.json"
INSTANCE = {"name": "chat", "port": 8080, "slots": 4, "prompt_cache": "0MiB", "restart_limit": 1000}
UPDATES, OUTAGES = 30, 5
NO_FAILURE, WITHIN_A_FIFTH = Bar("<=", 0), Bar(">=", 0.8)


def fetch_nftables_packages() -> Path:
    """Return the folder with the packages of nftables for the container."""
    return debian_packages.fetch_packages("trixie", *NFTABLES)[0].parent


def measure_updates(
    box: Container, update: Callable[[dict[str, Any]], list[dict[str, Any]]], model: str, figures: Figures
) -> None:
    """Print how many requests failed over all updates.

    ``update`` puts an instance into service in the container, and returns the restarts that the module reports.
    """
    box.run(f"dpkg --install {PACKAGE_FOLDER}/*.deb && cat >{PROGRAM}", input=CLIENTS.read_text())
    instance = {**INSTANCE, "model": model}
    update(instance)
    command = shlex.join(["/usr/bin/python3", PROGRAM, "http://127.0.0.1:8080", END_FILE, "3", "2"])
    box.run(f"systemd-run --unit=traffic --property=StandardOutput=file:{RESULT_FILE} {command}")
    for number in range(UPDATES):
        update({**instance, "context": 8192 + 256 * number})
    box.run(f"touch {END_FILE}; while systemctl is-active --quiet traffic; do sleep 1; done")
    result = json.loads(box.run(f"cat {RESULT_FILE}").stdout)
    figures.print_figure("requests_during_updates", sum(result["counts"].values()), f"({UPDATES} updates)")
    figures.print_figure("failed_requests_during_updates", len(result["failures"]), "", NO_FAILURE)


def measure_outages(
    update: Callable[[dict[str, Any]], list[dict[str, Any]]], deep_model: str, figures: Figures
) -> None:
    """Print how far outages were from their forecasts, with a model that takes some seconds to load."""
    instance = {**INSTANCE, "model": deep_model}
    update(instance)
    ratios = []
    for number in range(OUTAGES):
        (restart,) = update({**instance, "context": 4096 + 256 * number, "update_order": "stop_first"})
        print(restart["message"])
        ratios.append(restart["announced_seconds"] / restart["outage_seconds"])
    ratio = median(ratios)
    figures.print_figure("announced_over_real_outage", ratio, f"x (median of {OUTAGES})", WITHIN_A_FIFTH)
    figures.print_figure("real_over_announced_outage", 1 / ratio, f"x (median of {OUTAGES})", WITHIN_A_FIFTH)
