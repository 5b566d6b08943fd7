# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A tree that stands in for a mounted resctrl: it notes each write, and moves a thread from group to group."""

from __future__ import annotations

import errno
import shutil
from pathlib import Path
from typing import Any

from ansible_collections.sovereign.epyc.plugins.module_utils._errors import Absent, Refused
from ansible_collections.sovereign.epyc.plugins.module_utils._host.host import Host
from ansible_collections.sovereign.epyc.plugins.module_utils._io.store import Store
from ansible_collections.sovereign.epyc.plugins.module_utils._kernel.resctrl import format_schemata, parse_schemata
from ansible_collections.sovereign.epyc.plugins.module_utils._knobs.protocol.converge import Outcome, converge_knobs
from ansible_collections.sovereign.epyc.plugins.module_utils._knobs.protocol.knob import Change
from ansible_collections.sovereign.epyc.plugins.module_utils._knobs.protocol.ledger import Ledger, RestoringKnob
from ansible_collections.sovereign.epyc.plugins.module_utils._knobs.resctrl.knob import Resctrl, build_knobs
from ansible_collections.sovereign.epyc.plugins.module_utils._knobs.resctrl.threads import Threads
from ansible_collections.sovereign.epyc.plugins.module_utils._notation.cpulist import format_cpulist, parse_cpulist
from ansible_collections.sovereign.epyc.tests.unit.fakes import hosts

HOME = "/sys/fs/resctrl"
UNIT = "llama.service"
OWN = "made by sovereign.epyc"


class Tree(hosts.TreeFS):
    """Notes what is written, below the mount point, and refuses what it is told to."""

    def __init__(self, root: str) -> None:
        super().__init__(root)
        self.done: list[str] = []
        self.labels: dict[str, str] = {}
        self.refused = ""
        self.gone = False

    def _note(self, verb: str, path: str, text: str = "") -> None:
        line = f"{verb} {path[len(HOME) :]} {text}".strip()
        if self.gone or (verb == "write" and not Path(self._real_path(path)).parent.is_dir()):
            raise Absent(f"Cannot {verb} {path}: No such file or directory.")
        if self.refused and self.refused in line:
            raise Refused(f"Cannot {verb} {path}.", errno.EINVAL, path)
        self.done.append(line)

    def write(self, path: str, text: str) -> None:
        self._note("write", path, text)
        if path.endswith("/tasks"):
            self._move(Path(self._real_path(path)), text.strip())
        elif path.endswith("/schemata"):
            real = Path(self._real_path(path))
            table = parse_schemata(real.read_text())
            for resource, row in parse_schemata(text).items():
                table.setdefault(resource, {}).update(row)
            real.write_text(format_schemata(table))
        elif path.endswith("cpus_list"):
            Path(self._real_path(path)).write_text(text)
            self._clear_monitors(Path(self._real_path(path)).parent, set(parse_cpulist(text)))

    def _clear_monitors(self, group: Path, cpus: set[int]) -> None:
        """Do what the kernel does (cpus_ctrl_write): the group's monitors lose all CPUs, those of others these."""
        home = Path(self._real_path(HOME))
        if group.parent.name == "mon_groups":
            return
        for monitor in home.glob("**/mon_groups/*/cpus_list"):
            left = set() if monitor.parents[2] == group else set(parse_cpulist(monitor.read_text())) - cpus
            monitor.write_text(format_cpulist(left) + "\n")

    def mkdir(self, path: str) -> None:
        self._note("make", path)
        super().mkdir(path)
        files = {"tasks": "", "cpus_list": "\n", "mode": "shareable\n", "schemata": "L3:0=ffff;1=ffff;2=ffff;3=ffff\n"}
        for name, text in files.items():
            Path(self._real_path(path), name).write_text(text)
        Path(self._real_path(path), "mon_groups").mkdir()

    def rmdir(self, path: str) -> None:
        self._note("remove", path)
        for task in Path(self._real_path(path), "tasks").read_text().split():
            self._move(Path(self._real_path(HOME), "tasks"), task)
        self.labels.pop(path, None)
        shutil.rmtree(self._real_path(path))

    def _move(self, tasks: Path, task: str) -> None:
        """Have a thread in one group, and in at most one monitor group, which is one of that group."""
        group = tasks.parents[2] if tasks.parent.parent.name == "mon_groups" else tasks.parent
        for other in Path(self._real_path(HOME)).rglob("tasks"):
            if other.parent != group:
                other.write_text("".join(f"{one}\n" for one in other.read_text().split() if one != task))
        for one in dict.fromkeys([tasks, group / "tasks"]):
            one.write_text("".join(f"{each}\n" for each in {*one.read_text().split(), task}))

    def set_trusted_attribute(self, path: str, name: str, value: str) -> None:
        self.labels[path] = value

    def read_trusted_attribute(self, path: str, name: str) -> str | None:
        return self.labels.get(path)


class Machine:
    """The small machine with resctrl mounted, one group of ours and one of somebody else."""

    def __init__(self, root: Path) -> None:
        self.tree = hosts.small(root)
        self.fs = self.tree.fs = Tree(str(root))
        self.host = Host(self.fs)
        self.tree.put("/proc/self/mounts", f"resctrl {HOME} resctrl rw,relatime 0 0")
        for name, text in {"cbm_mask": "ffff", "num_closids": 16, "min_cbm_bits": 0, "sparse_masks": 1}.items():
            self.tree.put(f"{HOME}/info/L3/{name}", text)
        self.tree.put(f"{HOME}/info/last_cmd_status", "ok")
        self.group("", "0-15", "ffff", tasks=[1, 20])
        self.group("/draft", "", "fff0", tasks=[30])
        self.group("/theirs", "", "000f")
        self.tree.put(f"{HOME}/draft/mon_groups/look/cpus_list", "1-2")
        self.fs.labels[f"{HOME}/draft"] = OWN

    def group(self, name: str, cpus: str, mask: str, mode: str = "shareable", tasks: list[int] | None = None) -> None:
        row = ";".join(f"{domain}={mask}" for domain in range(4))
        for file, text in {"schemata": f"    L3:{row}", "cpus_list": cpus, "mode": mode}.items():
            self.tree.put(f"{HOME}{name}/{file}", text)
        self.tree.put(f"{HOME}{name}/tasks", "\n".join(map(str, tasks or [])))

    def knob(self, **options: Any) -> Resctrl:
        knob = build_knobs(self.host, options)[1]
        assert isinstance(knob, Resctrl)
        return knob

    def threads(self, **options: Any) -> Threads:
        knob = build_knobs(self.host, options)[2]
        assert isinstance(knob, Threads)
        return knob

    def write(self, **changes: str | tuple[str | None, str | None] | None) -> list[str]:
        """Write changes, named with __ for the slash; a pair is before and after. Returns what was done."""
        knob = self.knob()
        knob.read_settings([])
        pairs = [(name, value if isinstance(value, tuple) else (None, value)) for name, value in changes.items()]
        knob.write_changes([Change(f"resctrl:{name.replace('__', '/')}", *pair) for name, pair in pairs])
        return self.fs.done


def apply(machine: Machine, **options: Any) -> Outcome:
    knob = machine.knob(**options)
    return converge_knobs([knob], Ledger(Store(str(machine.tree.root)), machine.fs))


def undo(machine: Machine) -> Outcome:
    ledger = Ledger(Store(str(machine.tree.root)), machine.fs)
    return converge_knobs([RestoringKnob(machine.knob(), ledger)], ledger)
