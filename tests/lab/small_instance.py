# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Instances of a real llama-server in a guest, small enough for emulated processors."""

from __future__ import annotations

from typing import Any

from tests.fixtures.virtual_epyc import Guest
from vepyc import Machine, Preparation
from vepyc.llama.delivery import SERVER_PATH, find_server_files, write_guest_file
from vepyc.paths import compute_digest

from .random_model import random_model

BINARY, MODEL = SERVER_PATH, "/srv/model.gguf"
#: So many words make the model small, and its texts depend on all of its weights.
WORDS = 100
INTENT = {"housekeeping": {"cores": 1, "per": "node"}}
#: Here one thread emulates all processors, so a thread that spins takes time from the others: let it spin less.
SPIN = {"GOMP_SPINCOUNT": "100"}
SMALL = {
    "context": 512,
    "batch": 32,
    "ubatch": 32,
    "prompt_cache": "0MiB",
    "speculation": "none",
    "extra_environment": SPIN,
}
# Asks for a few tokens, and prints the whole answer.
ASK_FEW = """
import sys, urllib.request
body = b'{"prompt": "a", "n_predict": 8, "ignore_eos": true, "temperature": 0, "return_tokens": true}'
asked = urllib.request.Request(f"http://127.0.0.1:{sys.argv[1]}/completion", body, {"Content-Type": "application/json"})
print(urllib.request.urlopen(asked).read().decode())
"""


def serve_instances(guest: Guest, *instances: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Have these instances and no others; return their plans."""
    asked = [{**SMALL, **one} for one in instances]
    done = guest.module("llama_server", binary=BINARY, instances=asked, purge=True, intent=INTENT)
    assert not done.get("failed"), done["msg"]
    return dict(done["services"])


def with_server() -> Preparation:
    """A machine as installed, with a llama-server and a small model that somebody has brought."""
    files, model = find_server_files(), random_model(WORDS)

    def bring(machine: Machine) -> None:
        for place, path in files.items():
            write_guest_file(machine, place, path.read_bytes(), mode=755)
        write_guest_file(machine, MODEL, model)

    return Preparation("server", compute_digest([*map(str, files.values()), model]), bring)
