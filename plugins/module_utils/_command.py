# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Other people's programs, run for what only they can do: systemctl, update-grub, grubby. Never once per CPU or IRQ."""

from __future__ import annotations

import os

from ._errors import Absent, TuningError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

#: Where administrators' programs are; an unprivileged or bare environment may not name all of it.
PATH = "/usr/sbin:/usr/bin:/sbin:/bin"


def run(command: Sequence[str]) -> str:
    """Run a command to its end and return what it printed; its own words are in the error when it fails."""
    # Imported here because most runs need no other program and it costs several milliseconds.
    import subprocess

    shown = " ".join(word if len(word) < 80 else f"{word[:60]}..." for word in command[:4])
    try:
        # The engine runs on the host without Ansible too, so it has no run_command to call.
        done = subprocess.run(  # pylint: disable=ansible-bad-function
            list(command),
            env={**os.environ, "PATH": PATH, "LC_ALL": "C"},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="surrogateescape",
            check=False,
        )
    except FileNotFoundError:
        raise Absent(f"Cannot run '{shown}': there is no {command[0]} in {PATH}.") from None
    if done.returncode != 0:
        words = " ".join((done.stderr.strip() or done.stdout.strip()).splitlines()[-5:]) or "nothing"
        raise TuningError(f"'{shown}' failed with exit code {done.returncode}. It says: {words}")
    return done.stdout
