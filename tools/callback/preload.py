# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Loads plugins before Ansible forks a process for each task, so that the processes share them.

Otherwise each process would load the plugins again, and tests have thousands of processes.
"""

from __future__ import annotations

import gc
import importlib
import inspect

from ansible.plugins.callback import CallbackBase
from ansible.plugins.loader import action_loader, connection_loader, filter_loader, shell_loader, test_loader

# A loader of filters or tests loads all of them to find one.
_PLUGINS = (
    (filter_loader, "bool"),
    (filter_loader, "sovereign.epyc.gateway_plan"),
    (test_loader, "defined"),
    (action_loader, "normal"),
    (connection_loader, "ssh"),
    (shell_loader, "sh"),
)
_MODULES = (
    "ansible.module_utils._internal._json._profiles._module_legacy_c2m",
    "ansible.module_utils._internal._json._profiles._module_legacy_m2c",
)


class CallbackModule(CallbackBase):  # type: ignore[misc]  # ansible-core has no annotations
    CALLBACK_VERSION = 2.0
    CALLBACK_TYPE = "aggregate"
    CALLBACK_NAME = "preload"
    CALLBACK_NEEDS_ENABLED = True

    def __init__(self) -> None:
        super().__init__()
        for loader, name in _PLUGINS:
            loader.get(name, class_only=True)
        for name in _MODULES:
            importlib.import_module(name)
        # Ansible calls this for a task whose items are all skipped. The first call reads the file of each loaded
        # module, and Python caches the result.
        inspect.stack()
        # Otherwise a garbage collection in each process would write to, and so copy, all shared memory.
        gc.freeze()
