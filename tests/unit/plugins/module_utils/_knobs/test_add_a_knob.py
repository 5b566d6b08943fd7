# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The three steps of docs/add-a-knob.md, done to a copy of the collection; the copy then shows the knob everywhere."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.sovereign.epyc.tests.unit.fakes import hosts

ROOT = Path(__file__).parents[5]
PAGE = (ROOT / "docs/add-a-knob.md").read_text(encoding="utf-8")
#: Where the third step puts the row.
BELOW = '@KnobRow(\n    module="kernel_cmdline",'
FILE = "/proc/sys/vm/zone_reclaim_mode"
#: Runs in the copy, with a tree of kernel files as its host, and prints what each part of the host tool makes of the
#: knob.
PROGRAM = """
import contextlib, io, json, sys
from ansible.module_utils.testing import patch_module_args
from ansible_collections.sovereign.epyc.plugins.module_utils import _ansible, _cli, _knob_module
from ansible_collections.sovereign.epyc.plugins.module_utils._drift import survey
from ansible_collections.sovereign.epyc.plugins.module_utils._io.kernelfs import KernelFS
from ansible_collections.sovereign.epyc.plugins.module_utils._io.store import Store
from ansible_collections.sovereign.epyc.plugins.module_utils._verify.checklist import Checklist
from ansible_collections.sovereign.epyc.plugins.modules import zone_reclaim
from ansible_collections.sovereign.epyc.plugins.plugin_utils._drift_report import fleet_report

root = sys.argv[1]
for place in (_ansible, _cli, _knob_module, survey):
    place.KernelFS = lambda read_only=False: KernelFS(root, read_only=read_only)
    place.Store = lambda read_only=False: Store(root, read_only=read_only)
fs, store, told = KernelFS(root), Store(root), {}


def called(function, *arguments):
    said = io.StringIO()
    with contextlib.redirect_stdout(said), contextlib.suppress(SystemExit):
        function(*arguments)
    return said.getvalue()


with patch_module_args({"enabled": False, "persistent": True}):
    told["module"] = json.loads(called(zone_reclaim.main))["diff"]
told["made"] = fs.read(FILE)
fs.write(FILE, "1")
found = survey.check_host(fs, store=store)
told["drift"] = [finding.to_dict() for finding in found.list_findings() if finding.layer == "zone_reclaim"]
items = Checklist(bios={}, layers=["zone_reclaim"], units={}, allow_pending_reboot=False).check_host(
    found, ("done", "It has run.")
)
told["verify"] = [item.to_dict() for item in items if item.name == "zone_reclaim"]
report = fleet_report.ResultCollector()
report.add_findings_counts_and_map("a", told["drift"], found.count_by_layer())
told["report"] = report.build_document(generated="2026-01-01T00:00:00Z")
told["boot"] = called(_cli.main, ["apply"])
told["after boot"] = fs.read(FILE)
told["restore"] = called(_cli.main, ["restore"])
told["restored"] = fs.read(FILE)
print(json.dumps(told))
"""


def steps() -> tuple[str, str, str]:
    """Return the three blocks of the page."""
    first, second, third = re.findall(r"^```python\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)
    return first, second, third


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Return what the copy says."""
    folder = tmp_path_factory.mktemp("knob")
    copy = folder / "ansible_collections/sovereign/epyc"
    shutil.copytree(ROOT / "plugins", copy / "plugins", ignore=shutil.ignore_patterns("__pycache__"))
    engine_file, module, row = steps()
    (copy / "plugins/module_utils/_knobs/zone_reclaim.py").write_text(engine_file)
    (copy / "plugins/modules/zone_reclaim.py").write_text(module)
    catalogue = copy / "plugins/module_utils/_knobs/catalogue.py"
    assert catalogue.read_text().count(BELOW) == 1
    catalogue.write_text(catalogue.read_text().replace(BELOW, f"{row}\n\n{BELOW}"))
    host = hosts.small(folder / "host")
    host.put(FILE, 1)
    host.put("/proc/sys/kernel/random/boot_id", "this-boot")
    host.put("/proc/cmdline", "ro")
    host.put("/etc/systemd/system/multi-user.target.wants/sovereign-epyc.service", "")
    program = PROGRAM.replace("(FILE", f"({FILE!r}")
    done = subprocess.run(
        [sys.executable, "-c", program, str(host.root)],
        env={"PYTHONPATH": ":".join([str(folder), *sys.path])},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return dict(json.loads(done.stdout))


def test_the_module_makes_it(told: dict[str, Any]) -> None:
    assert told["module"]["changes"]["before"]["zone_reclaim:mode"] == "1" and told["made"] == "0"
    assert told["module"]["prepared"].startswith("zone reclaim: 1 -> 0\n")


def test_drift_tells_it_with_role_variable_and_repair(told: dict[str, Any]) -> None:
    (finding,) = told["drift"]
    assert (finding["what"], finding["found"], finding["wanted"]) == ("zone reclaim", "1", "0")
    assert (finding["role"], finding["variables"]) == ("numa", ["numa_zone_reclaim"])
    assert finding["repair"] == "sovereign.epyc.site --tags numa"


def test_the_checklist_has_it(told: dict[str, Any]) -> None:
    (item,) = told["verify"]
    assert (item["title"], item["verdict"]) == ("zone reclaim", "wrong")


def test_the_report_has_its_layer_in_its_place(told: dict[str, Any]) -> None:
    layers = [layer["name"] for layer in told["report"]["layers"]]
    assert layers[layers.index("zone_reclaim") + 1] == "cmdline"
    assert [finding["layer"] for finding in told["report"]["findings"]] == ["zone_reclaim"]


def test_the_boot_service_makes_it(told: dict[str, Any]) -> None:
    assert "zone_reclaim:mode: 1 -> 0" in told["boot"] and told["after boot"] == "0"


def test_undo_puts_it_back(told: dict[str, Any]) -> None:
    assert "zone_reclaim:mode: 0 -> 1" in told["restore"] and told["restored"] == "1"
