# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

from ansible_collections.sovereign.epyc.plugins.module_utils import _cli
from ansible_collections.sovereign.epyc.plugins.module_utils._drift import metrics, survey
from ansible_collections.sovereign.epyc.plugins.module_utils._drift.findings import count_by_layer, group_into_findings
from ansible_collections.sovereign.epyc.plugins.module_utils._drift.verdict import Verdict
from ansible_collections.sovereign.epyc.plugins.module_utils._errors import TuningError
from ansible_collections.sovereign.epyc.plugins.module_utils._host.host import Host
from ansible_collections.sovereign.epyc.plugins.module_utils._io.kernelfs import KernelFS
from ansible_collections.sovereign.epyc.plugins.module_utils._serving.unit import drift

METRICS = """\
# HELP sovereign_epyc_check_success Whether the check could be made.
# TYPE sovereign_epyc_check_success gauge
sovereign_epyc_check_success 1
# HELP sovereign_epyc_settings Settings of a layer by status.
# TYPE sovereign_epyc_settings gauge
sovereign_epyc_settings{layer="sysfs",status="ok"} 0
sovereign_epyc_settings{layer="sysfs",status="unsupported"} 0
sovereign_epyc_settings{layer="sysfs",status="unknown"} 0
sovereign_epyc_settings{layer="sysfs",status="drift"} 1
sovereign_epyc_settings{layer="boot",status="ok"} 1
sovereign_epyc_settings{layer="boot",status="unsupported"} 0
sovereign_epyc_settings{layer="boot",status="unknown"} 0
sovereign_epyc_settings{layer="boot",status="drift"} 0
# HELP sovereign_epyc_drift A setting that is not as configured: drift, unknown, or not supported here.
# TYPE sovereign_epyc_drift gauge
sovereign_epyc_drift{layer="sysfs",what="NUMA balancing",where="",status="drift",live="drift",persistent="ok",\
role="numa",pending_reboot="false"} 1
"""


class Found(survey.Survey):
    def __init__(self) -> None:
        verdict = Verdict("sysfs/numa", "sysfs:numa_balancing", "0")
        verdict.found, verdict.live, verdict.persistent = "1", "drift", "ok"
        self.verdicts = [verdict]
        self.host = Host(KernelFS(str(Path(__file__).parent), read_only=True))

    def list_findings(self) -> list[object]:  # type: ignore[override]
        return list(group_into_findings(self.verdicts))

    def count_by_layer(self) -> dict[str, dict[str, int]]:
        return count_by_layer(self.verdicts)


def test_the_check_of_a_host_writes_metrics(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(drift, "check_settings_and_units", lambda fs: Found())
    monkeypatch.setattr(Host, "memory_speed", SimpleNamespace(share_of_theoretical_bandwidth=None))
    file = tmp_path / "drift.prom"
    assert _cli.main(["check", "--textfile", str(file)]) == 2
    assert file.read_text().startswith(METRICS)
    assert file.stat().st_mode & 0o777 == 0o644, "node_exporter is not root"


def test_a_failed_check_writes_metrics_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(fs: object) -> None:
        raise TuningError("desired.json cannot be read")

    monkeypatch.setattr(drift, "check_settings_and_units", fail)
    file = tmp_path / "drift.prom"
    assert _cli.main(["check", "--textfile", str(file)]) == 1
    assert "sovereign_epyc_check_success 0\n" in file.read_text()
    assert "sovereign_epyc_drift" not in file.read_text()


@pytest.mark.parametrize("words", [["check", "--textfile"], ["show", "--textfile", "x"], ["--textfile", "x"]])
def test_other_uses_are_refused(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert _cli.main(words) == 1
    assert capsys.readouterr().err.startswith("usage: ")


def test_labels_are_escaped() -> None:
    text = metrics.render_metrics({metrics.DRIFT: [({"what": 'a "b"\\\n'}, 1)]})
    assert text.splitlines()[-1] == 'sovereign_epyc_drift{what="a \\"b\\"\\\\\\n"} 1'


@pytest.mark.parametrize(
    ("char", "shown"),
    [
        ("\r", "\\\\r"),
        ("\0", "\\\\x00"),
        ("\x1b", "\\\\x1b"),
        ("\x85", "\\\\x85"),
        ("\u2028", "\\\\u2028"),
        ("\u202e", "\\\\u202e"),
        ("\udcff", "\\\\udcff"),
    ],
)
def test_labels_have_no_line_ends_and_control_characters(char: str, shown: str) -> None:
    """The format has no escape for these, so that their escapes are text to it."""
    text = metrics.render_metrics({metrics.DRIFT: [({"what": f"\u4e2da{char}b"}, 1)]})
    assert text.splitlines()[2:] == [f'sovereign_epyc_drift{{what="\u4e2da{shown}b"}} 1']
