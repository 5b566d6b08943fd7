# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Runs commands and playbooks from the root of the clone as a user would, and records what playbooks did."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from .paths import compute_digest, ensure_directory

_ROOT = Path(__file__).resolve().parents[2]
#: Files and folders that decide what a playbook of the collection does to a guest.
_PARTS = ("ansible.cfg", "playbooks", "plugins", "roles", "inventories/lab/group_vars")


def clean_environment(**variables: str) -> dict[str, str]:
    """Return the environment of this process without settings of Ansible or pytest; this Python is first in PATH."""
    prefixes = ("ANSIBLE_", "PYTEST_", "COV_", "SOVEREIGN_EPYC_DRIFT_")
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(prefixes)}
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    return {**inherited, "PATH": path, **variables}


def run_command(
    *command: str, cwd: Path = _ROOT, timeout: float = 1800, **variables: str
) -> subprocess.CompletedProcess[str]:
    """Run a command without a terminal, with more environment variables; its stdout includes its stderr."""
    return subprocess.run(
        command,
        cwd=cwd,
        env=clean_environment(**variables),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=timeout,
        check=False,
    )


def collection_digest() -> str:
    """Return a digest of all files that decide what a playbook of the collection does to a guest."""
    # Imported here because the commands of the lab work without Ansible.
    from ansible.release import __version__ as ansible_version

    files = [path for part in _PARTS for path in sorted([_ROOT / part, *(_ROOT / part).rglob("*")]) if path.is_file()]
    sources = [path for path in files if "__pycache__" not in path.parts]
    named = [part for path in sources for part in (str(path.relative_to(_ROOT)), path.read_bytes())]
    return compute_digest([ansible_version, *named])


class PlaybookRun:
    """What a run of ansible-playbook did: exit code, output, results of tasks, executed modules."""

    def __init__(self, returncode: int, output: str, record: list[dict[str, Any]]) -> None:
        self.returncode = returncode
        self.output = output
        self.results = [line for line in record if "task" in line]
        #: The modules that were executed on hosts, each with the task that executed it.
        self.executions = [(line["module"], line["by"]) for line in record if "module" in line]

    @property
    def changed_results(self) -> dict[str, dict[str, Any]]:
        """The results with `changed`, by the name of their task."""
        return {result["task"]: result for result in self.results if result.get("changed")}

    def __getitem__(self, task: str) -> dict[str, Any]:
        return next(result for result in self.results if result["task"] == task)


def run_recorded_command(folder: Path, *command: str, timeout: float = 1800, **variables: str) -> PlaybookRun:
    """Run a command that starts ansible-playbook, with more environment variables; write its record into the folder."""
    recording = _recording_variables(folder)
    done = run_command(*command, timeout=timeout, **{**recording, **variables})
    record = Path(recording["RECORD_FILE"])
    lines = [json.loads(line) for line in record.read_text().splitlines()] if record.exists() else []
    return PlaybookRun(done.returncode, done.stdout, lines)


def write_inventory(folder: Path, servers: Mapping[str, Any], **groups: Mapping[str, Any]) -> Path:
    """Write ``folder/hosts.json`` with the servers that the collection tunes, and with more groups; return its path.

    The servers and each group map names of hosts to their variables.
    """
    path = folder / "hosts.json"
    members = {"epyc_servers": servers, **groups}
    path.write_text(json.dumps({group: {"hosts": dict(hosts)} for group, hosts in members.items()}))
    return path


def run_playbook(
    folder: Path,
    playbook: Path | str,
    *arguments: str,
    timeout: float = 1800,
    programs: Path | None = None,
    poll_seconds: float = 0.01,
) -> PlaybookRun:
    """Run a playbook on the hosts of ``folder/hosts.json``; write its record into the folder.

    ``programs`` is the folder of another Ansible's programs, None for the Ansible of this Python. ``poll_seconds`` is
    the time between two polls of Ansible for the results of its tasks.
    """
    program = str(programs / "ansible-playbook") if programs else "ansible-playbook"
    command = [program, *_inventory_arguments(folder), str(playbook), *arguments]
    return run_recorded_command(folder, *command, timeout=timeout, ANSIBLE_INTERNAL_POLL_INTERVAL=str(poll_seconds))


def kill_playbook(folder: Path, playbook: Path | str, *arguments: str, after: int, kill: Callable[[], object]) -> bool:
    """Run a playbook and kill it when its record has ``after`` lines; return whether it was still running then.

    ``kill`` is called before that, to kill what runs on the hosts.
    """
    variables = _recording_variables(folder)
    record = Path(variables["RECORD_FILE"])
    running = subprocess.Popen(
        ["ansible-playbook", *_inventory_arguments(folder), str(playbook), *arguments],
        cwd=_ROOT,
        env=clean_environment(**variables),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    while running.poll() is None and (not record.exists() or len(record.read_bytes().splitlines()) < after):
        time.sleep(0.02)
    ran = running.poll() is None
    kill()
    with suppress(ProcessLookupError):
        os.killpg(running.pid, signal.SIGKILL)
    running.wait()
    return ran


def _inventory_arguments(folder: Path) -> tuple[str, str]:
    return "-i", str(folder / "hosts.json")


def quick_ansible_variables(*callbacks: str) -> dict[str, Any]:
    """Return environment variables with which Ansible takes half of its time, with equal results; see lab/README.md."""
    return {
        "ANSIBLE_CALLBACK_PLUGINS": str(_ROOT / "tools/callback"),
        "ANSIBLE_CALLBACKS_ENABLED": ",".join(["archives", "preload", *callbacks]),
        "ANSIBLE_SSH_EXECUTABLE": str(_ROOT / "lab/vepyc/quick_python/ssh.sh"),
        "ARCHIVES_FOLDER": str(ensure_directory("archives")),
    }


def _recording_variables(folder: Path) -> dict[str, Any]:
    """Return environment variables with which Ansible writes a new record into the folder."""
    record = folder / "record.jsonl"
    record.unlink(missing_ok=True)
    return {**quick_ansible_variables("record"), "RECORD_FILE": str(record)}
