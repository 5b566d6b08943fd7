# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The table of knobs and kernels that `make kernels` prints."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.harness.record import Outcome, Record, sources_digest
from vepyc import playbook_runs
from vepyc.images.guest_image import image_dir
from vepyc.images.guest_system import RELEASES


def print_table(home: Path) -> list[list[str]]:
    """Run the tool on the records and images of a cache; return the words of each line."""
    done = playbook_runs.run_command("tools/run.sh", "tools/kernels.py", VEPYC_HOME=str(home), PYTHONPATH="lab:.")
    assert done.returncode == 0, done.stderr
    return [line.replace("not run", "not-run").split() for line in done.stdout.splitlines()]


def test_each_cell_is_the_worst_outcome_on_these_sources(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VEPYC_HOME", str(tmp_path))
    image = image_dir(RELEASES["backports"])
    image.mkdir(parents=True)
    (image / "release").write_text("7.3.4+deb13-amd64\n")
    of_these, of_others = Record.of_sources(sources_digest()), Record.of_sources("others")
    for record, test, outcome in (
        (of_others, "test_cpuidle_conformance.py::test_a[6.12]", "passed"),
        (of_these, "test_hugepages_conformance.py::test_a[6.12]", "failed"),
        (of_these, "test_hugepages_conformance.py::test_b[6.12]", "passed"),
        (of_these, "test_hugepages_conformance.py::test_a[backports]", "passed"),
        (of_these, "test_hugepages_conformance.py::test_b[backports]", "skipped"),
        (of_these, "test_sysfs_conformance.py::test_a[6.1]", "passed"),
        (of_these, "test_hugepages.py::test_a[6.1]", "passed"),
    ):
        record.add(f"tests/lab/{test}", Outcome(outcome, 1))
    assert print_table(tmp_path) == [
        ["knob", "6.12", "6.1", "backports", "(7.3.4+deb13-amd64)", "forky"],
        ["cpufreq", "not-run", "not-run", "not-run", "not-run"],
        ["cpuidle", "not-run", "not-run", "not-run", "not-run"],
        ["hugepages", "failed", "not-run", "skipped", "not-run"],
        ["irq", "not-run", "not-run", "not-run", "not-run"],
        ["msr", "not-run", "not-run", "not-run", "not-run"],
        ["resctrl", "not-run", "not-run", "not-run", "not-run"],
        ["sysfs", "not-run", "passed", "not-run", "not-run"],
    ]
