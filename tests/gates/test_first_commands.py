# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The commands that a newcomer copies work as printed, in a shell that knows nothing but what the system has."""

from __future__ import annotations

import re
import shlex
import subprocess
from pathlib import Path

import pytest

from tools import site

ROOT = Path(__file__).parents[2]
#: The PATH of a fresh machine, on which nothing but Debian's packages is installed.
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
#: In a fresh shell, `.` runs as it stands, and of each other command only its program is looked for.
LOOK = """
while read -r line; do
    case $line in
    .\\ *) eval "$line" ;;
    *) command -v "${line%% *}" >/dev/null || echo "$line" ;;
    esac
done
"""


def fresh_shell(script: str, text: str = "") -> subprocess.CompletedProcess[str]:
    """Run a script as somebody who has just logged in and gone to the root of the clone."""
    environment = {"PATH": PATH, "HOME": str(Path.home()), "LC_ALL": "C.UTF-8"}
    command = ["bash", "--noprofile", "--norc", "-c", script]
    return subprocess.run(command, cwd=ROOT, env=environment, input=text, capture_output=True, text=True, check=False)


def commands_not_found(block: str) -> str:
    lines = [line for line in block.splitlines() if line.strip() and not line.startswith("#")]
    return fresh_shell(LOOK, "".join(f"{line}\n" for line in lines)).stdout


def test_a_fresh_shell_has_no_ansible() -> None:
    """Else the tests below show nothing."""
    assert commands_not_found("ansible-playbook --version\n") == "ansible-playbook --version\n"


@pytest.mark.parametrize("page", ["README.md", "docs/quickstart.md"])
def test_every_program_of_a_page_is_found(page: str) -> None:
    """Each block stands for itself, unless quick start has said before it how to have Ansible."""
    text = (ROOT / page).read_text(encoding="utf-8")
    said = re.search(r"`(\. \.venv/bin/activate)`", text)
    blocks = re.findall(r"```bash\n(.*?)```", text, re.DOTALL)
    assert blocks
    for block in blocks:
        place = text.index(block)
        before = f"{said[1]}\n" if said and said.start() < place else ""
        assert commands_not_found(before + block) == ""


@pytest.mark.parametrize("sku", ["epyc9754", "epyc7543x2"])
def test_what_make_site_ends_with_is_aimed_at_its_machine(sku: str) -> None:
    commands = site.next_commands_for_user(sku)
    asked, played = commands.values()
    assert fresh_shell(f"{shlex.join(shlex.split(asked))} --dry-run --always-make").returncode == 0
    listed = fresh_shell(f"{played} --list-hosts")
    assert listed.returncode == 0 and re.findall(r"^ +(vepyc\S+)$", listed.stdout, re.MULTILINE) == [f"v{sku}"], listed
