# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
name: run_origin
short_description: The user and the controller of a run, for the history of a host
version_added: 1.0.0
author: The sovereign.epyc authors (@sovereign-epyc)
description:
  - Returns the value of the variable E(SOVEREIGN_EPYC_ORIGIN), for the keyword C(environment) of a play. Modules of
    this collection write the value into the history of the host; see M(sovereign.epyc.epyc_history).
  - The value has the user, the name of the controller, the playbooks of the command line, and the tags. In AWX the user
    is the person who started the job.
  - Takes no terms.
options:
  _terms:
    description: Must be empty.
"""

EXAMPLES = r"""
- name: Restore settings, with the user and the controller in the history of the host
  hosts: all
  environment:
    SOVEREIGN_EPYC_ORIGIN: "{{ lookup('sovereign.epyc.run_origin') }}"
  tasks:
    - name: Restore everything
      sovereign.epyc.epyc_restore:
      become: true
"""

RETURN = r"""
_raw:
  description: One text in JSON.
  type: list
  elements: str
"""

import getpass
import json
import os
import socket
from typing import Any

from ansible import context
from ansible.errors import AnsibleError
from ansible.plugins.lookup import LookupBase

#: Variables in which AWX and its predecessor Tower name the user who started a job.
AWX_USERS = ("awx_user_name", "tower_user_name")


class LookupModule(LookupBase):  # type: ignore[misc]  # ansible-core has no annotations
    def run(self, terms: list[Any], variables: Any = None, **kwargs: Any) -> list[str]:
        """Return user, controller, playbooks and tags of this run as JSON. Raises AnsibleError for terms."""
        if terms or kwargs:
            raise AnsibleError("run_origin takes no terms and no options")
        known = variables or {}
        tags = [str(tag) for tag in known.get("ansible_run_tags", ())]
        origin = {
            "user": next((str(known[name]) for name in AWX_USERS if known.get(name)), "") or _current_user_name(),
            "controller": socket.gethostname(),
            "playbook": ", ".join(os.path.basename(str(name)) for name in context.CLIARGS.get("args", ())),
            "tags": [] if tags == ["all"] else tags,
            "skip_tags": [str(tag) for tag in known.get("ansible_skip_tags", ())],
        }
        return [json.dumps(origin)]


def _current_user_name() -> str:
    """Return the name of the user of this process, or the user id where the user has no name, as in some containers."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return str(os.getuid())
