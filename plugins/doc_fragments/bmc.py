# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The options of every module that speaks to a BMC; module_utils/_bmc.py reads them."""

from __future__ import annotations


class ModuleDocFragment:
    """Where the BMC is, who asks, and how its certificate is verified."""

    DOCUMENTATION = r"""
options:
  bmc:
    description: The name or the address of the BMC, with a port if it is not 443; or a URL that begins with https://.
    type: str
    required: true
  username:
    description: An account of the BMC that may set the BIOS. One of its own for Ansible is best.
    type: str
    required: true
  password:
    description:
      - Its password. Keep it in Ansible Vault. It is sent once, to begin the session, and is never tried twice,
        because BMCs lock accounts.
    type: str
    required: true
  ca_path:
    description: A file with the certificate of the authority that signed that of the BMC.
    type: path
  fingerprint:
    description:
      - The SHA-256 of the BMC's own certificate, with colons or without. Any other certificate is refused, and this one
        is accepted whoever signed it and whatever name it has. BMCs come with certificates that nobody signed.
    type: str
  validate_certs:
    description: Whether to verify the certificate. With V(false), whoever answers in the BMC's place gets the password.
    type: bool
    default: true
  timeout:
    description: How many seconds one answer may take.
    type: int
    default: 30
  patience:
    description: How many seconds to wait in all, for one request, while the BMC answers that it is busy.
    type: int
    default: 60
  system:
    description: The Id of the system, where the BMC has several, as with an add-in card that is a system of its own.
    type: str
notes:
  - Runs on the controller, with C(delegate_to=localhost). It speaks Redfish, within one session that is ended in any
    case, and sends one request at a time.
  - Tried against emulated BMCs and recordings, on no hardware.
"""
