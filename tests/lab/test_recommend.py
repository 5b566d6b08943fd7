# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""recommend.yml on a bare machine: site.yml --check, which plans first, takes what it writes, with a real server."""

from __future__ import annotations

import subprocess

import pytest
import yaml

from ansible_collections.sovereign.epyc.plugins.module_utils._models import blank
from vepyc.llama import ensure_llama

BINARY, MODEL = "/opt/recommended/llama-server", "/srv/models/model.gguf"
#: All CPUs but the housekeeping, which is the first one of each node.
BUSY = "1-3,5-7,9-11,13-15"


def put(guest, path, data, mode):
    """Write a file of the guest."""
    command = f"mkdir -p {path.rpartition('/')[0]} && cat >{path} && chmod {mode} {path}"
    subprocess.run([*guest.machine.ssh_command(), command], cwd=guest.machine.run_dir.path, input=data, check=True)


@pytest.fixture
def host(guest):
    """The machine with a server and a small model, and nothing recommended in its inventory but during the test."""
    put(guest, BINARY, (ensure_llama() / "bin/llama-server").read_bytes(), 755)
    put(guest, MODEL, blank.contents(), 644)
    variables = guest.folder / "host_vars" / f"{guest.machine.name}.yml"
    variables.parent.mkdir()
    yield guest, variables
    variables.unlink(missing_ok=True)
    variables.parent.rmdir()
    guest.run(f"rm -r {BINARY.rpartition('/')[0]} {MODEL.rpartition('/')[0]}")


def test_what_is_recommended_can_be_had(host):
    guest, variables = host
    before = guest.everything()
    given = ("-e", f"recommend_models={MODEL}", "-e", f"recommend_write={variables}", "-e", f"llama_binary={BINARY}")
    shown = guest.play("playbooks/recommend.yml", *given)["Recommend"]
    written = yaml.safe_load(variables.read_text())
    assert variables.read_text() == shown["text"]
    (instance,) = written["llama_instances"]
    assert (written["plan_sku"], written["llama_binary"], instance["context"]) == ("9754", BINARY, 512)
    checked = guest.play("playbooks/site.yml", "--check")
    planned = checked["Read the topology and plan"]["ansible_facts"]["epyc"]["plan"]
    # No driver tells the width of masks on a bare host.
    assert planned["resctrl"]["groups"] == [{"name": "verify", "cpus": BUSY, "l3": {"0-3": "75%"}}]
    services = checked["Run the instances"]["services"]
    assert services[instance["name"]]["need"] == shown["services"][instance["name"]]["need"]
    assert services[instance["name"]]["busy_cpus"] == BUSY
    assert guest.changed_since(before) == {}
