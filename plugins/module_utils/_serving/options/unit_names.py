# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The names of the units of llama-server instances, and the paths of the credentials of these units."""

from __future__ import annotations

#: The unit of an RPC worker, which computes layers of a model for an instance on another host. A host has one worker.
WORKER_UNIT = "ggml-rpc-worker.service"


def instance_unit_name(name: str) -> str:
    return f"llama-{name}.service"


def draft_unit_name(name: str) -> str:
    """Return the name of the unit with the draft process of an instance, which has a CCD of its own."""
    return f"llama-{name}-rpc.service"


def watchdog_unit_name(name: str) -> str:
    """Return the name of the transient unit that kills the server of an instance when the server hangs."""
    return f"sovereign-epyc-watchdog-{name}.service"


def credential_path(unit: str, name: str) -> str:
    """Return the path at which only the processes of a unit can read a credential of that unit."""
    return f"/run/credentials/{unit}/{name}"


def api_key_path_in_unit(unit: str) -> str:
    """Return the path at which the server in a unit reads its API keys."""
    return credential_path(unit, "api-key")
