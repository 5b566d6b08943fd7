# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What Ansible gets from the library: results, check mode, failures. The modules are real, the host is a tree."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from ansible.module_utils.testing import patch_module_args

from ansible_collections.sovereign.epyc.plugins.module_utils import _ansible, _knob_module
from ansible_collections.sovereign.epyc.plugins.module_utils._drift import survey
from ansible_collections.sovereign.epyc.plugins.module_utils._io import paths
from ansible_collections.sovereign.epyc.plugins.module_utils._io.kernelfs import KernelFS
from ansible_collections.sovereign.epyc.plugins.module_utils._io.store import Store
from ansible_collections.sovereign.epyc.plugins.module_utils._knobs import managed_units
from ansible_collections.sovereign.epyc.plugins.module_utils._knobs.history import history_file
from ansible_collections.sovereign.epyc.plugins.module_utils._setup import host_tool, host_tool_files
from ansible_collections.sovereign.epyc.plugins.module_utils._version import VERSION
from ansible_collections.sovereign.epyc.plugins.modules import (
    epyc_drift_info,
    epyc_host_tool,
    epyc_plan,
    epyc_restore,
    model_file,
    sysfs_settings,
)
from ansible_collections.sovereign.epyc.tests.unit.fakes import ggufs, hosts

BALANCING = "/proc/sys/kernel/numa_balancing"
ASKED = {"numa_balancing": False, "persistent": True, "intent": {"draft": {"ccds": 1}}}
Run = Callable[..., dict[str, Any]]
#: The specifications of modules as they are before the first run.
PRISTINE: dict[Any, Any] = {}


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> hosts.Host:
    host = hosts.small(tmp_path)
    host.put(BALANCING, 1)
    host.put("/proc/sys/kernel/random/boot_id", "this-boot")
    host.put("/proc/cmdline", "ro")
    for door in (_ansible, _knob_module):
        monkeypatch.setattr(door, "KernelFS", lambda read_only: KernelFS(str(tmp_path), read_only=read_only))
    monkeypatch.setattr(_ansible, "Store", lambda read_only: Store(str(tmp_path), read_only=read_only))
    return host


@pytest.fixture
def run(tree: hosts.Host, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Run:
    def run(module: Any, check: bool = False, **options: Any) -> dict[str, Any]:
        # Ansible fills the defaults that it is given, which nobody sees where a module runs once in its process.
        if hasattr(module, "SPEC"):
            monkeypatch.setattr(module, "SPEC", copy.deepcopy(PRISTINE.setdefault(module, copy.deepcopy(module.SPEC))))
        with patch_module_args({**options, "_ansible_check_mode": check}), pytest.raises(SystemExit):
            module.main()
        result: dict[str, Any] = json.loads(capsys.readouterr().out)
        return result

    return run


def test_a_setting_is_made_stored_and_put_back(tree: hosts.Host, run: Run) -> None:
    store = Store(str(tree.root))
    done = run(sysfs_settings, **ASKED)
    assert done["changed"] is True
    assert done["diff"]["changes"]["before"]["sysfs:numa_balancing"] == "1"
    assert tree.fs.read(BALANCING) == "0"
    assert store.load_document("desired.json") == {
        "intent": {"draft": {"ccds": 1}},
        "requests": {"sysfs/sysfs": {"numa_balancing": False}},
    }
    assert run(sysfs_settings, **ASKED)["changed"] is False
    assert run(sysfs_settings, state="original")["changed"] is True
    assert tree.fs.read(BALANCING) == "1"
    assert store.load_document("desired.json")["requests"] == {}


def test_a_check_says_the_same_and_writes_nothing(tree: hosts.Host, run: Run) -> None:
    before = sorted(tree.root.rglob("*"))
    checked = run(sysfs_settings, check=True, **ASKED)
    assert sorted(tree.root.rglob("*")) == before
    assert tree.fs.read(BALANCING) == "1"
    assert checked["diff"] == run(sysfs_settings, **ASKED)["diff"]


def test_a_label_keeps_requests_apart(tree: hosts.Host, run: Run) -> None:
    run(sysfs_settings, label="one", **ASKED)
    run(sysfs_settings, label="two", **ASKED)
    assert sorted(Store(str(tree.root)).load_document("desired.json")["requests"]) == ["sysfs/one", "sysfs/two"]
    done = run(epyc_restore)
    assert {"desired:intent", "desired:sysfs/one", "desired:sysfs/two"} <= set(done["diff"]["changes"]["after"])
    assert tree.fs.read(BALANCING) == "1"


def test_one_layer_is_put_back_alone(tree: hosts.Host, run: Run) -> None:
    run(sysfs_settings, label="numa", **ASKED)
    assert run(epyc_restore, layers=["cat"])["changed"] is False
    check = run(epyc_restore, check=True, layers="numa,irq")
    assert (check["changed"], tree.fs.read(BALANCING)) == (True, "0")
    done = run(epyc_restore, layers=["numa", "irq"])
    assert (done["diff"], done["reboot_required"], done["pending"]) == (check["diff"], False, [])
    assert done["diff"]["changes"]["before"]["sysfs:numa_balancing"] == "0"
    assert tree.fs.read(BALANCING) == "1"
    assert run(epyc_restore, layers=["numa"])["changed"] is False
    for layers, sentence in ((["nuna"], "There is no layer 'nuna'; did you mean numa?"), ([], "No layer is named.")):
        assert run(epyc_restore, layers=layers)["msg"].startswith(sentence)


def test_what_a_terminal_would_obey_is_escaped(tree: hosts.Host, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    failed = run(epyc_restore, layers=["n\x1b[31m\u202e"])
    assert "There is no layer 'n\\x1b[31m\\u202e'" in failed["msg"]
    monkeypatch.setattr(_ansible, "refuse_impossible_values", lambda *dummy: None)

    class Noted:
        @staticmethod
        def main() -> None:
            _ansible.run_read_only_module({}, lambda *dummy: {"remarks": ["a\x1b[2J"]})

    noted = run(Noted)
    assert noted["remarks"] == ["a\\x1b[2J"] and "\x1b" not in str(noted.values())


def test_a_refusal_is_a_failure_with_the_sentence(tree: hosts.Host, run: Run) -> None:
    failed = run(sysfs_settings, thp="always")
    assert failed["failed"] is True
    assert failed["msg"].endswith(".")
    misfit = run(epyc_plan, draft={"ccds": 99})
    assert misfit["failed"] is True
    assert misfit["msg"] == "draft asks for 99 ccds, but only 2 of 2 are left on this host."


def test_a_reader_returns_facts(tree: hosts.Host, run: Run) -> None:
    found = run(epyc_plan, draft={"ccds": 1})
    assert found["changed"] is False
    assert found["ansible_facts"]["epyc"]["plan"]["cpus"]["draft"] == "8-15"
    assert found["ansible_facts"]["epyc"]["topology"]["sku"] == "9754"
    assert found["remarks"] == []
    assert found["map"]["roles"]["draft"] == "8-15"
    assert found["map"]["instances"] == []
    assert found["text"].endswith("\n".join(found["map"]["notes"]))


def test_a_host_with_drift_returns_its_map(tree: hosts.Host, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(survey, "Store", lambda read_only: Store(str(tree.root), read_only=read_only))
    tree.put(paths.BOOT_SERVICE_LINK, "[Unit]")
    run(sysfs_settings, **ASKED)
    clean = run(epyc_drift_info, detail="findings")
    assert "map" not in clean, "all is as configured"
    assert clean["site_version"] == "", "no run of site.yml has begun"
    history_file.begin_run(Store(str(tree.root)), ["numa"], ["numa"])
    assert run(epyc_drift_info, detail="findings")["site_version"] == VERSION
    tree.put(BALANCING, 1)
    assert run(epyc_drift_info, detail="findings")["map"]["roles"]["draft"] == "8-15"
    unfit = run(epyc_drift_info, detail="findings", intent={"draft": {"ccds": 99}})
    assert (unfit["clean"], unfit["map"]) == (False, None)


def test_what_a_reader_remarks_is_a_warning(tree: hosts.Host, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    warnings: list[str] = []
    monkeypatch.setattr(_ansible.AnsibleModule, "warn", lambda module, text: warnings.append(text))
    tree.offline("5")
    found = run(epyc_plan, draft={"ccds": 1})
    assert [remark.partition(",")[0] for remark in found["remarks"]] == ["verify is without CPU 5"]
    assert warnings == found["remarks"]


def test_a_writer_returns_what_it_did(tree: hosts.Host, run: Run, tmp_path: Path) -> None:
    """Of a model file; what becomes of one is tested with a server of its own."""
    file = tmp_path / "model.gguf"
    file.write_bytes(ggufs.WHOLE)
    asked = {"path": str(file), "mode": "0600"}
    checked = run(model_file, check=True, owner="a stranger", **asked)
    assert checked["changed"] is True and file.stat().st_mode & 0o777 != 0o600
    assert checked["diff"]["changes"]["after"] == {
        f"model_file:{file}/owner": "a stranger",
        f"model_file:{file}/mode": "0600",
    }
    assert checked["remarks"] == ["owner: there is no 'a stranger' on this host yet."]
    assert run(model_file, **asked)["diff"]["changes"]["after"] == {f"model_file:{file}/mode": "0600"}
    assert run(model_file, **asked)["changed"] is False
    file.write_bytes(ggufs.WHOLE[:-1])
    failed = run(model_file, **asked)
    assert failed["failed"] is True and "is truncated" in failed["msg"]
    assert run(model_file, mode="0600")["msg"] == "missing required arguments: path"


def test_the_engine_is_installed_replaced_and_removed(
    tree: hosts.Host, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Which files those are only a module that Ansible has sent knows; tests/lab installs the real ones.

    The units are in test_host_tool.py; here none is asked for, and nobody says anything of one.
    """
    home = tree.root / paths.HOST_TOOL_FOLDER.lstrip("/")
    package, command = (
        tree.root / host_tool_files.PACKAGE.lstrip("/"),
        tree.root / paths.HOST_TOOL.lstrip("/"),
    )
    command.parent.mkdir(parents=True)
    package.mkdir(parents=True)
    monkeypatch.setattr(
        host_tool_files,
        "_read_host_tool_files",
        lambda: {f"{host_tool_files.PACKAGE}/_knob.py": "new", paths.HOST_TOOL: "#!/bin/sh\n"},
    )
    monkeypatch.setattr(host_tool, "SERVICES", {})
    (package / "_of_an_older_version.py").write_text("")
    assert run(epyc_host_tool)["changed"] is True
    assert [path.name for path in package.iterdir()] == ["_knob.py"]
    assert (command.read_text(), command.stat().st_mode & 0o777) == ("#!/bin/sh\n", 0o755)
    assert run(epyc_host_tool)["changed"] is False
    (package / "_knob.py").write_text("edited")
    assert list(run(epyc_host_tool)["diff"]["changes"]["after"]) == [f"host_tool:{host_tool_files.PACKAGE}/_knob.py"]
    assert run(epyc_host_tool, interval="often")["msg"].startswith("interval is 'often'")
    monkeypatch.setattr(managed_units.command, "run_command", lambda command: "")
    assert run(epyc_host_tool, state="absent")["changed"] is True
    assert not home.exists()
    assert not command.exists()


@pytest.fixture
def chosen(tree: hosts.Host, monkeypatch: pytest.MonkeyPatch) -> Callable[[], str]:
    """What the kernel shows of transparent huge pages: the word that was written is in brackets."""
    path, real = "/sys/kernel/mm/transparent_hugepage/enabled", KernelFS.write

    def write(fs: KernelFS, file: str, text: str) -> None:
        if file == path:
            tree.put(path, " ".join(f"[{one}]" if one == text else one for one in ("always", "madvise", "never")))
        else:
            real(fs, file, text)

    tree.put(path, "[always] madvise never")
    monkeypatch.setattr(KernelFS, "write", write)
    return lambda: tree.fs.read(path)


def test_what_a_request_asks_for_no_more_is_put_back(tree: hosts.Host, run: Run, chosen: Callable[[], str]) -> None:
    run(sysfs_settings, thp="never", **ASKED)
    assert "[never]" in chosen()
    checked = run(sysfs_settings, check=True, **ASKED)
    assert "[never]" in chosen()
    done = run(sysfs_settings, **ASKED)
    assert done["diff"] == checked["diff"]
    assert done["diff"]["changes"]["after"].pop("desired:sysfs/sysfs")
    assert done["diff"]["changes"]["after"] == {"sysfs:thp/enabled": "always"}
    assert ("[always]" in chosen(), tree.fs.read(BALANCING)) == (True, "0")
    assert run(sysfs_settings, **ASKED)["changed"] is False


def test_what_another_request_still_asks_for_stays(tree: hosts.Host, run: Run, chosen: Callable[[], str]) -> None:
    run(sysfs_settings, thp="never", label="one", **ASKED)
    run(sysfs_settings, thp="never", persistent=True, label="two")
    done = run(sysfs_settings, state="unasked", label="one")
    assert done["diff"]["changes"]["after"] == {"sysfs:numa_balancing": "1", "desired:sysfs/one": None}
    assert "[never]" in chosen()
    assert run(sysfs_settings, state="unasked", label="one")["changed"] is False


def test_it_stays_where_that_is_asked_for(tree: hosts.Host, run: Run, chosen: Callable[[], str]) -> None:
    run(sysfs_settings, thp="never", **ASKED)
    assert run(sysfs_settings, undo_unasked=False, **ASKED)["diff"]["changes"]["after"].keys() == {
        "desired:sysfs/sysfs"
    }
    assert "[never]" in chosen()


def test_what_was_asked_for_and_cannot_be_told_any_more_is_named(
    tree: hosts.Host, run: Run, chosen: Callable[[], str]
) -> None:
    run(sysfs_settings, thp="never", **ASKED)
    Store(str(tree.root)).save_document("desired.json", {"requests": {"sysfs/sysfs": {"thp": "sometimes"}}})
    done = run(sysfs_settings, **ASKED)
    (remark,) = done["remarks"]
    assert remark.startswith("What sysfs/sysfs asked for until now cannot be told here any more")
    assert "[never]" in chosen()


def test_the_plan_tells_what_is_stored(tree: hosts.Host, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    assert run(epyc_plan)["stored"] == []
    run(sysfs_settings, **ASKED)
    assert run(epyc_plan)["stored"] == ["sysfs/sysfs"]


def test_an_old_python_is_refused_in_the_form_of_a_result(capsys: pytest.CaptureFixture[str]) -> None:
    for version in ((3, 9, 0), (3, 13, 1), (4, 0, 0)):
        _ansible.refuse_old_python(version)
    with pytest.raises(SystemExit) as ended:
        _ansible.refuse_old_python((3, 8, 18))
    result = json.loads(capsys.readouterr().out)
    assert (ended.value.code, result["failed"]) == (1, True)
    assert result["msg"].startswith(
        "This host runs modules in Python 3.8, and they need 3.9 or later. Nothing was changed."
    )
