# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The options that every module of a knob has, with those of the fragment knob.intent."""

from __future__ import annotations


class ModuleDocFragment:
    """Undo and persistence, and the intent that role names are resolved by, which others have too."""

    INTENT = r"""
options:
  intent:
    description:
      - What the operator wants of the host, with the options of M(sovereign.epyc.epyc_plan) as keys. It gives meaning
        to the names of roles where CPUs are asked for.
    type: dict
"""

    DOCUMENTATION = r"""
attributes:
  action_group:
    description: Use C(group/sovereign.epyc.settings) in C(module_defaults) to set options that these modules share.
    support: full
    membership: [sovereign.epyc.settings]
options:
  state:
    description:
      - V(present) makes the settings.
      - V(original) puts back everything that this module ever changed on the host, as it was before the first change,
        and drops what was stored for the boot service. The other options have no effect then.
      - V(unasked) says that the request of this O(label) is not made any more. What it wanted, and no other stored one
        wants, is put back, and it is dropped.
    type: str
    choices: [present, unasked, original]
    default: present
  persistent:
    description:
      - Store the request on the host, so that the boot service of the role P(sovereign.epyc.epyc_base#role) makes the
        settings again after every boot. It plans again, because ids change between boots.
    type: bool
    default: false
  label:
    description:
      - The name under which a persistent request is stored. A later one of the same module with the same label replaces
        it. Without it, the short name of the knob.
    type: str
  undo_unasked:
    description:
      - Whether a persistent request that replaces another one puts back what that one wanted and this one does not
        want. With V(false), such settings stay as they are until the next boot, boot parameters for good.
    type: bool
    default: true
"""
