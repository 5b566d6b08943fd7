# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Lines of the section [Service] that restrict what a program can reach, for units and for trials of their program.

Source: systemd.exec(5), systemd.resource-control(5).
"""

from __future__ import annotations

from ..._io.sandbox import HARDENING, visible_folder_settings
from ..._notation.ip_addresses import LOOPBACK
from ..._notation.unit_syntax import quote_unit_word
from ..options.unit_settings import format_section_lines

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from ..options.option_table import OptionTable

#: Settings of ``unit_settings`` that open or close access, without which a trial would show another result than the
#: unit. All others are left out of a trial; for folders that systemd makes, see llama_cpp/probe.py.
ACCESS_SETTINGS = frozenset(
    (
        *(line.partition("=")[0] for line in HARDENING),
        *("BindPaths", "BindReadOnlyPaths", "TemporaryFileSystem", "ReadWritePaths", "ReadOnlyPaths"),
        *("InaccessiblePaths", "ExecPaths", "NoExecPaths", "RootDirectory", "RootImage", "MountAPIVFS"),
        *("DeviceAllow", "Group", "SupplementaryGroups", "EnvironmentFile", "PrivateNetwork", "PrivateMounts"),
        *("LimitAS", "LimitDATA", "LimitMEMLOCK", "LimitNOFILE", "SELinuxContext", "AppArmorProfile"),
    )
)


def user_setting_lines(options: OptionTable) -> list[str]:
    return [f"User={options.user}"] if options.user else ["DynamicUser=yes"]


def network_restriction_lines(listen_address: str, peers: Iterable[str] = ()) -> list[str]:
    """Return the lines by which a program at a loopback address reaches only the loopback and ``peers``."""
    return allowed_address_lines(["localhost", *peers]) if listen_address in LOOPBACK else []


def allowed_address_lines(addresses: Iterable[str]) -> list[str]:
    return ["IPAddressDeny=any", *(f"IPAddressAllow={address}" for address in addresses)]


def environment_variable_lines(variables: dict[str, str]) -> list[str]:
    return [
        f"Environment={quote_unit_word(f'{key}={value}', escape_variables=False)}" for key, value in variables.items()
    ]


def trial_sandbox_lines(options: OptionTable, paths: Iterable[str], hardening: Iterable[str] = HARDENING) -> list[str]:
    """Return the lines for a trial of the program of an instance, which sees only these files and the loopback."""
    user_settings = [
        line
        for line in format_section_lines(options.unit_settings, is_unit_section=False)
        if line.partition("=")[0] in ACCESS_SETTINGS
    ]
    settings = [
        *user_setting_lines(options),
        *network_restriction_lines(LOOPBACK[0]),
        *environment_variable_lines(options.extra_environment),
        *hardening,
    ]
    return [*settings, *visible_folder_settings([options.binary, *paths]), *user_settings]
