# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The plugin in real runs of ansible-playbook, on hosts that are this machine or that nobody answers for."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from ansible import context

from ansible_collections.sovereign.epyc.plugins.callback import drift
from ansible_collections.sovereign.epyc.plugins.plugin_utils._drift_report import commands
from ansible_collections.sovereign.epyc.tests.unit.fakes import plays
from ansible_collections.sovereign.epyc.tests.unit.plugins.plugin_utils import fleets

NOTHING = "- {name: Nothing, ansible.builtin.debug: {msg: nothing}}"
FILE = "- {name: Write, ansible.builtin.copy: {content: x, dest: '{{ playbook_dir }}/new', mode: '0600'}}"
SECRET = "- {name: Secret, no_log: true, ansible.builtin.fail: {msg: swordfish}}"

Run = Callable[..., "tuple[int, str, dict[str, Any]]"]


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """Run tasks or a playbook on hosts, and return exit code, output and JSON report (empty without one)."""

    def run(
        tasks: str, *arguments: str, hosts: tuple[str, ...] = ("one",), **options: str
    ) -> tuple[int, str, dict[str, Any]]:
        playbook = tmp_path / "play.yml"
        body = "\n".join(f"    {line}" for line in tasks.splitlines())
        playbook.write_text(f"- hosts: all\n  gather_facts: false\n  tasks:\n{body}\n")
        report = tmp_path / "report.json"
        target = {"drift": "playbooks/drift.yml"}.get(tasks, tasks if tasks.endswith(".yml") else str(playbook))
        variables = {"ANSIBLE_STDOUT_CALLBACK": "sovereign.epyc.drift", "SOVEREIGN_EPYC_DRIFT_JSON": str(report)}
        away = [name for name in hosts if name.startswith("away")]
        done = plays.run(tmp_path, hosts, away, target, *arguments, **{**variables, **options})
        return done.returncode, done.stdout, json.loads(report.read_text()) if report.exists() else {}

    return run


def test_a_run_without_check_mode_is_not_reported(run: Run) -> None:
    assert run(NOTHING) == (0, "", {})


def test_a_check_that_would_change_nothing_is_clean(run: Run) -> None:
    code, output, report = run(NOTHING, "--check", hosts=("one", "two"))
    assert (code, output.splitlines()[0]) == (0, "Check of 2 hosts: 2 would not change.")
    assert [row["state"] for row in report["hosts"]] == ["clean", "clean"]


def test_a_check_that_would_change_something_is_drift(run: Run) -> None:
    code, output, report = run(FILE, "--check")
    assert (code, report["summary"]["states"]["drift"]) == (2, 1), output
    assert report["findings"][0]["what"] == "Write"
    command = report["next"]["command"]
    assert command.startswith("ansible-playbook -i ") and command.endswith("play.yml -l one")
    assert output.count(command) == 1 and not report["next"]["extra_variables"]
    secret = run(FILE, "--check", "-e", "token=swordfish", "--tags", "all", "--skip-tags", "x")
    assert "Next, with the same -e:" in secret[1] and "swordfish" not in secret[1]
    assert secret[2]["next"]["command"].endswith("play.yml --skip-tags x -l one")
    assert run(FILE, "--check", SOVEREIGN_EPYC_DRIFT_EXIT_CODE="false")[0] == 0


def test_a_command_that_check_mode_leaves_out_is_unknown(run: Run) -> None:
    command = "- {name: Run, ansible.builtin.command: 'true'}"
    code, dummy, report = run(command, "--check")
    assert (code, report["findings"][0]["status"]) == (2, "unknown")
    assert run(command[:-1] + ", when: false}\n" + NOTHING, "--check")[0] == 0


def test_the_drift_play_on_hosts_where_nothing_is_stored(run: Run) -> None:
    code, output, report = run("drift", hosts=("host-01", "host-02"))
    assert code == 2, output
    assert [(group["state"], group["label"]) for group in report["groups"]] == [("unknown", "host-[01-02]")]
    assert "nothing is stored on this host" in output


def test_a_host_with_findings_fails_with_a_sentence(run: Run) -> None:
    code, output, report = run("drift", ANSIBLE_STDOUT_CALLBACK="default")
    assert "one is not as configured. stored requests: unknown: nothing is stored on this host" in output
    assert "Run site.yml. 1 setting checked, 1 not as configured." in output
    assert (code, report["groups"][0]["state"]) == (2, "unknown"), "the assertion is no failure of the host"


def test_a_repair_in_check_mode_tells_of_the_whole_host_and_is_not_clean(run: Run) -> None:
    code, output, report = run("playbooks/repair.yml", "--check")
    assert (code, report["check"], report["hosts"][0]["state"]) == (2, False, "unknown"), output
    assert report["summary"]["settings"] == {"ok": 0, "unsupported": 0, "unknown": 1, "drift": 0}


def test_an_unreachable_host_is_an_error_and_comes_first(run: Run) -> None:
    code, output, report = run("drift", hosts=("host-01", "away"))
    assert code == 1
    assert output.splitlines()[2] == "UNREACHABLE away"
    assert report["groups"][0]["error"]["task"] == "Check the host"


def test_a_failure_is_an_error_unless_it_was_handled(run: Run) -> None:
    fail = "- {name: Fail, ansible.builtin.fail: {msg: so be it}"
    code, output, dummy = run(f"{fail}}}", "--check")
    assert (code, "Fail: so be it" in output.replace("Task failed: Action failed: ", "")) == (1, True), output
    assert run(f"{fail}, ignore_errors: true}}\n{NOTHING}", "--check")[0] == 0


def test_where_no_host_was_checked_nothing_is_known_and_the_last_report_stays(run: Run, tmp_path: Path) -> None:
    last = run(NOTHING, "--check")[2]
    code, output, report = run(NOTHING, "--check", hosts=())
    assert (code, "none was checked, so nothing is known" in output) == (1, True)
    assert f"Nothing was written to {tmp_path}/report.json." in output
    assert report == last
    code, output, report = run("drift", hosts=())
    assert (code, "No host was reached" in output) == (4, True)
    assert report == last


def test_a_report_of_no_hosts_does_not_replace_the_last_one(run: Run) -> None:
    report = run(NOTHING, "--check")[2]
    code, output, kept = run(NOTHING, "--check", hosts=())
    assert (code, kept) == (1, report) and "none was checked, so nothing is known" in output


def test_results_with_no_log_are_not_shown(run: Run) -> None:
    code, output, report = run(FILE.replace("Write,", "Secret, no_log: true,"), "--check")
    assert (code, report["findings"][0]["what"], report["findings"][0]["where"]) == (2, "Secret", "")
    code, output, report = run(SECRET, "--check")
    assert code == 1
    assert "Secret: the output has been hidden" in output
    assert "swordfish" not in output + json.dumps(report)


def test_all_formats_are_written_and_compared_with(run: Run, tmp_path: Path) -> None:
    names = {"HTML": "html", "MARKDOWN": "md", "JUNIT": "xml", "METRICS": "prom"}
    options = {f"SOVEREIGN_EPYC_DRIFT_{name}": str(tmp_path / f"out.{end}") for name, end in names.items()}
    code, output, first = run(FILE, "--check", **options)
    assert all((tmp_path / f"out.{end}").stat().st_size for end in names.values())
    (tmp_path / "new").write_text("x")
    (tmp_path / "new").chmod(0o600)
    code, output, second = run(FILE, "--check", SOVEREIGN_EPYC_DRIFT_TERMINAL="false", **options)
    assert (code, output) == (0, "")
    assert second["previous"] == first["generated"]
    assert [one["what"] for one in second["gone"]] == ["Write"]


@pytest.mark.parametrize(
    ("version", "message"),
    [
        (9, "was written by a newer version of the collection: its format is 9, and this version"),
        (0, "is a report of version 0, which never was. Move it away to start anew."),
    ],
)
def test_a_report_of_another_version_stays_where_it_is(run: Run, tmp_path: Path, version: int, message: str) -> None:
    path = tmp_path / "previous.json"
    path.write_text(json.dumps({"kind": "sovereign.epyc.drift", "version": version}))
    code, output, dummy = run(FILE, "--check", SOVEREIGN_EPYC_DRIFT_PREVIOUS=str(path))
    assert code == 1 and f"{path} {message}" in " ".join(output.split())
    assert json.loads(path.read_text())["version"] == version


#: Modules of the names that the plugin looks for, which answer what the play has them answer.
STAND_IN = """\
import json
import sys
print(json.dumps(json.load(open(sys.argv[1]))["answer"]))
"""


def stand_in(folder: Path, module: str) -> str:
    (folder / "library").mkdir(exist_ok=True)
    (folder / "library" / f"{module}.py").write_text(f"#!/usr/bin/python\n# WANT_JSON\n{STAND_IN}")
    return f"- {{name: Look, {module}: {{answer: '{{{{ answers[inventory_hostname] }}}}'}}}}"


def test_an_unreadable_answer_is_a_finding_of_its_host_only(run: Run, tmp_path: Path) -> None:
    answers = {
        "bad": {"changed": False, "findings": [{"what": "x"}], "coverage": {}},
        "good": {"changed": False, "findings": [], "coverage": {"msr": {"ok": 1}}},
    }
    tasks = stand_in(tmp_path, "epyc_drift_info")
    code, output, report = run(tasks, "-e", json.dumps({"answers": answers}), hosts=("bad", "good"))
    assert (code, [(row["name"], row["state"]) for row in report["hosts"]]) == (
        2, [("bad", "unknown"), ("good", "clean")]
    ), output  # fmt: skip
    assert "the report cannot read what this task returned (Malformed: findings[0].layer is missing)" in output
    assert "[1] ansible bad -i " in output and " -a 'sovereign-epyc check'" in output
    assert "prefetchers      hosts: 1 ok, 1 unknown" in output, "it is not one that nobody asked"


def test_odd_texts_and_numbers_of_a_host_do_not_break_the_report(run: Run, tmp_path: Path) -> None:
    (finding,), coverage = fleets.answer("mask")
    bad = {"what": {**finding, "what": "9" * 5000}, "where": {**finding, "where": "x" * 10**5 + "8" * 5000}}
    answers = {name: {"changed": False, "findings": [one], "coverage": coverage} for name, one in bad.items()}
    answers["count"] = {"changed": False, "findings": [], "coverage": {"msr": {"ok": 10**4299}}}
    answers["good"] = {"changed": False, "findings": [], "coverage": {"msr": {"ok": 1}}}
    tasks = stand_in(tmp_path, "epyc_drift_info")
    (tmp_path / "answers.json").write_text(json.dumps({"answers": answers}))
    pages = {f"SOVEREIGN_EPYC_DRIFT_{name}": str(tmp_path / name) for name in ("HTML", "MARKDOWN", "JUNIT", "METRICS")}
    code, output, report = run(tasks, "-e", f"@{tmp_path}/answers.json", hosts=tuple(answers), **pages)
    states = {row["name"]: row["state"] for row in report["hosts"]}
    assert (code, states) == (2, {"count": "unknown", "good": "clean", "what": "drift", "where": "drift"}), output
    assert "coverage.msr.ok is 1000" in output and "should be a whole number from 0 to 1000000000" in output


def test_an_exception_for_one_host_is_a_finding_of_that_host(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """No such fault is known, so a page is made to fail on what one host answers."""

    def render(document: Any) -> str:
        if any(finding["what"] == "bad" for finding in document["findings"]):
            raise ZeroDivisionError("x" * 9999)
        return json.dumps(document)

    (finding,), coverage = fleets.answer("mask")
    said: list[str] = []
    written: dict[str, str] = {}
    monkeypatch.setattr(context, "CLIARGS", {"check": True})
    monkeypatch.setitem(drift.FORMATS, "html", render)
    monkeypatch.setattr(drift.textfile, "write_file", lambda path, text: written.update({Path(path).name: text}))
    options = {"terminal": True, "exit_code": True, "html": "page"}
    monkeypatch.setattr(drift.CallbackModule, "get_option", lambda self, name: options.get(name))
    display = SimpleNamespace(error=lambda text, wrap_text: said.append(text), display=said.append, verbosity=0)
    plugin = drift.CallbackModule(display=display)
    plugin.collector.add_findings_counts_and_map("one", [{**finding, "what": "bad"}], coverage)
    plugin.collector.record_host_failure("one", "failed", "Look", "so be it")
    plugin.collector.add_findings_counts_and_map("two", [finding], coverage)
    plugin.collector.add_findings_counts_and_map("three", [], coverage)
    with pytest.raises(SystemExit) as end:
        plugin.v2_playbook_on_stats(SimpleNamespace(processed={}))
    assert end.value.code == 1
    report = json.loads(written["page"])
    assert {row["name"]: row["state"] for row in report["hosts"]} == {"one": "failed", "two": "drift", "three": "clean"}
    reason = next(one["reason"] for one in report["findings"] if one["hosts"] == ["one"])
    assert reason.startswith("the report cannot read what this task returned (ZeroDivisionError: xxx")
    assert len(reason) < 800 and "FAILED one" in said[0]


def test_an_unreadable_check_is_a_finding_of_its_host(run: Run, tmp_path: Path) -> None:
    answers = {"one": {"changed": False, "holds": True, "coverage": [1]}}
    tasks = stand_in(tmp_path, "epyc_last_run")
    code, output, report = run(f"{tasks}\n{NOTHING}", "--check", "-e", json.dumps({"answers": answers}))
    assert (code, report["hosts"][0]["state"]) == (2, "unknown"), output
    assert "the report cannot read what this task returned" in output


def test_a_report_that_cannot_be_made_ends_with_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []
    monkeypatch.setattr(context, "CLIARGS", {"check": True})
    monkeypatch.setattr(drift.CallbackModule, "get_option", lambda self, name: name in ("terminal", "exit_code"))
    monkeypatch.setattr(drift.terminal_page, "render_terminal_page", lambda document, colour: {}["a bug"])
    display = SimpleNamespace(error=lambda text, wrap_text: said.append(text), display=said.append, verbosity=0)
    plugin = drift.CallbackModule(display=display)
    with pytest.raises(SystemExit) as end:
        plugin.v2_playbook_on_stats(SimpleNamespace(processed={}))
    assert end.value.code == 1
    assert said == [
        "The drift report could not be made (KeyError: 'a bug'). This is a fault of the collection: please report it. "
        "Nothing is known of the hosts."
    ]


def test_texts_of_hosts_are_escaped_in_the_terminal(run: Run, tmp_path: Path) -> None:
    fail = '- {name: Fail, ansible.builtin.fail: {msg: "\\e[2J \\a so be it"}}'
    page = tmp_path / "report.md"
    code, output, dummy = run(fail, "--check", hosts=("web\u202ecod",), SOVEREIGN_EPYC_DRIFT_MARKDOWN=str(page))
    assert code == 1
    for text in (output, page.read_text(), (tmp_path / "report.json").read_text()):
        assert {char for char in text if not char.isprintable()} == {"\n"}
    assert "FAILED web\\u202ecod\n  Fail: " in output
    assert "\\x1b[2J \\x07 so be it" in output


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        ("{", "cannot be read"),
        ("[]", "is no report"),
        ('{"kind": "sovereign.epyc.drift", "version": 9}', "its format is 9"),
        ('{"kind": "sovereign.epyc.drift", "version": 1}', "cannot be compared with: generated is missing"),
    ],
)
def test_a_file_that_is_no_report_is_not_overwritten(run: Run, tmp_path: Path, content: str, complaint: str) -> None:
    (tmp_path / "other.json").write_text(content)
    code, output, dummy = run(NOTHING, "--check", SOVEREIGN_EPYC_DRIFT_JSON=str(tmp_path / "other.json"))
    assert (code, complaint in output) == (1, True), output
    assert (tmp_path / "other.json").read_text() == content


def test_the_folder_of_a_runner_is_in_no_command(monkeypatch: pytest.MonkeyPatch) -> None:
    """A job of ansible-runner has a copy of the inventory, whose path means nothing to a reader of the report."""
    monkeypatch.setattr(context, "CLIARGS", {"inventory": ["/runner/inventory"]})
    monkeypatch.delenv("AWX_ISOLATED_DATA_DIR", raising=False)
    assert commands.command_line_inventories() == ["/runner/inventory"]
    monkeypatch.setenv("AWX_ISOLATED_DATA_DIR", "/runner/artifacts/5")
    assert commands.command_line_inventories() == []
