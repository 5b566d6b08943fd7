# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Settings of a user's own for a unit: what they look like, and what an option says in their place."""

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.sovereign.epyc.plugins.module_utils._errors import BadRequest
from ansible_collections.sovereign.epyc.plugins.module_utils._serving.options import unit_settings
from ansible_collections.sovereign.epyc.plugins.module_utils._serving.options.options import Options

LEAST = {"name": "chat", "binary": "/opt/llama-server", "model": "/srv/m.gguf", "port": 8080}


def test_settings_become_lines_of_their_sections() -> None:
    own = {"MemoryMax": "64G", "BindPaths": ["/a", "/b"], "CPUWeight": 50, "SendSIGHUP": True, "OnFailure": "x.service"}
    read = Options.parse({**LEAST, "unit_settings": own}).unit_settings
    service = ["MemoryMax=64G", "BindPaths=/a", "BindPaths=/b", "CPUWeight=50", "SendSIGHUP=yes"]
    assert unit_settings.format_section_lines(read, is_unit_section=False) == service
    assert unit_settings.format_section_lines(read, is_unit_section=True) == ["OnFailure=x.service"]
    again = unit_settings.parse_unit_settings(
        {"ExecStartPre": None, "SystemCallFilter": ["", "@system-service"], "PrivateTmp": False}
    )
    assert unit_settings.format_section_lines(again, is_unit_section=False) == [
        "ExecStartPre=", "SystemCallFilter=", "SystemCallFilter=@system-service", "PrivateTmp=no",
    ]  # fmt: skip
    assert Options.parse(LEAST).unit_settings == {}


@pytest.mark.parametrize(
    ("own", "words"),
    [
        ({"AllowedCPUs": "0-3"}, "unit_settings: AllowedCPUs is set by the plan. Leave it out, and use cpus."),
        ({"NUMAMask": "0"}, "use nodes."),
        ({"User": "ann"}, "use user."),
        ({"Environment": "A=1"}, "use extra_environment."),
        ({"ExecStart": "/bin/sh"}, "use binary and extra_arguments."),
        ({"TimeoutStartSec": 9}, "use start_timeout."),
        ({"StartLimitIntervalSec": 9}, "use restart_limit_seconds."),
        ({"Type": "simple"}, "Type is set by the plan. Leave it out."),
        ({"SetCredential": "a:secret"}, "would put a secret into a unit file that everyone on the host can read"),
        ({"memory_max": "64G"}, "'memory_max' is no name of a setting; write it as systemd does, as MemoryMax."),
        ({"Nice=5\nUser": "root"}, "is no name of a setting"),
        ({"MemoryMax": "64G\nUser=root"}, r"MemoryMax is not one line: '64G\nUser=root'"),
        ({"MemoryMax": "64G\\"}, "and no backslash at an end"),
        ({"BindPaths": ["/a", ["/b"]]}, "BindPaths must be a text, a number, true, false, or a list of them"),
        ({"BindPaths": {"a": 1}}, "BindPaths must be a text"),
        (["MemoryMax=64G"], "must be a dictionary of systemd's settings and values"),
    ],
)
def test_what_is_refused(own: Any, words: str) -> None:
    with pytest.raises(BadRequest) as caught:
        Options.parse({**LEAST, "unit_settings": own})
    assert words in str(caught.value) and "a:secret" not in str(caught.value)


def test_the_folders_that_systemd_makes() -> None:
    own = {"StateDirectory": "a b/c", "RuntimeDirectory": ["d:e", ""], "CacheDirectory": "f", "BindPaths": "/g"}
    parsed = unit_settings.parse_unit_settings(own)
    assert unit_settings.list_unit_folders(parsed) == [
        *("/var/lib/a", "/var/lib/b/c", "/var/cache/f", "/run/d", "/run/e"),
    ]
