# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The options of every module that sends requests to a BMC; module_utils/_bmc.py reads them."""

from __future__ import annotations


class ModuleDocFragment:
    """Options for the address of a BMC, the account to use, and the verification of its certificate."""

    DOCUMENTATION = r"""
attributes:
  action_group:
    description: Use C(group/sovereign.epyc.bmc) in C(module_defaults) to set the options of the connection once.
    support: full
    membership: [sovereign.epyc.bmc]
  platform:
    platforms: posix
options:
  bmc:
    description: The name or the address of the BMC, with a port if it is not 443; or a URL that begins with https://.
    type: str
    required: true
  username:
    description: An account of the BMC that may set the BIOS. A separate account for Ansible is best.
    type: str
    required: true
  password:
    description:
      - The password of the account. Keep it in Ansible Vault. It is sent once, to begin the session, and never again,
        because BMCs lock accounts. With O(auth=basic) it is sent with each request, until the BMC refuses it once.
    type: str
    required: true
  ca_path:
    description: A file with the certificate of the authority that signed the certificate of the BMC.
    type: path
  fingerprint:
    description:
      - The SHA-256 of the BMC's own certificate, with colons or without. Only this certificate is accepted, whoever
        signed it and whatever name it has. BMCs come with certificates that no authority signed.
    type: str
  validate_certs:
    description: Whether to verify the certificate. With V(false), a computer in the BMC's place gets the password.
    type: bool
    default: true
  timeout:
    description: How many seconds one response may take.
    type: int
    default: 30
  patience:
    description: How many seconds to repeat one request while the BMC responds that it is busy.
    type: int
    default: 60
  auth:
    description:
      - V(session) begins a session at the BMC and ends it. V(basic) sends the password with each request, for BMCs
        without a service of sessions, or with that service switched off.
    type: str
    choices: [session, basic]
    default: session
  system:
    description: The Id of the system, where the BMC has several, as with an add-in card that is a system of its own.
    type: str
notes:
  - Runs on the controller, with C(delegate_to=localhost). It uses Redfish within one session that is ended in
    any case, and sends one request at a time.
  - Tested with emulated BMCs and recordings, but not on hardware.
"""
