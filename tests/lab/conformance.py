# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The fake kernels of the unit tests, held against a real one: the same steps, and the same answers to each."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ansible_collections.sovereign.epyc.tests.unit.fakes import module_requests
from ansible_collections.sovereign.epyc.tests.unit.fakes.kernels import Kernel
from ansible_collections.sovereign.epyc.tests.unit.fakes.module_requests import Step, on_tree, take_steps
from tests.fixtures.virtual_epyc import Guest

PROGRAM = Path(module_requests.__file__).read_text(encoding="utf-8")
#: The numbers of dies, by which the product finds the CCDs. For Linux 6.1 each L3 domain of QEMU is a die.
DIES = "/sys/devices/system/cpu/cpu*/topology/die_id"
#: What a program in the guest imports, once for all programs.
IMPORTS = ["unittest.mock", "ansible.module_utils.testing"]


def compare_with_kernel(
    guest: Guest, fake: Kernel, module: str, steps: Sequence[Step], shown: Sequence[str], recorded: Sequence[str] = ()
) -> list[dict[str, Any]]:
    """Take steps on a guest and on a fake, which must answer alike, and return what the kernel answered.

    ``shown`` are patterns of the files that must show the same before the first step and after each one. The fake
    takes over what the guest shows in the files of ``recorded``, such as the memory that is free.
    """
    if recorded:
        fake.record(run_program(guest, f"read_files(KernelFS(), {list(recorded)!r})", module))
    work = f"take_steps(KernelFS(), {module!r}, json.loads({json.dumps(list(steps))!r}), {list(shown)!r})"
    of_kernel = run_program(guest, work, module)
    with on_tree(fake.fs):
        of_fake = json.loads(json.dumps(take_steps(fake.fs, module, steps, shown)))
    differences = [
        f"{json.dumps(step)}\n    {json.dumps(_find_differences(real, faked))}"
        for step, real, faked in zip(["before all steps", *steps], of_kernel, of_fake, strict=True)
        if real != faked
    ]
    assert not differences, "The fake answers otherwise than the kernel:\n" + "\n".join(differences)
    return list(of_kernel)


def linux_version(guest: Guest) -> tuple[int, int]:
    """Return the version of a guest's kernel, by which a fake chooses among the rules of several."""
    major, minor = guest.run("uname -r").split(".")[:2]
    return int(major), int(minor)


def left_changed(answers: Sequence[dict[str, Any]]) -> set[str]:
    """Return the files that show something else after all steps than before them."""
    before = now = answers[0]["shown"]
    for answer in answers[1:]:
        now = {**now, **answer["shown"]}
    return {path for path in {*before, *now} if before.get(path) != now.get(path)}


def run_program(guest: Guest, work: str, module: str) -> Any:
    """Evaluate an expression in the guest with the functions of the steps at hand, and return its value."""
    done = guest.programs.run(
        f"{PROGRAM}\nprint(json.dumps({work}))\n", [*IMPORTS, f"{module_requests.MODULES}.{module}"]
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def _find_differences(real: Any, faked: Any) -> Any:
    """Return what differs, by the same keys, each as what the kernel answered and what the fake did."""
    if not (isinstance(real, dict) and isinstance(faked, dict)):
        return {"kernel": real, "fake": faked}
    keys = sorted({*real, *faked})
    return {key: _find_differences(real.get(key), faked.get(key)) for key in keys if real.get(key) != faked.get(key)}
