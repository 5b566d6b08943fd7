# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The option of modules that compare a host with what the inventory asks for."""

from __future__ import annotations


class ModuleDocFragment:
    """Layers and instances that must be on the host."""

    DOCUMENTATION = r"""
options:
  asked:
    description:
      - What the inventory asks of the host. What of it is not there at all is not as configured.
    type: dict
    suboptions:
      layers:
        description:
          - The layers of C(sovereign.epyc.site) that must be on the host. A key is the name of a layer, such as V(cat).
            A value holds the roles of CPUs for which the layer sets something, and is an empty list where that is no
            matter. A layer for roles without CPUs may be missing.
          - Without it, the layers that the newest run of C(sovereign.epyc.site) on the host was asked for, as far as
            they store something on every host. An empty dictionary asks for none.
        type: dict
      instances:
        description: The names of the instances of M(sovereign.epyc.llama_server) that must be on the host.
        type: list
        elements: str
"""
