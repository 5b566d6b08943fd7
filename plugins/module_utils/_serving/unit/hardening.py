# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What keeps the program of a unit in: lines of the section [Service], for units and for trials of their program.

Source: systemd.exec(5), systemd.resource-control(5).
"""

from __future__ import annotations

from ..._io.sandbox import HARDENING, visible_folder_settings
from ..._notation.unit_syntax import quote_word
from ..options.option_table import LOOPBACK
from ..options.unit_settings import format_section_lines

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from ..options.option_table import OptionTable

#: Settings of a user that open a door or close one, so that a trial without them would tell something else. All others,
#: such as folders that are made and handed over, are only for the unit.
ACCESS_SETTINGS = frozenset(
    (
        *(line.partition("=")[0] for line in HARDENING),
        *("BindPaths", "BindReadOnlyPaths", "TemporaryFileSystem", "ReadWritePaths", "ReadOnlyPaths"),
        *("InaccessiblePaths", "ExecPaths", "NoExecPaths", "RootDirectory", "RootImage", "MountAPIVFS"),
        *("DeviceAllow", "Group", "SupplementaryGroups", "EnvironmentFile", "PrivateNetwork", "PrivateMounts"),
        *("LimitAS", "LimitDATA", "LimitMEMLOCK", "LimitNOFILE", "SELinuxContext", "AppArmorProfile"),
    )
)


def user_lines(options: OptionTable) -> list[str]:
    """Return who the program is."""
    return [f"User={options.user}"] if options.user else ["DynamicUser=yes"]


def network_lines(host: str, others: Iterable[str] = ()) -> list[str]:
    """Return whom it can talk to, when it listens at an address, and to ``others``."""
    return allowed_address_lines(["localhost", *others]) if host in LOOPBACK else []


def allowed_address_lines(addresses: Iterable[str]) -> list[str]:
    """Return the settings with which a unit talks to these addresses only."""
    return ["IPAddressDeny=any", *(f"IPAddressAllow={address}" for address in addresses)]


def environment_lines(variables: dict[str, str]) -> list[str]:
    """Return the variables of the program."""
    return [f"Environment={quote_word(f'{key}={value}', escape_variables=False)}" for key, value in variables.items()]


def trial_lines(options: OptionTable, paths: Iterable[str], hardening: Iterable[str] = HARDENING) -> list[str]:
    """Return the walls for a trial of the program of an instance, which sees these files, and the loopback only."""
    own = [
        line
        for line in format_section_lines(options.unit_settings, is_unit_section=False)
        if line.partition("=")[0] in ACCESS_SETTINGS
    ]
    settings = [
        *user_lines(options),
        *network_lines(LOOPBACK[0]),
        *environment_lines(options.extra_environment),
        *hardening,
    ]
    return [*settings, *visible_folder_settings([options.binary, *paths]), *own]
