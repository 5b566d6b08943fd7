# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a host is asked before the first change of where the server and the models come from."""

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.sovereign.epyc.tests.unit.plugins.plugin_utils.test_preflight import CHAT, ask

URL = "https://hub.example.com/o/n/resolve/main/x.gguf"


def sources(**variables: Any) -> dict[str, Any]:
    question = ask("llama", epyc_llama_instances=[CHAT], **variables)
    assert question.refusals == []
    return dict(question.options["sources"])


@pytest.mark.parametrize(
    ("install", "packages"), [("binary", []), ("package", ["llama.cpp"]), ("source", ["cmake", "g++", "make"])]
)
def test_the_packages_are_those_that_the_run_installs(install: str, packages: list[str]) -> None:
    asked = sources(epyc_llama_install=install, epyc_llama_source_archive="/a.tar.gz")
    assert (asked["install"], asked["packages"]) == (install, packages)
    assert (asked["archive"], asked["checksum"]) == ("/a.tar.gz", None)


def test_models_keep_their_places_and_have_what_a_download_needs() -> None:
    models = [{"path": "/there.gguf"}, {"path": "/x.gguf", "url": URL}, {"repository": "o/n", "file": "y.gguf"}]
    models[2]["checksum"] = f"sha256:{'a' * 64}"
    asked = sources(epyc_llama_models=models)["models"]
    assert [(one["path"], one["hub"], len(one["checksum"])) for one in asked] == [
        ("/there.gguf", False, 0),
        ("/x.gguf", False, 0),
        ("/srv/models/y.gguf", True, 1),
    ]
    assert asked[1] == {"path": "/x.gguf", "url": URL, "checksum": [], "size": None, "hub": False}


def test_the_token_is_not_sent_to_the_host() -> None:
    """The options of a module are written to a disk of the host."""
    asked = sources(epyc_llama_hub_token="hf_swordfish")
    assert asked["hub_needs_token"] is True and "swordfish" not in str(asked)
    assert sources()["hub_needs_token"] is False
