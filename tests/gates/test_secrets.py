# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The token of a hub is seen by nobody but the hub: a real play fetches a model over TLS, at the highest verbosity.

While the hub is asked, every process and every file that Ansible has written so far is searched for the token.
"""

from __future__ import annotations

import secrets
import sys
from collections.abc import Iterator
from contextlib import suppress
from hashlib import sha256
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import NamedTuple

import pytest
import yaml

from tests.unit.fakes.ggufs import gguf, model, tensor
from tests.unit.fakes.servers import Server, say, serving
from vepyc import playbook_runs
from vepyc.bmc.tls import ensure_tls_files

CONTENT = gguf(model(), [tensor("a", (4096,), 0, 0)]) + bytes(4 * 4096)

#: Runs a command whose writes to the store of originals of this machine are gone with it.
WITH_OWN_STORE = 'mount -t tmpfs tmpfs /var/lib && exec "$@"'


class Asked(NamedTuple):
    """A play that fetched a model, and where the token was found meanwhile."""

    output: str
    with_token: list[str]
    searched: int
    found_in: list[str]


def search(token: bytes, places: list[Path]) -> tuple[int, list[str]]:
    """Return how many files were read, and those that hold the token: files in places, and what /proc shows."""
    files = [path for place in places for path in place.rglob("*") if path.is_file()]
    files += [path for name in ("cmdline", "environ") for path in Path("/proc").glob(f"[0-9]*/{name}")]
    found, searched = [], 0
    for path in files:
        with suppress(OSError):  # a process that has ended meanwhile
            searched += 1
            if token in path.read_bytes():
                found.append(str(path))
    return searched, found


@pytest.fixture(scope="module")
def asked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Asked]:
    folder = tmp_path_factory.mktemp("secrets")
    token = f"hf_{secrets.token_hex(12)}"
    seen: list[tuple[int, list[str]]] = []

    def answer(request: BaseHTTPRequestHandler) -> None:
        if request.headers.get("Authorization") != f"Bearer {token}":
            say(request, 401)
            return
        # What Ansible keeps on the controller and on the host, which both are this machine.
        seen.append(search(token.encode(), [folder / "local", folder / "remote"]))
        say(request, 200, CONTENT, ETag='"x"')

    play = [
        {
            "hosts": "localhost",
            "gather_facts": False,
            "tasks": [
                {
                    "sovereign.epyc.model_file": {
                        "path": str(folder / "models/m.gguf"),
                        "url": "{{ hub }}/m.gguf",
                        "checksum": [f"sha256:{sha256(CONTENT).hexdigest()}"],
                        "token": "{{ lookup('ansible.builtin.file', token_path) }}",
                        "reserve": "1MiB",
                    },
                    "register": "fetched",
                },
                {"ansible.builtin.debug": {"var": "fetched"}},
            ],
        }
    ]
    (folder / "token").write_text(token)
    (folder / "play.yml").write_text(yaml.safe_dump(play))
    tls = ensure_tls_files(folder)
    with serving(answer) as server:
        server.http.socket = tls.build_context().wrap_socket(server.http.socket, server_side=True)
        done = playbook_runs.run_command(
            *("unshare", "--mount", "sh", "-c", WITH_OWN_STORE, "sh"),
            *("ansible-playbook", "-i", "localhost,", "-c", "local", "-vvvv", "--diff", str(folder / "play.yml")),
            *("-e", f"ansible_python_interpreter={sys.executable}", "-e", f"token_path={folder / 'token'}"),
            *("-e", f"hub={server.url.replace('http:', 'https:')}"),
            ANSIBLE_LOCAL_TEMP=str(folder / "local"),
            ANSIBLE_REMOTE_TMP=str(folder / "remote"),
            ANSIBLE_KEEP_REMOTE_FILES="1",
            SSL_CERT_FILE=str(tls.ca),
        )
        assert done.returncode == 0, done.stdout
        yield Asked(done.stdout, _which_had(server, token), sum(count for count, dummy in seen), [
            path for dummy, found in seen for path in found
        ])  # fmt: skip
    assert (folder / "models/m.gguf").read_bytes() == CONTENT


def _which_had(server: Server, token: str) -> list[str]:
    return [method for method, dummy, headers in server.requests if headers.get("Authorization") == f"Bearer {token}"]


def test_the_token_of_a_hub_is_in_no_output(asked: Asked) -> None:
    assert "fetched" in asked.output
    assert asked.with_token, "the hub was asked without the token, so that nothing was shown"
    assert "hf_" not in asked.output


def test_the_token_of_a_hub_is_in_no_process_and_no_file(asked: Asked) -> None:
    assert asked.searched > 10
    assert asked.found_in == []
    assert [*Path("/run").glob("sovereign-epyc-*.token")] == []
