# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The host tool and its units, without a systemd: what is asked of it, and in which order.

What systemd makes of it is tested with one, in extensions/molecule/base and tests/lab/test_new_irqs.py.
"""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from collections.abc import Callable
from importlib.util import resolve_name
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.sovereign.epyc.plugins.module_utils._errors import BadRequest, TuningError
from ansible_collections.sovereign.epyc.plugins.module_utils._io import paths
from ansible_collections.sovereign.epyc.plugins.module_utils._io import textfile as textfiles
from ansible_collections.sovereign.epyc.plugins.module_utils._io.store import HOME, REQUESTS
from ansible_collections.sovereign.epyc.plugins.module_utils._knobs.protocol.converge import Outcome
from ansible_collections.sovereign.epyc.plugins.module_utils._setup import host_tool_files
from ansible_collections.sovereign.epyc.plugins.module_utils._setup.host_tool import (
    BOOT,
    CHECK,
    TIMER,
    UNIT_FOLDER,
    WATCH,
    HostTool,
)
from ansible_collections.sovereign.epyc.tests.unit.fakes.host_tools import (
    MODULE,
    TEXTFILE,
    bare,
    files,
    run,
    version,
)
from ansible_collections.sovereign.epyc.tests.unit.fakes.systemds import Systemd


@pytest.fixture
def systemd(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Systemd:
    return bare(tmp_path, monkeypatch)


def addresses(outcome: Outcome) -> list[str]:
    return sorted(outcome.to_diff()["after"])


#: It is started as systemd will start it.
PROOF = "sovereign-epyc --help"


def test_it_is_installed_and_a_second_run_asks_once(systemd: Systemd) -> None:
    done = run(systemd)
    asked = f"show {BOOT} {WATCH}"
    assert systemd.asked() == [asked, PROOF, f"enable {BOOT} {WATCH}", f"restart {WATCH}", asked]
    assert systemd.active == {WATCH: "active"}, "the boot service waits for the next boot"
    assert (systemd.state(BOOT), systemd.state(WATCH)) == ("enabled", "enabled")
    boot = systemd.file(BOOT).read_text()
    assert f"ExecStart={host_tool_files.HOST_TOOL} apply --retry\n" in boot
    assert [line for line in boot.splitlines() if line.startswith("Condition")] == [
        f"ConditionPathExists=|{HOME}/{REQUESTS}",
        f"ConditionPathIsSymbolicLink=|{HOME}",
    ]
    assert not systemd.file(TIMER).exists()
    assert addresses(done) == [
        f"host_tool:{UNIT_FOLDER}/{WATCH}",
        f"host_tool:{UNIT_FOLDER}/{BOOT}",
        f"host_tool:{MODULE}",
        f"host_tool:{host_tool_files.HOST_TOOL}",
        f"host_tool:{WATCH}/active",
        f"host_tool:{WATCH}/enabled",
        f"host_tool:{BOOT}/enabled",
    ]
    assert set(done.to_diff()["before"].values()) == {None}
    assert run(systemd).changes == []
    assert systemd.asked() == [asked]


@pytest.mark.parametrize("options", [{}, {"textfile": TEXTFILE}], ids=["services", "timer"])
def test_a_check_of_a_bare_host_says_the_same_and_writes_nothing(systemd: Systemd, options: dict[str, str]) -> None:
    before = sorted(systemd.root.rglob("*"))
    checked = run(systemd, check=True, **options)
    assert sorted(systemd.root.rglob("*")) == before
    assert [call.split()[0] for call in systemd.asked()] == ["show"]
    assert checked.to_diff() == run(systemd, **options).to_diff()


def test_the_host_checks_itself_and_without_a_file_that_is_left_alone(systemd: Systemd) -> None:
    run(systemd, textfile=TEXTFILE, interval="1h 30min")
    assert f"check --textfile {TEXTFILE}\n" in systemd.file(CHECK).read_text()
    assert "OnUnitActiveSec=1h 30min\n" in systemd.file(TIMER).read_text()
    assert systemd.active == {WATCH: "active", TIMER: "active"}
    assert systemd.state(TIMER) == "enabled"
    systemd.asked()
    assert run(systemd).changes == []
    assert systemd.asked() == [f"show {BOOT} {WATCH}"]
    assert addresses(run(systemd, textfile=TEXTFILE)) == [f"host_tool:{UNIT_FOLDER}/{TIMER}"]
    assert systemd.asked()[1:-1] == ["daemon-reload", f"reset-failed {TIMER}", f"try-restart {TIMER}"]


def test_what_keeps_an_older_engine_or_unit_is_restarted(systemd: Systemd, monkeypatch: pytest.MonkeyPatch) -> None:
    run(systemd, textfile=TEXTFILE)
    systemd.asked()
    version(monkeypatch, "two")
    assert addresses(run(systemd, textfile=TEXTFILE)) == [f"host_tool:{MODULE}"]
    assert systemd.asked()[1:-1] == [PROOF, f"reset-failed {WATCH}", f"try-restart {WATCH}"]
    systemd.file(WATCH).write_text("edited")
    systemd.file(BOOT).write_text("edited")
    systemd.reload()
    run(systemd, textfile=TEXTFILE)
    assert systemd.asked()[1:-1] == ["daemon-reload", f"reset-failed {WATCH}", f"try-restart {WATCH}"]


@pytest.mark.parametrize(
    ("verb", "name", "address", "words", "repair"),
    [
        ("disable", BOOT, f"host_tool:{BOOT}/enabled", "disabled", f"enable {BOOT}"),
        ("stop", WATCH, f"host_tool:{WATCH}/active", "inactive", f"restart {WATCH}"),
        ("stop", TIMER, f"host_tool:{TIMER}/active", "inactive", f"restart {TIMER}"),
    ],
)
def test_what_was_done_by_hand_is_found_and_repaired(
    systemd: Systemd, verb: str, name: str, address: str, words: str, repair: str
) -> None:
    run(systemd, textfile=TEXTFILE)
    systemd.run(["systemctl", verb, name])
    systemd.asked()
    checked = run(systemd, check=True, textfile=TEXTFILE)
    assert list(checked.to_diff()["before"].items()) == [(address, words)]
    assert run(systemd, textfile=TEXTFILE).to_diff() == checked.to_diff()
    assert systemd.asked()[2:-1] == [repair]
    assert run(systemd, textfile=TEXTFILE).changes == []


def test_a_link_that_is_gone_is_found_though_systemd_remembers_it(systemd: Systemd) -> None:
    run(systemd)
    systemd.link(BOOT).unlink()
    assert "UnitFileState=enabled" in systemd.show(BOOT)
    assert run(systemd).to_diff()["before"] == {f"host_tool:{BOOT}/enabled": "disabled"}
    assert systemd.link(BOOT).is_symlink()


def test_a_run_that_ended_before_systemd_read_the_files_is_made_good(systemd: Systemd) -> None:
    run(systemd)
    systemd.known[WATCH] = ("older", "enabled")
    systemd.asked()
    assert run(systemd).to_diff()["before"] == {f"host_tool:{WATCH}/active": "active as before its file changed"}
    assert systemd.asked()[1:-1] == ["daemon-reload", f"restart {WATCH}"]


def test_a_masked_unit_is_replaced_and_nothing_is_written_through_its_link(
    systemd: Systemd, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    device = tmp_path / "null"
    device.touch()
    device.chmod(0o666)
    systemd.file(WATCH).symlink_to(device)
    modes = set()

    def replace(path: str, *rest: Any, real: Callable[..., None] = textfiles.write_file, **more: Any) -> None:
        real(path, *rest, **more)
        modes.add(os.stat(path).st_mode & 0o022)

    monkeypatch.setattr(host_tool_files.textfile, "write_file", replace)
    systemd.refuses = "enable"
    with pytest.raises(TuningError, match="was put back"):
        run(systemd)
    assert systemd.file(WATCH).readlink() == device
    systemd.refuses = ""
    done = run(systemd)
    assert done.to_diff()["before"][f"host_tool:{UNIT_FOLDER}/{WATCH}"] == f"link to {device}"
    assert device.read_text() == ""
    assert not systemd.file(WATCH).is_symlink()
    assert modes == {0}, "not even for a moment may anybody write it"


def test_a_file_that_anybody_may_write_is_repaired(systemd: Systemd) -> None:
    run(systemd)
    systemd.file(BOOT).chmod(0o666)
    (address, value), *more = run(systemd).to_diff()["before"].items()
    assert (address, more) == (f"host_tool:{UNIT_FOLDER}/{BOOT}", [])
    assert str(value).endswith(f" 0666 {os.geteuid()}")
    assert systemd.file(BOOT).stat().st_mode & 0o7777 == 0o644


def test_a_file_of_somebody_else_is_taken_from_them(systemd: Systemd, monkeypatch: pytest.MonkeyPatch) -> None:
    run(systemd)
    owners = []
    monkeypatch.setattr(os, "chown", lambda path, *ids, **more: owners.append((path, *ids)))
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
    with pytest.raises(TuningError, match="without effect"):
        run(systemd)
    assert (str(systemd.file(BOOT)), os.getuid() + 1, -1) in owners


def test_nothing_is_left_of_it(systemd: Systemd) -> None:
    before = files(systemd)
    metrics = systemd.root / TEXTFILE.lstrip("/")
    run(systemd, textfile=TEXTFILE)
    metrics.parent.mkdir(parents=True)
    metrics.write_text("sovereign_epyc_check_success 1\n")
    systemd.active.update({BOOT: "active", CHECK: "failed"})
    systemd.asked()
    run(systemd, present=False, textfile=TEXTFILE)
    assert files(systemd) == before
    assert not (systemd.root / paths.HOST_TOOL_FOLDER.lstrip("/")).exists()
    assert "active" not in systemd.active.values()
    assert systemd.asked()[1:-1] == [
        f"stop {BOOT} {WATCH} {TIMER}",
        f"show {BOOT} {WATCH} {CHECK} {TIMER}",
        f"reset-failed {CHECK}",
        f"disable {BOOT} {WATCH} {TIMER}",
        "daemon-reload",
    ]
    assert run(systemd, present=False, textfile=TEXTFILE).changes == []
    assert len(systemd.asked()) == 1


def test_without_its_file_the_metrics_are_not_looked_for(systemd: Systemd) -> None:
    run(systemd, textfile=TEXTFILE)
    assert f"host_tool:{UNIT_FOLDER}/{TIMER}" in addresses(run(systemd, present=False))
    assert not systemd.file(TIMER).exists()


@pytest.mark.parametrize(
    "interval", ["90", "15min", "1h30min", "1h 30min", "1.5h", ".5 s", "5 10", "12.34 .56", "2M", "1week 2days", "5us"]
)
def test_a_time_that_systemd_knows(interval: str) -> None:
    assert HostTool(False, TEXTFILE, interval).present is False


@pytest.mark.parametrize(
    "interval",
    [
        "",
        " ",
        "0",
        "0min",
        "-5",
        "5minx",
        "5 MIN",
        "12.34.56",
        "5.",
        "1hmin",
        "infinity",
        "often",
        "99999999999y",
        "5\n",
    ],
)
def test_a_time_that_systemd_does_not_know(interval: str) -> None:
    with pytest.raises(BadRequest, match=r"(?s)interval is .* has to be a time above zero"):
        HostTool(True, "", interval)


@pytest.mark.parametrize("textfile", ["x.prom", "/etc", "/a b.prom", "/a%n.prom", "/a$B.prom", "/a.prom\n", '/"a.prom'])
def test_a_file_that_a_unit_cannot_name(textfile: str) -> None:
    with pytest.raises(BadRequest, match=r"whole path of a file whose name ends with \.prom"):
        HostTool(True, textfile)


def test_a_package_that_an_older_version_had_goes_with_its_bytecode(systemd: Systemd) -> None:
    run(systemd)
    package = systemd.root / host_tool_files.PACKAGE.lstrip("/")
    for name in ("_old/__pycache__/a.pyc", "_old/a.py", "_flat.py", "_knobs/__pycache__/knob.pyc"):
        (package / name).parent.mkdir(parents=True, exist_ok=True)
        (package / name).write_text("")
    assert addresses(run(systemd)) == [
        f"host_tool:{host_tool_files.PACKAGE}/{name}" for name in ("_flat.py", "_old/a.py")
    ]
    assert sorted(path.name for path in package.rglob("*")) == [
        "__pycache__",
        "_knobs",
        "knob.py",
        "knob.pyc",
        "protocol",
    ]


def test_nothing_on_the_host_needs_what_only_installs() -> None:
    """Also where a module is imported only when it is needed, which loading the host tool would not show."""
    sources = {
        path[len(host_tool_files.PACKAGE) + 1 :]: text for path, text in host_tool_files._read_host_tool_files().items()
    }
    modules = {path[: -len(".py")].removesuffix("/__init__").replace("/", "."): text for path, text in sources.items()}
    assert len(modules) > 60
    for name, text in modules.items():
        package = f"x.{name}" if f"{name.replace('.', '/')}/__init__.py" in sources else f"x.{name}".rpartition(".")[0]
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.ImportFrom) and node.level:
                base = resolve_name("." * node.level + (node.module or ""), package)[len("x.") :]
                wanted = {base} if base in modules else {f"{base}.{alias.name}".lstrip(".") for alias in node.names}
                assert wanted <= modules.keys(), f"{name} imports {wanted - modules.keys()}, which is not installed"


def test_a_command_that_does_not_run_is_not_left_there(systemd: Systemd) -> None:
    """Else the service would end with 203/EXEC at the next boot, and all that was set would be gone."""
    systemd.no_interpreter = True
    with pytest.raises(TuningError, match=r"which .*python.* is to run, does not start: .*No such file"):
        run(systemd)
    assert not (systemd.root / host_tool_files.HOST_TOOL.lstrip("/")).exists()
    assert not any(call.startswith(("enable", "restart")) for call in systemd.asked())


@pytest.mark.parametrize("is_the_usual", [True, False])
def test_the_command_is_for_the_python_that_installs_it(
    is_the_usual: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    usual = tmp_path / "python3"
    if is_the_usual:
        usual.symlink_to(sys.executable)
    monkeypatch.setattr(host_tool_files, "PYTHON", str(usual))
    launcher = host_tool_files._read_host_tool_files()[host_tool_files.HOST_TOOL]
    assert launcher.splitlines()[0] == f"#!{usual if is_the_usual else sys.executable} -IS"


@pytest.mark.parametrize("brought", ["sitecustomize", "usercustomize", "sovereign_epyc", "json"])
def test_the_command_runs_no_code_that_its_caller_brings(brought: str, tmp_path: Path) -> None:
    """As with `sudo -E`, which keeps variables."""
    (tmp_path / f"{brought}.py").write_text("raise SystemExit('not ours')")
    launcher = tmp_path / "sovereign-epyc"
    launcher.write_text(
        host_tool_files._read_host_tool_files()[host_tool_files.HOST_TOOL].replace(
            host_tool_files.HOST_TOOL_FOLDER, str(tmp_path / "engine")
        )
    )
    launcher.chmod(0o755)
    package = tmp_path / "engine/sovereign_epyc"
    package.mkdir(parents=True)
    (package / "__init__.py").touch()
    (package / "_cli.py").write_text("import json\n\ndef main(words):\n    print(json.dumps(words))\n")
    variables = {"PYTHONPATH": str(tmp_path), "PYTHONUSERBASE": str(tmp_path), "HOME": str(tmp_path)}
    done = subprocess.run([launcher, "check"], env=variables, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr, done.returncode) == ('["check"]\n', "", 0)


def test_all_excluded_modules_exist() -> None:
    """A module that is renamed would otherwise be installed from then on."""
    engine = Path(host_tool_files.__file__).parent.parent
    paths = [engine.joinpath(*name.split(".")) for name in host_tool_files.NOT_INSTALLED]
    assert [path for path in paths if not path.is_dir() and not path.with_suffix(".py").is_file()] == []
