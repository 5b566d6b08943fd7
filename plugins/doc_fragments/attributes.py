# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What every module of the collection promises, as ansible-doc shows it."""

from __future__ import annotations


class ModuleDocFragment:
    """A module that changes the host names the first fragment; one that only reads names READER instead.

    Of two fragments with the same attribute Ansible takes the one that is named first, so these are named last.
    """

    DOCUMENTATION = r"""
options: {}
attributes:
  check_mode:
    description: Can run in C(check_mode) and return changed status without modifying the target.
    support: full
    details: Nothing is written; not a file, not a mount, not the taint flag of the kernel.
  diff_mode:
    description: Returns what differs as C(before) and C(after), each a mapping from address to value.
    support: full
  idempotent:
    description: A second run with the same options changes nothing.
    support: full
  platform:
    description: The operating systems of the hosts on which the module runs.
    support: full
    platforms: linux
requirements:
  - python >= 3.9
"""

    READER = r"""
options: {}
attributes:
  check_mode:
    description: Can run in C(check_mode) and return changed status without modifying the target.
    support: full
    details: This module only reads.
  diff_mode:
    description: Returns what differs as C(before) and C(after), each a mapping from address to value.
    support: N/A
    details: This module only reads.
  idempotent:
    description: A second run with the same options changes nothing.
    support: full
  platform:
    description: The operating systems of the hosts on which the module runs.
    support: full
    platforms: linux
requirements:
  - python >= 3.9
"""
