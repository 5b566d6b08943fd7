# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The first step on one's own server: what docs/quickstart.md says, read out of the page and run as it stands there.

The server is a container, with a hub of its own behind the address that the page has for the model. What the test has
in place of what the page says: the archive of the sources and its checksum, because the lab has another archive, which
it has built already with the options of this build; and no prompt cache, because the machine may have little memory.
What it adds: how the container is reached, and epyc_steps, because the kernel is that of this machine and none of its
settings may change.
"""

from __future__ import annotations

import hashlib
import json
import re
import shlex
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
import yaml

from vepyc.container import Container, running_container
from vepyc.llama import llama_cpp
from vepyc.playbook_runs import run_command

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
SECTION = (ROOT / "docs/quickstart.md").read_text().partition("## On one server, to the first token\n")[2]
INVENTORY, COMMANDS = (re.findall(rf"```{language}\n(.*?)```", SECTION, re.DOTALL)[0] for language in ("yaml", "bash"))
#: The group of servers in the inventory of the page, with one host, and its variables.
SERVERS: dict[str, Any] = yaml.safe_load(INVENTORY)["epyc_servers"]
ASKED: dict[str, Any] = SERVERS["vars"]
LAYERS = ["base", "llama"]
#: Where the model is that the hub in the container serves.
SERVED = "/srv/hub/model.gguf"
#: A hub, with its certificate in the first argument: it states the digest and the size, and redirects to its store.
HUB = """
import http.server, os, ssl, sys
certificate, model, digest, file = sys.argv[1:]

class Hub(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        size = str(os.stat(model).st_size)
        stored = self.path == "/store"
        self.send_response(200 if stored else 302 if self.path == file else 404)
        linked = {"X-Linked-ETag": f'"{digest}"', "X-Linked-Size": size, "Location": "/store", "Content-Length": "0"}
        for name, value in ({"Content-Length": size} if stored else linked).items():
            self.send_header(name, value)
        self.end_headers()
        if stored and self.command == "GET":
            with open(model, "rb") as content:
                self.wfile.write(content.read())

    do_HEAD = do_GET

server = http.server.ThreadingHTTPServer(("127.0.0.1", 443), Hub)
context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
context.load_cert_chain(certificate)
server.socket = context.wrap_socket(server.socket, server_side=True)
server.serve_forever()
"""

#: Package lists of a host that have another package than the one with the server.
OTHER_SOURCES = """
set -e
rm -f /etc/apt/sources.list.d/*
mkdir -p /srv/repository
printf 'Package: other\\nVersion: 1\\nArchitecture: all\\nFilename: ./o.deb\\nSize: 1\\n' >/srv/repository/Packages
echo 'deb [trusted=yes] file:/srv/repository ./' >/etc/apt/sources.list
apt-get update
"""


def page_commands() -> list[list[str]]:
    """Return the words of each command of the page, without its comment."""
    return [shlex.split(line, comments=True) for line in COMMANDS.splitlines()]


def make_certificate(folder: Path, host: str) -> str:
    """Return the certificate of a host, signed by itself, and its key."""
    key, certificate = folder / "hub.key", folder / "hub.crt"
    extensions = (f"subjectAltName=DNS:{host}", "keyUsage=critical,digitalSignature,keyCertSign")
    command = [
        "openssl",
        "req",
        "-x509",
        "-newkey",
        "ec",
        "-pkeyopt",
        "ec_paramgen_curve:P-256",
        "-nodes",
        "-days",
        "9",
    ]
    command += [word for extension in extensions for word in ("-addext", extension)]
    command += ["-subj", f"/CN={host}", "-keyout", str(key), "-out", str(certificate)]
    subprocess.run(command, check=True, capture_output=True)
    return certificate.read_text() + key.read_text()


def start_hub(box: Container, certificate: str, address: str, digest: str) -> None:
    """Serve the model in the container at the address of the page, and have the container trust the certificate."""
    url = urlsplit(address)
    box.run(
        f"echo 127.0.0.1 {url.hostname} >>/etc/hosts; mkdir -p /usr/lib/ssl; umask 077; cat >/run/hub.pem",
        input=certificate,
    )
    box.run(
        "openssl=/usr/lib/ssl/cert.pem; sed -n '/BEGIN CERT/,/END CERT/p' /run/hub.pem >$openssl; chmod 644 $openssl"
    )
    box.run("cat >/run/hub.py", input=HUB)
    words = shlex.join(["python3", "/run/hub.py", "/run/hub.pem", SERVED, digest, url.path])
    box.run(f"systemd-run --quiet --unit=hub {words}")


def requests_of_hub(box: Container) -> list[str]:
    """Return the requests that the hub had, as 'HEAD /path'."""
    text = box.run("journalctl --sync; journalctl --quiet --unit=hub --output=cat").stdout
    return re.findall(r'"((?:GET|HEAD) \S+)', text)


class Controller:
    """Runs the commands of the page in a folder with its mine.yml, from the clone or from the installed archive."""

    def __init__(self, box: Container, folder: Path, archive: bool) -> None:
        self.box = box
        self.folder = folder
        self.archive = archive
        self.environment = {"ANSIBLE_COLLECTIONS_PATH": str(folder / "collections")} if archive else {}
        dummy, source = llama_cpp.build_request()
        replaced = {"epyc_llama_source_archive": source["archive"], "epyc_llama_source_checksum": source["checksum"]}
        instances = [{**instance, "prompt_cache": "0MiB"} for instance in ASKED["epyc_llama_instances"]]
        self.variables = {**ASKED, **replaced, "epyc_llama_instances": instances}
        self.write_inventory(self.variables)
        added = {**box.inventory_variables(), "epyc_steps": LAYERS, "epyc_llama_cmake_options": source["cmake_options"]}
        (folder / "added.json").write_text(json.dumps(added))

    def install(self) -> None:
        """Install the collection as users do who have the archive."""
        for words in (
            ("build", "--output-path", str(self.folder), str(ROOT)),
            ("install", "--offline", "-p", str(self.folder / "collections"), "sovereign-epyc-1.0.0.tar.gz"),
        ):
            done = run_command("ansible-galaxy", "collection", *words, cwd=self.folder)
            assert done.returncode == 0, done.stdout

    def write_inventory(self, variables: dict[str, Any]) -> None:
        """Write mine.yml, the inventory of the page, with these variables."""
        (self.folder / "mine.yml").write_text(yaml.safe_dump({"epyc_servers": {**SERVERS, "vars": variables}}))

    def run_command(self, words: Sequence[str]) -> subprocess.CompletedProcess[str]:
        """Run a command of the page; mine.yml is named by its path, because a clone runs from its own folder."""
        words = [f"{self.folder}/mine.yml" if word == "mine.yml" else word for word in words]
        if self.archive:
            words = [re.sub(r"^playbooks/(\w+)\.yml$", r"sovereign.epyc.\1", word) for word in words]
        added = ("-e", f"@{self.folder}/added.json")
        return run_command(*words, *added, cwd=self.folder if self.archive else ROOT, **self.environment)


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Container, str]]:
    """A stock host, with a hub behind the address of the page's model, and the digest that the hub states."""
    folder = tmp_path_factory.mktemp("hub")
    build, model, (archive, source) = llama_cpp.ensure_llama(), llama_cpp.ensure_model(), llama_cpp.build_request()
    digest = hashlib.sha256(model.read_bytes()).hexdigest()
    (address,) = [entry["url"] for entry in ASKED["epyc_llama_models"]]
    binds = {archive: source["archive"], model: SERVED}
    with running_container("quickstart", binds, {build.parent: llama_cpp.BUILD_FOLDER}) as box:
        start_hub(box, make_certificate(folder, str(urlsplit(address).hostname)), address, digest)
        yield box, digest


def test_the_page_asks_for_what_it_promises() -> None:
    (model,) = ASKED["epyc_llama_models"]
    assert set(model) == {"path", "url"}, "no checksum"
    assert [instance["model"] for instance in ASKED["epyc_llama_instances"]] == [model["path"]]
    names = [Path(word).stem for words in page_commands() for word in words if word.startswith("playbooks/")]
    assert names == ["plan", "site", "site", "ask"]


@pytest.mark.parametrize("archive", [False, True], ids=["clone", "archive"])
def test_the_page_runs_as_it_is_written(served: tuple[Container, str], tmp_path: Path, archive: bool) -> None:
    """The second time, from the archive, finds a host that serves already, as another controller would."""
    box, digest = served
    controller = Controller(box, tmp_path, archive)
    if archive:
        controller.install()
    (model,) = ASKED["epyc_llama_models"]
    for words in page_commands():
        before = requests_of_hub(box)
        done = controller.run_command(words)
        # A check of a host that is not as it was asked for ends with 2 where the callback decides, which the clone has.
        allowed = (0, 2) if "--check" in words else (0,)
        assert done.returncode in allowed and "failed=0" in done.stdout, f"{shlex.join(words)}\n{done.stdout}"
        if "--check" in words:
            assert "GET" not in {line.split()[0] for line in requests_of_hub(box)[len(before) :]}, "it was fetched"
    assert box.run(f"sha256sum {model['path']}").stdout.split()[0] == digest
    assert box.run("systemctl is-active llama-chat.service").stdout == "active\n"
    asked = requests_of_hub(box)
    again = controller.run_command(page_commands()[2])
    assert again.returncode == 0 and re.search(r"\bchanged=0\b", again.stdout), again.stdout
    assert asked and requests_of_hub(box) == asked, "the hub was asked again"


def test_what_cannot_be_had_is_refused_before_the_first_change(served: tuple[Container, str], tmp_path: Path) -> None:
    """A package that the host's sources do not have, and a model of a server that states no checksum, at once."""
    box, dummy = served
    controller = Controller(box, tmp_path, archive=False)
    other = {"path": "/srv/models/other.gguf", "url": "http://models.example.com/other.gguf"}
    asked = {
        **controller.variables,
        "epyc_llama_install": "package",
        "epyc_llama_models": [*ASKED["epyc_llama_models"], other],
    }
    controller.write_inventory(asked)
    box.run(OTHER_SOURCES)
    state = "find /etc /srv /var/lib -xdev -newer /run/marker -not -path '/var/lib/apt/*' -type f"
    box.run("touch /run/marker")
    for words in page_commands()[1:3]:
        done = controller.run_command(words)
        text = " ".join(done.stdout.split())
        assert done.returncode != 0 and "There is no package llama.cpp in the package sources of Debian" in text, text
        assert (
            "epyc_llama_models[1].checksum, of /srv/models/other.gguf: http://models.example.com/other.gguf is" in text
        )
        assert "Add the line 'checksum: sha256:HEX'" in text and "Nothing was changed." in text
        assert re.search(r"\bchanged=0\b", done.stdout), done.stdout
        assert box.run(state).stdout == ""
