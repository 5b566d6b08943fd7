# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""recommend.yml on a bare machine, for a model on a server; site.yml --check, which plans first, takes what it writes.

That the instances start is seen in tests/service: on an emulated processor a server takes minutes to be tried.
"""

from __future__ import annotations

import json
import subprocess

import pytest
import yaml

from ansible_collections.sovereign.epyc.plugins.module_utils._models import zero_model
from vepyc.llama.delivery import write_guest_file
from vepyc.llama.llama_cpp import GUEST, ensure_llama

pytestmark = pytest.mark.slow

#: A server of files that knows no ranges and says no checksums.
SERVE = "systemd-run --quiet --unit=files python3 -m http.server --bind 127.0.0.1 --directory /run/files 8765"
URL = "http://127.0.0.1:8765/model.gguf"
#: The default of the role epyc_llama.
PROGRAM = "/usr/bin/llama-server"
CHECKSUM = f"sha256:{'0' * 64}"
LISTENS = "timeout 30 sh -c 'until ss -ltn | grep -q :8765; do sleep 0.1; done'"


@pytest.fixture
def host(bare_guest):
    """The machine with a small model on a server, llama-server, and a place for this test's variables."""
    command = [*bare_guest.machine.ssh_command(), "mkdir /run/files && cat >/run/files/model.gguf"]
    subprocess.run(command, cwd=bare_guest.machine.run_dir.path, input=zero_model.build_zero_model_file(), check=True)
    bare_guest.run(f"{SERVE} && {LISTENS}")
    write_guest_file(bare_guest.machine, PROGRAM, (ensure_llama(GUEST) / "bin/llama-server").read_bytes(), 755)
    variables = bare_guest.folder / "host_vars" / f"{bare_guest.machine.name}.yml"
    variables.parent.mkdir()
    yield bare_guest, variables
    variables.unlink(missing_ok=True)
    variables.parent.rmdir()
    bare_guest.run(f"systemctl stop files; rm -r /run/files {PROGRAM}")


def test_what_is_recommended_can_be_had(host):
    guest, variables = host
    asked = {
        "epyc_recommend_models": {"model": URL, "checksum": CHECKSUM},
        "epyc_recommend_write": str(variables),
        "epyc_llama_install": "package",
    }
    shown = guest.play("playbooks/recommend.yml", "-e", json.dumps(asked))["Recommend"]
    assert variables.read_text() == shown["text"]
    written = yaml.safe_load(shown["text"])
    assert (written["epyc_plan_sku"], written["epyc_llama_instances"][0]["context_per_slot"]) == ("9754", 512)
    checked = guest.play("playbooks/site.yml", "--check")
    plan = checked["Read the topology and plan"]["ansible_facts"]["epyc"]["plan"]
    # No driver tells the width of masks on a bare host.
    assert plan["resctrl"]["groups"] == [{"name": "verify", "cpus": "1-15", "l3": {"0-3": "75%"}}]
    (fetched,) = checked["Fetch or verify the models"]["results"]
    assert fetched["diff"]["changes"]["after"] == {"model_file:/srv/models/model.gguf": CHECKSUM}
    assert guest.run("ls /srv/models /var/lib/sovereign-epyc", check=False) == ""
