# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The names of the units of instances, and the path of the credential with the API keys of an instance."""

from __future__ import annotations

#: The unit of a host that computes layers of a model for an instance on another host. A host has one such unit.
WORKER_UNIT = "ggml-rpc-worker.service"


def instance_unit(name: str) -> str:
    """Return the name of an instance's unit."""
    return f"llama-{name}.service"


def draft_unit(name: str) -> str:
    """Return the name of the unit whose process drafts for an instance on its own CCD."""
    return f"llama-{name}-rpc.service"


def watchdog_unit(name: str) -> str:
    """Return the name of the transient unit that kills an instance which hangs."""
    return f"sovereign-epyc-watchdog-{name}.service"


def credential_path(unit: str, name: str) -> str:
    """Return the path at which systemd puts a credential of a unit, for its processes alone."""
    return f"/run/credentials/{unit}/{name}"


def api_key_path(unit: str) -> str:
    """Return the path of the API keys of an instance, as its server reads them."""
    return credential_path(unit, "api-key")
