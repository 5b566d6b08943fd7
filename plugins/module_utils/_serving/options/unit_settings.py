# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The option ``unit_settings``: settings of systemd that a user adds to the unit of an instance, as a drop-in would.

A value that is a list becomes one line for each word, and an empty text resets the setting. This file refuses settings
that another option of the instance sets; unit/check.py has systemd verify all other settings.
Source: systemd.unit(5), systemd.service(5), systemd.exec(5), systemd.resource-control(5).
"""

from __future__ import annotations

import re

from ..._errors import BadRequest

TYPE_CHECKING = False
if TYPE_CHECKING:
    Settings = dict[str, list[str]]

SETTING_NAME = re.compile(r"[A-Z][A-Za-z0-9]+\Z")
#: Settings of the section [Unit]. All other settings go to the section [Service].
UNIT_SECTION = re.compile(
    r"(After|Before|Wants|Requires|Requisite|BindsTo|PartOf|Upholds|Conflicts|OnFailure|OnSuccess|OnFailureJobMode|"
    r"OnSuccessJobMode|PropagatesReloadTo|ReloadPropagatedFrom|PropagatesStopTo|StopPropagatedFrom|JoinsNamespaceOf|"
    r"RequiresMountsFor|WantsMountsFor|Documentation|Description|IgnoreOnIsolate|StopWhenUnneeded|RefuseManualStart|"
    r"RefuseManualStop|AllowIsolate|DefaultDependencies|SurviveFinalKillSignal|CollectMode|FailureAction|SuccessAction|"
    r"FailureActionExitStatus|SuccessActionExitStatus|JobTimeoutSec|JobRunningTimeoutSec|JobTimeoutAction|"
    r"JobTimeoutRebootArgument|RebootArgument|StartLimitAction|Condition\w+|Assert\w+)\Z"
)
#: Settings by which systemd makes folders for a unit, and the folder in which each setting has its folders.
FOLDER_SETTINGS = {
    "StateDirectory": "/var/lib",
    "CacheDirectory": "/var/cache",
    "LogsDirectory": "/var/log",
    "RuntimeDirectory": "/run",
    "ConfigurationDirectory": "/etc",
}
SECRETS = ("SetCredential", "SetCredentialEncrypted")
#: Settings that the plan decides, and the options of the instance that change them ("" where no option does).
RESERVED = {
    "ExecStart": "binary and extra_arguments",
    "Type": "",
    "User": "user",
    "DynamicUser": "user",
    "AllowedCPUs": "cpus",
    "CPUAffinity": "cpus",
    "NUMAPolicy": "memory",
    "NUMAMask": "nodes",
    "AllowedMemoryNodes": "nodes",
    "Environment": "extra_environment",
    "TimeoutSec": "start_timeout, drain_timeout and stop_timeout",
    "TimeoutStartSec": "start_timeout",
    "TimeoutStopSec": "drain_timeout and stop_timeout",
    "RestartSec": "restart_seconds",
    "StartLimitBurst": "restart_limit",
    "StartLimitInterval": "restart_limit_seconds",
    "StartLimitIntervalSec": "restart_limit_seconds",
}


def parse_unit_settings(value: object) -> Settings:
    """Return the values of each setting; BadRequest for an impossible name or value, or for a setting in RESERVED."""
    if not isinstance(value, dict):
        raise BadRequest(f"unit_settings must be a dictionary of systemd's settings and values, not '{value}'.")
    settings = {}
    for key, given in value.items():
        if not isinstance(key, str) or not SETTING_NAME.match(key):
            raise BadRequest(f"unit_settings: '{key}' is no name of a setting; write it as systemd does, as MemoryMax.")
        if key in SECRETS:
            raise BadRequest(
                f"unit_settings: {key} would put a secret into a unit file that everyone on the host can read. Write "
                "it to a file of root, and name that file with LoadCredential."
            )
        if key in RESERVED:
            way = f"Leave it out, and use {RESERVED[key]}." if RESERVED[key] else "Leave it out."
            raise BadRequest(f"unit_settings: {key} is set by the plan. {way}")
        words = given if isinstance(given, (list, tuple)) else [given]
        settings[key] = [_format_value(key, word) for word in words]
    return settings


def format_section_lines(settings: Settings, is_unit_section: bool) -> list[str]:
    """Return the lines of a unit file with the settings of the section [Unit], or else of the section [Service]."""
    keys = [key for key in settings if bool(UNIT_SECTION.match(key)) == is_unit_section]
    return [f"{key}={word}" for key in keys for word in settings[key]]


def list_unit_folders(settings: Settings) -> list[str]:
    """Return the paths of the folders that systemd makes for the unit, and of links to them (FOLDER:LINK)."""
    return [
        f"{parent}/{name}"
        for setting, parent in FOLDER_SETTINGS.items()
        for value in settings.get(setting, ())
        for word in value.split()
        for name in word.split(":")[:2]
        if name
    ]


def _format_value(key: str, word: object) -> str:
    if isinstance(word, bool):
        return "yes" if word else "no"
    if word is None:
        return ""
    if not isinstance(word, (str, int, float)):
        raise BadRequest(
            f"unit_settings: {key} must be a text, a number, true, false, or a list of them, not '{word}'."
        )
    text = str(word)
    if any(ord(char) < 32 or ord(char) == 127 or 0xD800 <= ord(char) <= 0xDFFF for char in text) or text.endswith("\\"):
        raise BadRequest(
            f"unit_settings: {key} is not one line: {text!r}. Write a list, with a word for each line, and no "
            "backslash at an end."
        )
    return text
