# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The requirements of tuning: a supported distribution and kernel, packages, and kernel modules.

Addresses: ``prerequisites:module/NAME`` with the value "loaded", or None for a module that is not loaded, and
``prerequisites:FILE`` for the file that loads the modules at every boot.
Source: os-release(5), modules-load.d(5), dpkg-query(1), rpm(8), Documentation/kbuild/kbuild.rst on modules.builtin.
"""

from __future__ import annotations

import os
import re

from .._errors import Absent, BadRequest, TuningError
from .._io import command
from .._knobs.managed_files import ManagedFiles

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence
    from typing import Any

    from .._io.kernelfs import KernelFS
    from .._knobs.protocol.knob import Change, Settings

FILE = "/etc/modules-load.d/sovereign-epyc.conf"
HEAD = "# Written by the role sovereign.epyc.epyc_prerequisites.\n"
MODULE = "prerequisites:module/"
LOADED = "loaded"
#: ID in os-release -> Ansible's name of the distribution, where NAME in os-release differs from Ansible's name.
DISTRIBUTION_NAMES = {
    "debian": "Debian",
    "rhel": "RedHat",
    "centos": "CentOS",
    "rocky": "Rocky",
    "ol": "OracleLinux",
    "fedora": "Fedora",
    "amzn": "Amazon",
    "sles": "SLES",
}
#: Commands that print "NAME installed" for each installed package.
DPKG = ("dpkg-query", "--show", "--showformat=${Package} ${db:Status-Status}\\n")
RPM = ("rpm", "--query", "--queryformat", "%{NAME} installed\\n")
#: A name that modprobe and modules-load.d accept.
NAME = re.compile(r"\w[\w-]*", re.ASCII)
VERSION = re.compile(r"\d{1,18}(?:\.\d{1,18})*", re.ASCII)


class System:
    """The distribution of a host, by Ansible's name, and its kernel."""

    def __init__(self, distribution: str, version: str, kernel: str, debian: bool) -> None:
        self.distribution = distribution
        self.version = version
        self.kernel = kernel
        #: Whether the distribution uses Debian's packages.
        self.is_debian = debian

    @property
    def is_newer_than_releases(self) -> bool:
        """Whether this is Debian testing or unstable: a code name and "sid" stand in place of a version."""
        return self.distribution == DISTRIBUTION_NAMES["debian"] and self.version.endswith("/sid")

    def __str__(self) -> str:
        return f"{self.distribution} {self.version or 'without a version'} with kernel {self.kernel}"


def read_distribution_and_kernel(fs: KernelFS) -> System:
    """Read the distribution and the kernel of a host."""
    text = fs.read_if_present("/etc/os-release")
    if text is None:
        text = fs.read_if_present("/usr/lib/os-release") or ""
    pairs = (line.partition("=") for line in text.splitlines())
    words = {key.strip(): value.strip().strip("\"'") for key, dummy, value in pairs}
    name = words.get("ID", "")
    version = words.get("VERSION_ID", "")
    if name == "debian":
        # /etc/debian_version also has the point release; before a release it holds a code name.
        release = (fs.read_if_present("/etc/debian_version") or "").strip()
        version = release if VERSION.match(release) or not version else version
    distribution = DISTRIBUTION_NAMES.get(name) or words.get("NAME") or "A Linux without os-release"
    kernel = fs.read("/proc/sys/kernel/osrelease").strip()
    return System(distribution, version, kernel, "debian" in (name, *words.get("ID_LIKE", "").split()))


def validate_distribution_and_kernel(system: System, distributions: Mapping[str, Any], kernel: str) -> None:
    """Raise BadRequest for a distribution that is not in the list, or for an old version or an old kernel."""
    least = {
        name: _parse_required_version(f"distributions: the version of {name}", text)
        for name, text in distributions.items()
    }
    right = not least or (
        system.distribution in least
        and (system.is_newer_than_releases or _parse_version_numbers(system.version) >= least[system.distribution])
    )
    if right and (not kernel or _parse_version_numbers(system.kernel) >= _parse_required_version("kernel", kernel)):
        return
    names = " or ".join(
        f"{name} {distributions[name]}" for name in sorted(distributions, key=lambda name: str(name).lower())
    )
    made_for = ", with ".join(f"{text} or later" for text in (names, f"kernel {kernel}" if kernel else "") if text)
    raise BadRequest(
        f"{system} is not what the collection is made for: {made_for}. Set epyc_prerequisites_allow_unsupported to go "
        "on. Nothing was changed."
    )


def list_missing_packages(packages: Sequence[str], is_debian: bool) -> list[str]:
    """Return the packages that are not installed, by a query of the package database.

    The package manager is not used, because it would write its caches even in check mode.
    """
    if not packages:
        return []
    try:
        done = command.try_command([*(DPKG if is_debian else RPM), *packages])
    except Absent:
        # This is another family of distributions (allow_unsupported); its package manager finds the missing packages.
        return list(packages)
    # For packages that are not installed, dpkg-query exits with 1, and rpm with the number of such packages.
    if done.code < 0 or (is_debian and done.code > 1):
        raise TuningError(
            f"The package database cannot be read: '{(DPKG if is_debian else RPM)[0]}' failed with exit code "
            f"{done.code}. It says: {' '.join(done.err.split()) or 'nothing'}"
        )
    installed = done.out.splitlines()
    return [name for name in packages if f"{name} installed" not in installed]


def list_loaded_kernel_modules(fs: KernelFS, kernel: str, names: Collection[str]) -> set[str]:
    """Return loaded and built-in kernel modules; complete for the modules in ``names``, which must have no hyphens."""
    modules = {name for name in names if fs.is_dir(f"/sys/module/{name}")}
    if modules != {*names}:
        # Built-in modules without parameters are not in /sys/module.
        built_in = fs.read_if_present(f"/lib/modules/{kernel}/modules.builtin") or ""
        modules.update(os.path.basename(line)[: -len(".ko")].replace("-", "_") for line in built_in.splitlines())
    return modules


class Prerequisites(ManagedFiles):
    """Kernel modules to load, now and at every boot.

    While packages are missing, no kernel module is loaded: a missing package may contain the module, or modprobe.
    """

    prefix = "prerequisites"

    def __init__(self, fs: KernelFS, params: Mapping[str, Any]) -> None:
        """Raises BadRequest for an unsupported distribution or kernel."""
        self.fs = fs
        self.system = read_distribution_and_kernel(fs)
        if not params["allow_unsupported"]:
            validate_distribution_and_kernel(self.system, params["distributions"], params["kernel"])
        self.missing = list_missing_packages(params["packages"], self.system.is_debian)
        self.modules: Sequence[str] = params["modules"] or ()
        for name in self.modules:
            if not NAME.fullmatch(name):
                raise BadRequest(f"modules: '{name}' is no name of a kernel module. Nothing was changed.")
        writes_file = params["modules"] is not None and not self.missing
        super().__init__({FILE: HEAD + "".join(f"{name}\n" for name in self.modules)} if writes_file else {}, fs.root)

    def wanted_settings(self) -> Settings:
        """Return "loaded" for each module, and the digest of the file."""
        wanted: Settings = {} if self.missing else {f"{MODULE}{name}": LOADED for name in self.modules}
        return {**wanted, **super().wanted_settings()}

    def read_settings(self, addresses: Iterable[str]) -> Settings:
        """Return "loaded" for modules that are loaded or built in, and the digest of the file."""
        addresses = list(addresses)
        files = super().read_settings(address for address in addresses if not address.startswith(MODULE))
        names = {address: address[len(MODULE) :].replace("-", "_") for address in addresses if address not in files}
        loaded = list_loaded_kernel_modules(self.fs, self.system.kernel, names.values())
        return {**files, **{address: LOADED if name in loaded else None for address, name in names.items()}}

    def write_changes(self, changes: Sequence[Change]) -> None:
        """Load modules, or for an undo unload them; then write the file for the next boot."""
        for change in changes:
            if change.address.startswith(MODULE):
                self._load_or_unload_kernel_module(change.address[len(MODULE) :], change.after is not None)
        super().write_changes([change for change in changes if not change.address.startswith(MODULE)])

    def _load_or_unload_kernel_module(self, name: str, load: bool) -> None:
        try:
            self.fs.load_module(name, load)
        except TuningError as error:
            folder = f"/lib/modules/{self.system.kernel}"
            cause = f"{error}".rstrip(".") + "."
            if load and not self.fs.is_dir(folder):
                cause += f" There is no {folder}: the running kernel was removed or replaced. Reboot into the new one."
            raise TuningError(f"The kernel module {name} cannot be {'' if load else 'un'}loaded: {cause}") from None
        address = f"{MODULE}{name}"
        if load and self.read_settings([address])[address] is None:
            raise TuningError(
                f"modprobe loaded a module for {name}, but no kernel module of that name is loaded now. If {name} is "
                f"an alias, set the name that 'modprobe --resolve-alias {name}' prints."
            )

    def module_facts(self) -> dict[str, object]:
        return {
            "distribution": self.system.distribution,
            "distribution_version": self.system.version,
            "kernel": self.system.kernel,
            "missing": self.missing,
        }


def _parse_version_numbers(text: str) -> tuple[int, ...]:
    """Return the numbers at the beginning of a version for comparisons: 6.1.0-13-amd64 equals 6.1 and 6.1.0."""
    match = VERSION.match(text)
    numbers = [int(word) for word in match[0].split(".")] if match else []
    while numbers and not numbers[-1]:
        numbers.pop()
    return tuple(numbers)


def _parse_required_version(option: str, text: object) -> tuple[int, ...]:
    # YAML reads an unquoted 24.10 as the number 24.1, so numbers with a point are refused.
    if isinstance(text, float) or not VERSION.fullmatch(str(text)):
        raise BadRequest(
            f"{option} is {text!r}, but has to be a version in quotes, such as '24.04'. Nothing was changed."
        )
    return _parse_version_numbers(str(text))
