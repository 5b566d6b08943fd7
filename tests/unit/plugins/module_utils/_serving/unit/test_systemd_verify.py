# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Settings of a user's own, as systemd itself reads them on this machine."""

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.sovereign.epyc.plugins.module_utils._errors import BadRequest
from ansible_collections.sovereign.epyc.plugins.module_utils._io.command import CommandResult
from ansible_collections.sovereign.epyc.plugins.module_utils._serving.llama_cpp import units as unit_texts
from ansible_collections.sovereign.epyc.plugins.module_utils._serving.unit import systemd_verify
from ansible_collections.sovereign.epyc.tests.unit.plugins.module_utils._serving.unit.test_unit_files import service

ENGINE = "/usr/sbin/sovereign-epyc"


def files(**settings: Any) -> dict[str, str]:
    one = service(rpc=True, binary="/bin/true", speculation="draft", draft_model="/d", rpc_binary="/bin/true",
                  unit_settings=settings)  # fmt: skip
    return unit_texts.render_llama_units(one, [])


def test_what_systemd_takes() -> None:
    own = {"StateDirectory": "chat", "MemoryMax": "600G", "BindPaths": ["/data:/mnt"], "OnFailure": "notify@%n.service"}
    texts = files(**own, CPUWeight=50, ProtectHome=False)
    assert ENGINE in "".join(texts.values())
    systemd_verify.require_valid_units(texts)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"StateDirectori": "chat"}, ["'StateDirectori=chat': Unknown key"]),
        ({"MemoryMax": "64Q"}, ["'MemoryMax=64Q': Invalid memory limit '64Q'"]),
        ({"BindPaths": ["/a", "b"]}, ["'BindPaths=b': BindPaths= path is not absolute"]),
        ({"StateDirectory": "../x", "CPUQuota": "much"}, ["'StateDirectory=../x': ", "'CPUQuota=much': "]),
        ({"ExecReload": "/no/such/program"}, ["llama-chat.service: Command /no/such/program is not executable"]),
    ],
)
def test_what_systemd_does_not_take_is_refused_in_its_own_words(settings: dict[str, Any], words: list[str]) -> None:
    with pytest.raises(BadRequest) as caught:
        systemd_verify.require_valid_units(files(**settings))
    said = str(caught.value)
    assert said.startswith("unit_settings: systemd does not take them: ") and said.endswith(". Correct them.")
    assert all(word in said for word in words), said


def test_what_it_says_of_other_units_does_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    said = "/etc/systemd/system/other.service:3: Unknown key\nother.service: Command /x is not executable\n"
    monkeypatch.setattr(systemd_verify, "try_command", lambda words, seconds: CommandResult(1, "", said))
    systemd_verify.require_valid_units(files())
