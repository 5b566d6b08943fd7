# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What Ansible imports, in each process, when a template names one filter of the collection: the files of all."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

FILTERS = Path(__file__).parents[4] / "plugins/filter"
PREFIX = "ansible_collections.sovereign.epyc.plugins."
IMPORT = """
import importlib, sys
for name in sys.argv[2:]:
    importlib.import_module(f"{sys.argv[1]}filter.{name}")
parts = {name[len(sys.argv[1]):] for name in sys.modules if name.startswith(sys.argv[1])}
print(*(part for part in parts if not part.startswith("filter")))
"""


def test_the_engine_is_imported_by_the_filter_that_is_called_and_by_no_other() -> None:
    names = [path.stem for path in FILTERS.glob("[a-z]*.py")]
    command = [sys.executable, "-c", IMPORT, PREFIX, *names]
    done = subprocess.run(command, env={"PYTHONPATH": ":".join(sys.path)}, capture_output=True, text=True, check=True)
    errors = {"module_utils._errors", "plugin_utils._filter_errors", "module_utils._notation.printable"}
    packages = {"module_utils", "plugin_utils", "module_utils._notation"}
    assert len(names) > 10 and set(done.stdout.split()) == packages | errors
