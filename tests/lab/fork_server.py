# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Runs in a guest and executes Python programs there, each in a process of its own that is forked from this one.

On an emulated processor it takes seconds to start Python and to import what every module needs; here both happen once.
Requests and answers are lines of JSON on the standard input and output.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
from typing import Any


def execute(request: dict[str, Any], output: int, errors: int) -> None:
    """Become the process of one program, and never return. ``parameters`` are those of a module, or nothing."""
    for source, target in ((os.open(os.devnull, os.O_RDONLY), 0), (output, 1), (errors, 2)):
        os.dup2(source, target)
    if request["parameters"] is not None:
        from ansible.module_utils import basic

        basic._ANSIBLE_ARGS, basic._ANSIBLE_PROFILE = json.dumps(request["parameters"]).encode(), "legacy"
    exec(compile(request["program"], "<program>", "exec"), {"__name__": "__main__"})
    sys.exit()


def content(file: int) -> str:
    os.lseek(file, 0, os.SEEK_SET)
    with open(file) as stream:
        return stream.read()


def main() -> None:
    for line in sys.stdin:
        request = json.loads(line)
        for name in request["imports"]:
            importlib.import_module(name)
        output, errors = os.memfd_create("output"), os.memfd_create("errors")
        child = os.fork()
        if child == 0:
            execute(request, output, errors)
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        # Of a program that a signal ended, a shell tells this number.
        answer = {"code": code if code >= 0 else 128 - code, "output": content(output), "errors": content(errors)}
        print(json.dumps(answer), flush=True)


main()
