# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""How options of modules name CPUs, as ansible-doc shows it."""

from __future__ import annotations


class ModuleDocFragment:
    """For every module with an option that names CPUs."""

    DOCUMENTATION = r"""
options: {}
notes:
  - CPUs are named by roles of the plan such as V(draft), V(verify) and V(housekeeping), by places such as V(ccd0),
    V(l3:5), V(node1) and V(socket0), by numbers such as V(0-7,16), or by V(all); several are separated by commas. All
    must be online.
"""
