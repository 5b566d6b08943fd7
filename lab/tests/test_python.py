# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What makes Python quick in a guest: it changes no result, and is gone where something is measured."""

from __future__ import annotations

import base64
import io
import subprocess
import uuid
import zipfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from vepyc import Machine
from vepyc.paths import PACKAGE
from vepyc.quick_python.python_files import FORK_SERVER

pytestmark = pytest.mark.slow

BYTECODE = "/root/.vepyc-bytecode"
# Imports a module out of an archive, as every module of Ansible is.
FROM_ARCHIVE = """
import sys, zipfile
with zipfile.ZipFile("/run/one.zip", "w") as archive:
    archive.writestr("module_of_this_test.py", f"NUMBER = {sys.argv[1]}  # in run {sys.argv[2]}")
sys.path.insert(0, "/run/one.zip")
import module_of_this_test
print(module_of_this_test.NUMBER)
"""


# Cuts the file of what other machines compiled within the code of one source.
CUT = """
import marshal, sys
with open("/root/.vepyc-given", "r+b") as file:
    start, length = marshal.loads(file.read(int.from_bytes(file.read(8), "big")))[sys.argv[1]]
    file.truncate(start + length - 1)
"""
# In the way of Ansible: a program that brings an archive, and says which of its modules it finds, and imported itself.
BRINGS = """
import base64, importlib, os, sys, tempfile
def main(zip_data):
    with tempfile.NamedTemporaryFile(suffix=".zip") as archive:
        archive.write(base64.b64decode(zip_data))
        archive.flush()
        sys.path.insert(0, archive.name)
        for name in NAMES:
            try:
                module = importlib.import_module(name)
                print(module.TEXT, "itself" if module.IMPORTED_BY == os.getpid() else "before", end=";")
            except ImportError:
                print("none", end=";")
main(
zip_data='ARCHIVE',
)
"""
BASIC, MORE = "ansible.module_utils.basic", "ansible.module_utils.more"
OURS, OTHER = (f"ansible_collections.a.b.plugins.module_utils.{name}" for name in ("ours", "other"))
SSH = PACKAGE / "quick_python/ssh.sh"
# What Ansible has its ssh run, with a module on the standard input.
NEW_PYTHON = "/bin/sh -c /usr/bin/python3"
# Says which program the parent of this one is, in the way of a module that failed.
PARENT = """
import os, sys
os.write(1, bytes([255]))  # no text in UTF-8
print(open(f"/proc/{os.getppid()}/cmdline").read().replace("\\0", " "), end="")
print(__name__, sys.argv, os.environ["HOME"], os.getcwd(), file=sys.stderr)
sys.exit(3)
"""


def as_ansible(machine: Machine, program: str) -> subprocess.CompletedProcess[str]:
    """Give a program to a new Python of the machine, in the way of Ansible's connection by ssh."""
    command = [str(SSH), "-o", f"Port={machine.port}", *machine.ssh_command()[1:], NEW_PYTHON]
    where, text = machine.run_dir.path, {"encoding": "utf-8", "errors": "surrogateescape"}
    return subprocess.run(command, input=program, cwd=where, capture_output=True, timeout=60, check=False, **text)


def cached_bytecode_names(machine: Machine) -> set[str]:
    return set(machine.run(f"ls {BYTECODE}", check=False).stdout.split())


def run_numbered_module(machine: Machine, wanted: int, run: uuid.UUID) -> int:
    """A number out of an archive; the run makes sources that no guest before had."""
    return int(machine.run(f"python3 - {wanted} {run}", input=FROM_ARCHIVE).stdout)


def stack_addresses(machine: Machine) -> set[str]:
    """Where the stacks of three programs are."""
    return set(machine.run("for i in 1 2 3; do grep -F '[stack]' /proc/self/maps; done").stdout.splitlines())


def test_bytecode_of_archives_is_kept_and_belongs_to_its_source(own_small: Machine) -> None:
    run, before = uuid.uuid4(), cached_bytecode_names(own_small)
    assert [run_numbered_module(own_small, wanted, run) for wanted in (1, 2, 1)] == [1, 2, 1]
    first, second = (f"{BYTECODE}/{name}" for name in sorted(cached_bytecode_names(own_small) - before))
    # It is what is kept that runs, and what was cut short is compiled anew.
    own_small.run(f"mv {first} /run/first && cp {second} {first} && cp /run/first {second}")
    assert [run_numbered_module(own_small, wanted, run) for wanted in (1, 2)] == [2, 1]
    own_small.run(f"truncate -s 7 {first} {second}")
    assert [run_numbered_module(own_small, wanted, run) for wanted in (1, 2)] == [1, 2]


def test_bytecode_of_other_machines_is_used_unless_it_was_cut_short(own_small: Machine) -> None:
    run, before = uuid.uuid4(), cached_bytecode_names(own_small)
    assert run_numbered_module(own_small, 5, run) == 5
    (name,) = cached_bytecode_names(own_small) - before
    store = own_small._bytecode_store()
    store.fetch_from_guest()
    store.send_to_guest()
    assert run_numbered_module(own_small, 5, run) == 5
    assert cached_bytecode_names(own_small) == set(), "nothing was compiled again"
    own_small.run(f"python3 - {name}", input=CUT)
    assert run_numbered_module(own_small, 5, run) == 5
    assert cached_bytecode_names(own_small) >= {name}


def test_addresses_are_equal(own_small: Machine) -> None:
    assert len(stack_addresses(own_small)) == 1


def test_modules_of_ansible_run_in_a_python_that_is_there(own_small: Machine) -> None:
    done = as_ansible(own_small, PARENT)
    assert (done.returncode, done.stdout) == (3, f"\udcff/usr/bin/python3 /{FORK_SERVER} --socket ")
    assert done.stderr == "__main__ [''] /root /root\n"
    # It is neither the same process nor one that an earlier module has changed.
    assert as_ansible(own_small, "import os, sys; sys.changed = print(os.getpid())").stdout.strip().isdigit()
    assert as_ansible(own_small, "import sys; print(hasattr(sys, 'changed'))").stdout == "False\n"
    for program, error in (("1 / 0", "ZeroDivisionError"), ("open('/none')", "FileNotFoundError")):
        failed = as_ansible(own_small, program)
        assert failed.returncode == 1 and failed.stderr.splitlines()[-1].startswith(error)
    cut = as_ansible(own_small, "import os; os.kill(os.getppid(), 9)")
    assert (cut.returncode, cut.stderr) == (255, "The connection to the guest ended before the module did.\n")
    # What is not for a new Python is ssh's, and so are its errors.
    command = [str(SSH), *own_small.ssh_command()[1:], "exit 7"]
    assert subprocess.run(command, cwd=own_small.run_dir.path, check=False).returncode == 7


def program_with_archive(**texts: str) -> str:
    """A program whose archive has these modules."""
    names = {"basic": BASIC, "more": MORE, "ours": OURS, "other": OTHER}
    files = {f"{names[name].replace('.', '/')}.py": text for name, text in texts.items()}
    packages = {f"{parent}/__init__.py" for file in files for parent in Path(file).parents if parent.name}
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        for package in packages:
            archive.writestr(zipfile.ZipInfo(package), "")
        for file, text in files.items():
            archive.writestr(zipfile.ZipInfo(file), f"import os\nTEXT, IMPORTED_BY = {text!r}, os.getpid()\n")
    program = BRINGS.replace("ARCHIVE", base64.b64encode(packed.getvalue()).decode())
    return program.replace("NAMES", repr([BASIC, MORE, OURS, OTHER]))


def run_program_with_archive(machine: Machine, **texts: str) -> str:
    """Run a program whose archive has these modules, and return what it says of all that there may be."""
    return as_ansible(machine, program_with_archive(**texts)).stdout


def test_what_programs_bring_is_imported_once(own_small: Machine) -> None:
    """Of Ansible what every module needs, of a collection all that modules share; each program has what it brings."""
    own_small.run("systemctl restart vepyc-python.service")
    for texts, said in (
        ({"basic": "1", "more": "a", "ours": "x"}, "1 before;a itself;x before;none;"),
        ({"basic": "1", "more": "b", "other": "y"}, "1 before;b itself;none;y before;"),
        ({"basic": "1", "ours": "x", "other": "y"}, "1 before;none;x before;y before;"),
        # What differs is not used, nor is anything that may have been imported together with it.
        ({"basic": "1", "ours": "z", "other": "y"}, "1 itself;none;z itself;y itself;"),
        ({"basic": "2", "ours": "x"}, "2 itself;none;x itself;none;"),
    ):
        assert run_program_with_archive(own_small, **texts) == said
        assert run_program_with_archive(own_small, **texts) == said, "its archive is there already"
    assert as_ansible(own_small, "import sys; print('ansible' in sys.modules)").stdout == "False\n"


def test_an_archive_is_sent_once(own_small: Machine) -> None:
    place = "/run/vepyc-archives"
    own_small.run(f"rm -rf {place}")
    for texts, known in (({"ours": "1"}, 1), ({"ours": "1"}, 1), ({"ours": "2"}, 2)):
        assert f"none;none;{texts['ours']} " in run_program_with_archive(own_small, **texts)
        assert own_small.run(f"ls {place} | wc -l").stdout.strip() == str(known)
    before = own_small.run(f"stat -c %Y.%i {place}/*").stdout
    run_program_with_archive(own_small, ours="1")
    assert own_small.run(f"stat -c %Y.%i {place}/*").stdout == before


def test_a_program_that_is_none_fails_alone(own_small: Machine) -> None:
    server = "systemctl show --property=MainPID vepyc-python.service"
    before = own_small.run(server).stdout
    for end in ("1 +", "1 +\nif __name__ == '__main__':\n    pass"):
        failed = as_ansible(own_small, f"{program_with_archive(ours='1')}{end}\n")
        assert failed.returncode == 1 and failed.stderr.splitlines()[-1].startswith("SyntaxError: ")
    assert own_small.run(server).stdout == before


def test_a_program_does_not_wait_for_another(own_small: Machine) -> None:
    waits = "import os, time\nopen('/run/begun', 'w')\nwhile not os.path.exists('/run/other'): time.sleep(0.1)"
    with ThreadPoolExecutor(1) as threads:
        first = threads.submit(as_ansible, own_small, waits)
        own_small.run("timeout 30 sh -c 'until [ -e /run/begun ]; do sleep 0.1; done'")
        assert as_ansible(own_small, "open('/run/other', 'w').close(); print('made')").stdout == "made\n"
        assert first.result().returncode == 0


def test_where_something_is_measured_all_is_as_on_any_host(own_small: Machine) -> None:
    udev = "systemctl is-active systemd-udevd.service"
    before = cached_bytecode_names(own_small)
    assert own_small.run(udev, check=False).stdout == "inactive\n"
    own_small.remove_speedups()
    assert own_small.run(f"modprobe cpuid; udevadm settle; {udev}").stdout == "active\n"
    parent = as_ansible(own_small, PARENT)
    assert (parent.returncode, parent.stdout) == (3, f"\udcff{NEW_PYTHON} ")
    assert run_numbered_module(own_small, 3, uuid.uuid4()) == 3
    assert cached_bytecode_names(own_small) == before
    assert len(stack_addresses(own_small)) == 3
