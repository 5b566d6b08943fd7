# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""How units are called on a host, and the credential with the API keys of an instance."""

from __future__ import annotations

#: The unit that computes layers of a model on another host; a host has one, whatever instances it has.
WORKER_UNIT = "ggml-rpc-worker.service"


def instance_unit(name: str) -> str:
    """Return the name of an instance's unit."""
    return f"llama-{name}.service"


def draft_unit(name: str) -> str:
    """Return the name of the unit that drafts for an instance on a CCD of its own."""
    return f"llama-{name}-rpc.service"


def watchdog_unit(name: str) -> str:
    """Return the name of the unit that kills an instance which hangs; it has no file."""
    return f"sovereign-epyc-watchdog-{name}.service"


def credential_path(unit: str, name: str) -> str:
    """Return where systemd puts a credential that only the service can read."""
    return f"/run/credentials/{unit}/{name}"


def api_key_path(unit: str) -> str:
    """Return where the server finds its API keys."""
    return credential_path(unit, "api-key")
