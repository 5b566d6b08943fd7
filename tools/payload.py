#!/usr/bin/env python3
# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Print how many bytes Ansible sends to a host for each module of the collection, a line each.

It is a separate program, because Ansible does not find a collection of which a module was imported before.
"""

from __future__ import annotations

from pathlib import Path

from ansible.executor.module_common import modify_module
from ansible.parsing.dataloader import DataLoader
from ansible.plugins.loader import init_plugin_loader
from ansible.template import Templar

COLLECTIONS = Path(__file__).resolve().parents[1] / ".collections"


def main() -> None:
    init_plugin_loader([str(COLLECTIONS)])
    for path in sorted((COLLECTIONS / "ansible_collections/sovereign/epyc/plugins/modules").glob("*.py")):
        built = modify_module(
            module_name=f"sovereign.epyc.{path.stem}",
            module_path=str(path),
            module_args={},
            templar=Templar(DataLoader()),
            task_vars={"ansible_python_interpreter": "/usr/bin/python3"},
            module_compression="ZIP_DEFLATED",
        )
        print(path.stem, len(built.b_module_data))


if __name__ == "__main__":
    main()
