#!/usr/bin/env python3
# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Run a playbook in check and diff mode and fail if it would change anything.

ansible-playbook says 0 whether or not something would change. The junit callback counts changed tasks, whatever
callback writes to the screen, so the answer is taken from its report.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path
from xml.etree import ElementTree


def main(arguments: list[str]) -> int:
    with tempfile.TemporaryDirectory() as folder:
        environment = dict(
            os.environ,
            ANSIBLE_CALLBACKS_ENABLED="ansible.builtin.junit",
            JUNIT_OUTPUT_DIR=folder,
            JUNIT_FAIL_ON_CHANGE="true",
        )
        command = ["ansible-playbook", "--check", "--diff", *arguments]
        print("+", *command, flush=True)
        if code := subprocess.run(command, env=environment, check=False).returncode:
            return code
        cases = [case for report in Path(folder).glob("*.xml") for case in ElementTree.parse(report).iter("testcase")]
    if not cases:
        print("no task ran, so nothing is known", file=sys.stderr)
        return 1
    changed = [case.get("name", "?") for case in cases if case.find("failure") is not None]
    for name in changed:
        print(f"would change: {name}", file=sys.stderr)
    return 1 if changed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
