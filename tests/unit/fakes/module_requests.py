# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Steps on a host, one after the other in one process: requests to a module, and what others do meanwhile.

The text of this file also runs inside a guest, so it imports nothing of the fakes.
"""

from __future__ import annotations

import contextlib
import copy
import glob
import importlib
import io
import json
import os
import time
from collections.abc import Iterator, Sequence
from typing import Any
from unittest import mock

from ansible.module_utils.testing import patch_module_args

from ansible_collections.sovereign.epyc.plugins.module_utils import _ansible, _knob_module
from ansible_collections.sovereign.epyc.plugins.module_utils._errors import TuningError
from ansible_collections.sovereign.epyc.plugins.module_utils._io.kernelfs import KernelFS
from ansible_collections.sovereign.epyc.plugins.module_utils._io.store import Store

MODULES = "ansible_collections.sovereign.epyc.plugins.modules"
#: What Ansible adds to each answer.
OF_ANSIBLE = ("invocation", "warnings")
#: A step: one key, which says what is done, and what it is done with.
Step = dict[str, Any]


def ask(**options: Any) -> Step:
    """Return the step that asks the module for something."""
    return {"ask": options}


def check(**options: Any) -> Step:
    """Return the step that asks the module in check mode."""
    return {"ask": {**options, "_ansible_check_mode": True}}


def put_back() -> Step:
    """Return the step that has the module put back all originals."""
    return ask(state="original")


def write(path: str, text: object) -> Step:
    """Return the step in which somebody else writes to a file of the kernel."""
    return {"write": [path, f"{text}\n"]}


def call(verb: str, *arguments: Any) -> Step:
    """Return the step in which somebody else does something by a method of KernelFS: ``mkdir``, ``load_module``."""
    return {verb: list(arguments)}


def wait(seconds: float) -> Step:
    """Return the step that gives the kernel time for what it does later."""
    return {"wait": seconds}


def run_module(name: str, options: dict[str, Any]) -> dict[str, Any]:
    """Run a module of the collection in this process, and return its answer."""
    module = importlib.import_module(f"{MODULES}.{name}")
    output = io.StringIO()
    # Ansible fills the defaults of the specification that it is given, which is the module's own.
    with contextlib.ExitStack() as stack:
        stack.enter_context(mock.patch.object(module, "SPEC", copy.deepcopy(module.SPEC)))
        stack.enter_context(patch_module_args(dict(options)))
        stack.enter_context(contextlib.redirect_stdout(output))
        stack.enter_context(contextlib.suppress(SystemExit))
        module.main()
    answer = json.loads(output.getvalue())
    return {key: value for key, value in answer.items() if key not in OF_ANSIBLE}


@contextlib.contextmanager
def on_tree(fs: KernelFS) -> Iterator[None]:
    """Have the modules of this process work on a tree instead of this host."""

    def open_tree(read_only: bool = False) -> KernelFS:
        fs.read_only = read_only
        return fs

    def open_store(read_only: bool = False) -> Store:
        return Store(fs.root, read_only=read_only)

    with mock.patch.object(_knob_module, "KernelFS", open_tree), mock.patch.object(_ansible, "Store", open_store):
        yield
    fs.read_only = False


def request(fs: KernelFS, name: str, **options: Any) -> dict[str, Any]:
    """Run a module on a tree, and return its answer; with ``check`` in check mode."""
    mode = {"_ansible_check_mode": options.pop("check", False)}
    with on_tree(fs):
        return run_module(name, {**options, **mode})


def read_files(fs: KernelFS, patterns: Sequence[str]) -> dict[str, str]:
    """Return what the files of some patterns show, by path; of one that cannot be read, the reason."""
    root = fs.root.rstrip("/")
    found = {}
    for pattern in patterns:
        for real in sorted(glob.glob(f"{root}{pattern}", recursive=True)):
            if os.path.isfile(real):
                path = real[len(root) :]
                try:
                    found[path] = fs.read(path)
                except TuningError as error:
                    found[path] = str(error)
    return found


def take_step(fs: KernelFS, module: str, step: Step) -> Any:
    """Do a step, and return the module's answer, or the kernel's reason to refuse what somebody else did."""
    ((verb, what),) = step.items()
    if verb == "ask":
        return run_module(module, what)
    fs.read_only = False
    if verb == "wait":
        time.sleep(what)
        return None
    try:
        return getattr(fs, verb)(*what)
    except TuningError as error:
        return str(error)


def take_steps(fs: KernelFS, module: str, steps: Sequence[Step], patterns: Sequence[str]) -> list[dict[str, Any]]:
    """Do steps, and return of each its answer, and what then shows other than before in the files of the patterns.

    The first entry is before all steps, and has all of these files.
    """
    before = read_files(fs, patterns)
    taken: list[dict[str, Any]] = [{"answer": None, "shown": before}]
    for step in steps:
        answer = take_step(fs, module, step)
        now = read_files(fs, patterns)
        changed = {path: now.get(path) for path in sorted({*before, *now}) if before.get(path) != now.get(path)}
        taken.append({"answer": answer, "shown": changed})
        before = now
    return taken
