# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A kernel in a tree: its files take, refuse and show what the kernel of the small machine does.

Each kind of setting has a file of rules beside this one. The files tests/lab/test_*_conformance.py send the same
requests to the real kernel, and compare all answers.
"""

from __future__ import annotations

import errno
import os
import re
import shutil
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Protocol

from ansible_collections.sovereign.epyc.plugins.module_utils._io.kernelfs import _translate_errors
from ansible_collections.sovereign.epyc.plugins.module_utils._notation.cpulist import format_cpulist, parse_cpulist
from ansible_collections.sovereign.epyc.tests.unit.fakes import hosts

MOUNTS = "/proc/self/mounts"
CPUS = "/sys/devices/system/cpu"
#: Takes the path and the text of a write, shows what the kernel shows then, and raises OSError where it refuses.
Rule = Callable[[str, str], None]


def refuse(code: int) -> OSError:
    """Return the error with which the kernel answers a system call."""
    return OSError(code, os.strerror(code))


class FileSystem(Protocol):
    """A file system whose folders the kernel makes, with all that is in them."""

    def mount(self, options: str) -> None: ...

    def unmount(self) -> None: ...

    def mkdir(self, path: str) -> None: ...

    def rmdir(self, path: str) -> None: ...


class RuledFS(hosts.TreeFS):
    """A tree that follows the rule of a file when it is written to; a file without one shows the text itself."""

    def __init__(self, root: str) -> None:
        super().__init__(root)
        self.rules: list[tuple[re.Pattern[str], Rule]] = []
        #: Files that refuse every write, with the number of the error.
        self.refusals: dict[str, int] = {}
        #: Folders whose files cannot be read now, with the number of the error.
        self.unreadable: dict[str, int] = {}
        self.modules: dict[str, Callable[[bool], None]] = {}
        #: File systems that can be mounted, by type, and those that are, by their mount point.
        self.file_systems: dict[str, FileSystem] = {}
        self.mounted: dict[str, FileSystem] = {}
        self.labels: dict[str, str] = {}
        #: What happens when a file is read, by its path.
        self.before_read: Callable[[str], None] = lambda path: None
        #: Read and write a register of a device, by its path and the number of the register.
        self.read_register: Callable[[str, int], int] = lambda path, register: 0
        self.write_register: Callable[[str, int, int], None] = lambda path, register, word: None

    def add_rule(self, pattern: str, rule: Rule) -> None:
        """Have a rule for all files whose whole path the regular expression matches."""
        self.rules.append((re.compile(pattern), rule))

    def write(self, path: str, text: str) -> None:
        self._require_writable(path)
        with _translate_errors(path, f"write '{text.strip()}' to"):
            if path in self.refusals:
                raise refuse(self.refusals[path])
            # The files of interrupts are opened for root whatever their mode says, and refuse what is written.
            if not os.stat(self._real_path(path)).st_mode & 0o222 and not path.startswith("/proc/irq/"):
                raise refuse(errno.EACCES)
            self._follow_rule(path, text)

    def _follow_rule(self, path: str, text: str) -> None:
        for pattern, rule in self.rules:
            if pattern.fullmatch(path):
                rule(path, text)
                return
        self.show(path, text.rstrip("\n"))

    def write_refusal_errno(self, path: str, invalid_text: str) -> int:
        self.read(path)
        try:
            self._follow_rule(path, invalid_text)
        except OSError as error:
            return error.errno or 0
        return 0

    def read(self, path: str, limit: int = 1 << 20) -> str:
        with _translate_errors(path, "read"):
            if os.path.dirname(path) in self.unreadable and os.path.exists(self._real_path(path)):
                raise refuse(self.unreadable[os.path.dirname(path)])
        self.before_read(path)
        return super().read(path, limit)

    def read_words(self, path: str, offsets: Iterable[int]) -> list[int]:
        with _translate_errors(path, "open"):
            os.stat(self._real_path(path))
        return [self.read_register(path, register) for register in offsets]

    def patch_words(self, path: str, edits: Iterable[tuple[int, int, int]]) -> None:
        self._require_writable(path)
        for register, mask, value in edits:
            old = self.read_words(path, [register])[0]
            new = old & ~mask | value & mask
            if new != old:
                with _translate_errors(path, f"write {new:#x} to register {register:#x} of"):
                    self.write_register(path, register, new)

    def show(self, path: str, text: object) -> None:
        """Have a file hold a text from now on."""
        Path(self._real_path(path)).write_text(f"{text}\n")

    def mount_filesystem(self, fstype: str, target: str, options: str = "") -> None:
        self._require_writable(target)
        with _translate_errors(target, "mount"):
            self.file_systems[fstype].mount(options)
        self.mounted[target] = self.file_systems[fstype]
        more = f",{options}" if options else ""
        row = f"{fstype} {target} {fstype} rw,nosuid,nodev,noexec,relatime{more} 0 0"
        self.show(MOUNTS, f"{self.read(MOUNTS)}\n{row}")

    def unmount_filesystem(self, target: str) -> None:
        self._require_writable(target)
        with _translate_errors(target, "unmount"):
            if target not in self.mounted:
                raise refuse(errno.EINVAL)
        self.mounted.pop(target).unmount()
        self.show(MOUNTS, "\n".join(row for row in self.read(MOUNTS).splitlines() if row.split()[1] != target))

    def mkdir(self, path: str) -> None:
        file_system = self._file_system_of(path)
        if file_system is None:
            super().mkdir(path)
            return
        self._require_writable(path)
        with _translate_errors(path, "make"):
            file_system.mkdir(path)

    def rmdir(self, path: str) -> None:
        file_system = self._file_system_of(path)
        if file_system is None:
            super().rmdir(path)
            return
        self._require_writable(path)
        with _translate_errors(path, "remove"):
            file_system.rmdir(path)
        self.labels = {one: text for one, text in self.labels.items() if not f"{one}/".startswith(f"{path}/")}

    def _file_system_of(self, path: str) -> FileSystem | None:
        return next((one for target, one in self.mounted.items() if path.startswith(f"{target}/")), None)

    def set_trusted_attribute(self, path: str, name: str, value: str) -> None:
        self._require_writable(path)
        self.labels[path] = value

    def read_trusted_attribute(self, path: str, name: str) -> str | None:
        return self.labels.get(path)

    def load_module(self, name: str, load: bool = True) -> None:
        """Load or unload a kernel module that somebody gave this tree."""
        self._require_writable(f"/sys/module/{name}")
        self.modules[name](load)


class CpuSwitch:
    """Takes CPUs offline and online again, as a write to their file ``online`` does."""

    def __init__(self, host: hosts.Host, fs: RuledFS) -> None:
        self.host = host
        self.fs = fs
        #: What else happens with a CPU: it gets the CPU, and whether it is online from now on.
        self.followers: list[Callable[[int, bool], None]] = []
        self._aside: dict[int, Path] = {}
        self._lists: dict[Path, set[int]] = {}
        for cpu in parse_cpulist(fs.read(f"{CPUS}/present"))[1:]:
            host.put(f"{CPUS}/cpu{cpu}/online", 1)
        fs.add_rule(rf"{CPUS}/cpu\d+/online", self._write)

    def _write(self, path: str, text: str) -> None:
        cpu, online = int(path.split("/")[-2][3:]), text.strip() == "1"
        if text.strip() not in ("0", "1"):
            raise refuse(errno.EINVAL)
        if self.fs.read(path) == text.strip():
            return
        self.fs.show(path, int(online))
        folder = self.host.root / f"{CPUS[1:]}/cpu{cpu}"
        if online:
            for name in ("topology", "cache"):
                shutil.move(self._aside[cpu] / name, folder / name)
            for place, cpus in self._lists.items():
                if cpu in cpus and place.exists():
                    place.write_text(f"{format_cpulist({*parse_cpulist(place.read_text()), cpu})}\n")
        else:
            self._lists.update({place: cpus for place, cpus in self._read_lists() if place not in self._lists})
            self._aside[cpu] = self.host.root / f"offline/cpu{cpu}"
            for name in ("topology", "cache"):
                shutil.copytree(folder / name, self._aside[cpu] / name)
            self.host.offline(str(cpu))
        for follower in self.followers:
            follower(cpu, online)

    def _read_lists(self) -> Iterable[tuple[Path, set[int]]]:
        root = self.host.root
        places = [root / f"{CPUS[1:]}/online", *root.glob("sys/devices/system/node/node*/cpulist")]
        for place in [*places, *root.glob(f"{CPUS[1:]}/cpu*/*/**/*_list")]:
            yield place, set(parse_cpulist(place.read_text()))


class Kernel:
    """The small machine with a kernel that follows rules; ``fs`` is what the library gets of it."""

    def __init__(self, root: Path, **changes: Any) -> None:
        self.host = hosts.small(root, **changes)
        self.fs = RuledFS(str(root))
        self.fs.answers = self.host.fs.answers
        self.host.fs = self.fs
        self.put = self.host.put
        self.cpus = CpuSwitch(self.host, self.fs)
        self.put("/proc/sys/kernel/random/boot_id", "11111111-2222-3333-4444-555555555555")
        self.put("/proc/cmdline", "BOOT_IMAGE=/vmlinuz quiet")
        self.put(f"{CPUS}/possible", self.fs.read(f"{CPUS}/present"))

    def record(self, files: dict[str, str], read_only: Iterable[str] = ()) -> None:
        """Show the texts that another kernel was seen to show, and take no write to those that it shows only."""
        for path, text in files.items():
            self.put(path, text)
        for path in read_only:
            (self.host.root / path[1:]).chmod(0o444)
