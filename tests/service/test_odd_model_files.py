# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Model files that are odd in one way each: refused while an instance runs and goes on running, or served."""

from __future__ import annotations

import base64
import io
import tarfile

import pytest

from ansible_collections.sovereign.epyc.tests.unit.fakes import heads, odd_models

pytestmark = pytest.mark.slow

CHAT = {"name": "chat", "port": 8080}
MODELS = "/var/lib/models/odd"
MISSING = "cannot be read: No such file or directory"
#: Copies of the test model whose room was reserved, and of which the last half, or a half in the middle, never came.
HOLES = """
import sys
content = open(sys.argv[1], "rb").read()
quarter = len(content) // 4
for name, begin in (("endzero", 2 * quarter), ("midzero", quarter)):
    with open(f"{sys.argv[2]}/{name}.gguf", "wb") as file:
        file.write(content[:begin])
        file.seek(2 * quarter, 1)
        file.write(content[begin + 2 * quarter :])
        file.truncate(len(content))
"""
PARTS = list(odd_models.list_models_in_parts())
#: By name of the file: words of the sentence that refuses it.
REFUSED = {
    **{f"{name}.gguf": words for name, (dummy, words) in odd_models.REFUSED.items()},
    **{f"{name}/{named}": MISSING for name, dummy, named, is_whole in PARTS if not is_whole},
    "endzero.gguf": "has only zeros in the tensor blk.",
    "midzero.gguf": "has only zeros in the tensor blk.",
}
SERVED = {
    **{name: f"{name}.gguf" for name in odd_models.SERVED},
    **{name: f"{name}/{named}" for name, dummy, named, is_whole in PARTS if is_whole},
}


def pack_files() -> str:
    """Return all files as a compressed archive in base64."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz", compresslevel=1) as archive:
        for name, make in {
            **{name: make for name, (make, dummy) in odd_models.REFUSED.items()},
            **odd_models.SERVED,
        }.items():
            add_file(archive, f"{name}.gguf", make())
        for name, parts, *dummy in PARTS:
            for part, content in parts.items():
                add_file(archive, f"{name}/{part}", content)
    return base64.b64encode(packed.getvalue()).decode()


def add_file(archive: tarfile.TarFile, name: str, content: bytes) -> None:
    info = tarfile.TarInfo(name)
    info.size, info.mode = len(content), 0o644
    archive.addfile(info, io.BytesIO(content))


@pytest.fixture(scope="module", autouse=True)
def files(service_host):
    unpack = f"mkdir -p {MODELS} && base64 -d | tar -xz -C {MODELS} && chmod -R a+rX {MODELS}"
    service_host.run(unpack, text=pack_files())
    service_host.run(f"python3 - {service_host.model} {MODELS}", text=HOLES)
    service_host.serve(CHAT)


@pytest.fixture(scope="module")
def refusals(service_host):
    """What is said of each file, while the instance keeps its process."""
    said = service_host.expect_refusals(*({**CHAT, "model": f"{MODELS}/{name}"} for name in REFUSED))
    assert len(said) == len(REFUSED) and service_host.fetch_status(8080, "/health") == 200
    return dict(zip(REFUSED, said, strict=True))


@pytest.mark.parametrize("name", REFUSED)
def test_what_no_server_serves_is_refused_in_a_sentence(refusals, name):
    assert refusals[name].startswith("Instance chat: ") and REFUSED[name] in refusals[name], refusals[name]
    assert refusals[name].isprintable() and refusals[name].endswith("."), refusals[name]


def test_a_text_model_is_no_projector(service_host):
    said = service_host.expect_refusal({**CHAT, "projector": service_host.model})
    assert f"projector: {service_host.model} is a model of the architecture llama, not a projector." in said


def test_what_is_only_unusual_is_served(service_host):
    """Each with an instance of its own, which answers as the model does."""
    asked = [
        {"name": name, "port": 8100 + number, "model": f"{MODELS}/{path}", "context": 256}
        for number, (name, path) in enumerate(SERVED.items())
    ]
    service_host.serve(*asked)
    for instance in asked:
        answer = service_host.complete_text(instance["port"], "C")
        assert set(answer["content"]) == {chr(int(heads.zero_model.TOKENS[heads.LETTER][3:5], 16))}, instance
