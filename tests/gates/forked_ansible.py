# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Runs ansible-playbook several times, each time in a fork of one process that has imported Ansible.

Half of what a short run costs is the import. The standard input is a JSON list of lists of arguments, the standard
output a JSON list of exit codes and outputs.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile

from ansible.cli import playbook


def run_forked(arguments: list[str]) -> tuple[int, str]:
    """Return the exit code of ansible-playbook with these arguments, and its output with its errors."""
    with tempfile.TemporaryFile("w+") as output:
        process = os.fork()
        if not process:
            os.dup2(output.fileno(), 1)
            os.dup2(output.fileno(), 2)
            try:
                playbook.main(["ansible-playbook", *arguments])
            except SystemExit as exit_:
                code = exit_.code if isinstance(exit_.code, int) else 0
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(code)
        code = os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])
        output.seek(0)
        return code, output.read()


if __name__ == "__main__":
    json.dump([run_forked(arguments) for arguments in json.load(sys.stdin)], sys.stdout)
