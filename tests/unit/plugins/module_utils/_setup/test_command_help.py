# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The manual page and the completion of the host tool: read by man, run by bash, installed and removed."""

from __future__ import annotations

import inspect
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from ansible_collections.sovereign.epyc.plugins.module_utils import _agent, _cli
from ansible_collections.sovereign.epyc.plugins.module_utils._bench import command_line
from ansible_collections.sovereign.epyc.plugins.module_utils._cli_usage import EXIT_CODES, OPTIONS, USAGE
from ansible_collections.sovereign.epyc.plugins.module_utils._setup import command_help
from ansible_collections.sovereign.epyc.tests.unit.fakes.host_tools import bare, files, run

#: Options that stand before or instead of a command, or that the command bench hands back.
WITHOUT_COMMAND = {"--help", "--version", "--stop"}


def complete_words(folder: Path, *words: str) -> list[str]:
    """Return what bash offers for the last of these words, with the function that `complete` has for the command."""
    script = folder / "completion"
    script.write_text(command_help.render_completion().replace("/etc/systemd/system", str(folder)), encoding="utf-8")
    lines = f"""
        source {script}
        [[ $(complete -p sovereign-epyc) =~ -F\\ ([a-z_]+) ]] || exit 1
        COMP_WORDS=(sovereign-epyc "$@") COMP_CWORD=$#
        ${{BASH_REMATCH[1]}}
        printf '%s\\n' "${{COMPREPLY[@]}}"
    """
    command = ["bash", "--noprofile", "--norc", "-uc", lines, "bash", *words]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stderr == ""
    return done.stdout.split()


def test_the_table_of_options_is_what_the_commands_take() -> None:
    described = command_help.read_usage()[0]
    assert list(described) == list(OPTIONS)
    parsed = set(re.findall(r'"(--[a-z-]+)"', inspect.getsource(_cli)))
    others = ("bench", "agent")
    listed = {option for command, options in OPTIONS.items() if command not in others for option in options}
    assert listed == parsed - WITHOUT_COMMAND
    assert listed <= set(re.findall(r"--[a-z-]+", USAGE))
    parser = command_line._build_argument_parser()
    assert {*OPTIONS["bench"], "-h"} == set(parser._option_string_actions)
    assert {*OPTIONS["agent"]} == {*re.findall(r"--[a-z-]+", _agent.USAGE), "--help"}


def test_each_sentence_of_the_usage_is_on_the_manual_page() -> None:
    commands, notes = command_help.read_usage()
    page = command_help.render_manual_page().replace("\\-", "-")
    missing = [text for text in (*commands.values(), *notes, *EXIT_CODES.values()) if text not in page]
    assert (missing, len(notes)) == ([], 5)
    words = " ".join(USAGE.split())
    assert [text for text in (*commands.values(), *notes) if text not in words] == []


@pytest.mark.skipif(not shutil.which("man"), reason="there is no man here")
def test_man_shows_the_page_without_a_warning(tmp_path: Path) -> None:
    page = tmp_path / "sovereign-epyc.8"
    page.write_text(command_help.render_manual_page(), encoding="utf-8")
    command = ["man", "--warnings", "--local-file", "-P", "cat", "-E", "ascii", str(page)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, env={"PATH": "/usr/bin:/bin"})
    assert done.stderr == ""
    shown = re.sub(r".\x08|\x1b\[\d+m", "", done.stdout)
    for command_name in OPTIONS:
        assert re.search(rf"^ +{command_name}( |$)", shown, re.MULTILINE), shown
    assert shown.startswith("SOVEREIGN-EPYC(8)")


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        (["re"], ["repair", "restore"]),
        (["--v"], ["--version"]),
        (["check", "--"], ["--json", "--textfile"]),
        (["check", "--textfile", "/e"], []),
        (["history", "--f"], ["--forget"]),
        (["restore", "cpu"], ["cpufreq", "cpuidle"]),
        (["restore", "cat,ir"], ["cat,irq"]),
        (["repair", "grub"], []),
        (["agent", "c"], ["chat"]),
        (["bench", "--no"], ["--no-second-turn"]),
        (["nothing", ""], []),
    ],
)
def test_bash_offers_the_words(tmp_path: Path, words: list[str], offered: list[str]) -> None:
    for name in ("llama-chat.service", "llama-chat-rpc.service", "nginx.service"):
        (tmp_path / name).touch()
    assert complete_words(tmp_path, *words) == offered


def test_both_are_installed_where_there_is_a_place_and_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    systemd = bare(tmp_path, monkeypatch)
    without_places = files(systemd)
    run(systemd)
    pages = [systemd.root / path.lstrip("/") for path in (command_help.MANUAL_PAGE, command_help.COMPLETION)]
    assert not any(path.parent.exists() for path in pages)
    for path in pages:
        path.parent.mkdir(parents=True)
    done = run(systemd)
    assert sorted(change.address for change in done.changes) == sorted(
        f"host_tool:{path}" for path in (command_help.MANUAL_PAGE, command_help.COMPLETION)
    )
    assert pages[0].read_text() == command_help.render_manual_page()
    assert pages[1].read_text() == command_help.render_completion()
    assert run(systemd).changes == []
    run(systemd, present=False)
    assert files(systemd) == without_places
