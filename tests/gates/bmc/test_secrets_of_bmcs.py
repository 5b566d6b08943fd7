# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A BMC that repeats the request which it refuses: neither the password nor the token is in what the module says."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any
from urllib.parse import quote, quote_plus

import pytest
from ansible.module_utils.testing import patch_module_args

from ansible_collections.sovereign.epyc.plugins.modules import epyc_bmc_bios_info
from vepyc.bmc import Faults

from .runs import Runs, Start

PASSWORDS = ['p:a/s@s%w"\u00f6rd x', "correct horse\\battery", "a+b&c=d e'f"]
Module = Callable[..., str]


@pytest.fixture
def module(capsys: pytest.CaptureFixture[str]) -> Module:
    """Runs a module, and returns everything that it prints."""

    def run_module(run: Runs, **options: Any) -> str:
        access = {
            "bmc": run.bmc.url,
            "username": run.bmc.user,
            "password": run.bmc.password,
            "ca_path": str(run.bmc.ca),
        }
        with patch_module_args({**access, **options}), pytest.raises(SystemExit):
            epyc_bmc_bios_info.main()
        printed = capsys.readouterr()
        return printed.out + printed.err

    return run_module


def spellings(secret: str) -> set[str]:
    """The spellings in which somebody could read a secret, and once more as the output of a module has them."""
    plain = {secret, json.dumps(secret)[1:-1], quote(secret), quote(secret, safe=""), quote_plus(secret)}
    return {*plain, *(json.dumps(text)[1:-1] for text in plain)}


@pytest.mark.parametrize("kind", ["json", "url", "text"])
@pytest.mark.parametrize("password", PASSWORDS)
def test_a_password_in_no_spelling(start: Start, module: Module, password: str, kind: str) -> None:
    run = start("hpe", Faults(no_session_service=401, repeats_request_as=kind), password=password)
    printed = module(run)
    assert "refuses the user or the password" in printed and "***" in printed
    assert [text for text in spellings(password) if text in printed] == []
    run.bmc.faults.no_session_service, run.bmc.faults.failing = 0, {"/Bios": (500, 9)}
    printed = module(run, auth="basic")
    assert "does not give" in printed and "***" in printed
    assert [text for text in spellings(password) if text in printed] == []


@pytest.mark.parametrize("kind", ["json", "url", "text"])
def test_a_token_is_not_shown(start: Start, module: Module, kind: str) -> None:
    run = start("hpe", Faults(failing={"/Bios": (500, 9)}, repeats_request_as=kind))
    tokens: list[str] = []
    open_session = run.bmc.accounts.open_session

    def remember(*given: Any) -> Any:
        session = open_session(*given)
        tokens.append(session.token)
        return session

    run.bmc.accounts.open_session = remember  # type: ignore[method-assign,assignment]
    printed = module(run)
    assert "does not give" in printed and "***" in printed
    assert len(tokens) == 1 and tokens[0] not in printed
    # And not where the BMC shows it among its settings.
    run.bmc.faults.failing = {}
    run.bmc.faults.rewrite = lambda path, document: (
        {**document, "Model": f"X {run.bmc.password} {tokens[-1]}"} if path == "/redfish/v1/Systems/1" else document
    )
    printed = module(run)
    assert "X *** ***" in printed and tokens[-1] not in printed
