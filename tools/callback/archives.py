# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Stores the archives that Ansible makes of modules in ARCHIVES_FOLDER, for later runs with the same modules.

Ansible parses a module and all its imports to build the archive for a host, and uses the archive for one run only. This
takes two fifths of the controller's time for a play, and tests have a thousand runs.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import time
from pathlib import Path
from typing import Any

from ansible import constants
from ansible.plugins.callback import CallbackBase
from ansible.release import __version__ as ansible_version

PLUGINS = Path(__file__).resolve().parents[2] / "plugins"
#: Seconds after which unused archives are deleted.
DAY = 24 * 60 * 60


def digest_archive_sources() -> str:
    """Return a digest of all files and versions on which the content of archives depends."""
    total = hashlib.sha256(ansible_version.encode())
    for folder in ("modules", "module_utils"):
        for path in sorted((PLUGINS / folder).rglob("*.py")):
            total.update(f"\0{path.relative_to(PLUGINS)}\0".encode() + path.read_bytes())
    return total.hexdigest()[:16]


class CallbackModule(CallbackBase):  # type: ignore[misc]  # ansible-core has no annotations
    CALLBACK_VERSION = 2.0
    CALLBACK_TYPE = "aggregate"
    CALLBACK_NAME = "archives"
    CALLBACK_NEEDS_ENABLED = True

    def __init__(self) -> None:
        super().__init__()
        self._stored = Path(os.environ["ARCHIVES_FOLDER"], digest_archive_sources())
        self._stored.mkdir(parents=True, exist_ok=True)
        os.utime(self._stored)
        # The folder in which Ansible looks for an archive before it builds one.
        self._cache = Path(constants.DEFAULT_LOCAL_TMP, "ansiballz_cache")
        self._cache.mkdir(exist_ok=True)
        for archive in self._stored.glob("[!.]*"):
            (self._cache / archive.name).symlink_to(archive)

    def v2_playbook_on_stats(self, stats: Any) -> None:
        """Store archives at the end of a run; earlier an archive could be incomplete."""
        for archive in self._cache.iterdir():
            stored = self._stored / archive.name
            if not stored.exists() and not archive.name.endswith(".lock"):
                part = stored.with_name(f".{archive.name}.{os.getpid()}")
                shutil.copyfile(archive, part)
                part.rename(stored)
        for other in self._stored.parent.iterdir():
            if other.stat().st_mtime < time.time() - DAY:
                shutil.rmtree(other, ignore_errors=True)
