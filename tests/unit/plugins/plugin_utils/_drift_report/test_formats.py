# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Each format shows what is in the document, and nothing in it can break out of a format."""

from __future__ import annotations

import json
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import jsonschema
import pytest

from ansible_collections.sovereign.epyc.plugins.module_utils._knobs.catalogue import KNOBS
from ansible_collections.sovereign.epyc.plugins.plugin_utils._drift_report import (
    drift_html,
    fleet_metrics,
    fleet_report,
    junit_file,
    markdown_page,
    task_results,
    terminal_page,
    wording,
)
from ansible_collections.sovereign.epyc.tests.unit.plugins.plugin_utils import plans
from ansible_collections.sovereign.epyc.tests.unit.plugins.plugin_utils.fleets import BEFORE, NOW, gathered, report

ROOT = Path(__file__).parents[5]
FORMATS: list[Callable[[fleet_report.Document], str]] = [
    terminal_page.render_terminal_page,
    markdown_page.render_markdown,
    drift_html.render_drift_html_page,
    junit_file.render_junit,
    fleet_metrics.render_fleet_metrics,
]
FLEET: dict[str, tuple[str, ...]] = {
    "b-01": ("mask", "grub"),
    "b-02": ("mask", "grub"),
    "b-03": ("service",),
    "a-1": (),
    "c": ("unreachable",),
    "e": ("unknown",),
}
PAGE = """\
Drift of 2 hosts: 1 with drift, 1 clean.
Since the report of 2026-11-20T12:00:00Z: 1 new, 1 gone.

DRIFT a
  [1] L3 partition: L3 share of group draft, L3 domain 3: drift
      found ffff, wanted 00ff
      now drift, at boot ok, no reboot pending
      role epyc_cat, epyc_plan_draft, since 2026-11-20T12:00:00Z
  [2] boot parameters: boot parameter, nohz_full: drift
      1-15 now, as wanted; nothing after a boot
      now ok, at boot drift, no reboot pending
      role epyc_grub_params, epyc_grub_params_isolation, since this report

Repair:
  [1] ansible-playbook -i inventories/x sovereign.epyc.site -l a --tags cat
  [2] ansible-playbook -i inventories/x sovereign.epyc.site -l a --tags grub_params

Gone since the last report:
  b: huge pages of 2 MiB, node 2 (huge pages), was there since 2026-11-20T12:00:00Z

18 settings checked, 2 not as configured: 16 ok, 2 drift.
  kernel settings  hosts: 2 ok
  huge pages       hosts: 2 ok
  L3 partition     hosts: 1 ok, 1 drift
  prefetchers      hosts: 2 ok
  boot parameters  hosts: 1 ok, 1 drift
  boot service     hosts: 2 ok
  Not asked for on any host: frequencies, idle states, interrupts, CPU partition, BIOS, llama.cpp.
CLEAN b
DRIFT a: 2 findings. Nothing was changed.
Next:
  ansible-playbook -i inventories/x sovereign.epyc.site -l a --tags cat,grub_params"""


class Texts(HTMLParser):
    """The texts and the tags of a page."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.texts.append(data)


def test_the_terminal_page_is_as_expected() -> None:
    first = report({"a": ("mask",), "b": ("pages",)}, generated=BEFORE)
    assert terminal_page.render_terminal_page(report({"a": ("mask", "grub"), "b": ()}, first)) == PAGE


CHECK = """\
Check of 3 hosts: 2 would change, 1 would not change.

WOULD CHANGE a
  [1] kernel settings: transparent huge pages: would change
      always -> madvise
      role epyc_numa, epyc_numa_thp
  [2] llama.cpp: unit of instance chat: would change
      a text of 1 line -> another one
      role epyc_llama, epyc_llama_instances

WOULD CHANGE c
  [3] other tasks: Write, /etc/x: would change
      the task would change it

4 settings checked: 1 ok, 3 would change.
  kernel settings  hosts: 1 ok, 1 would change, 1 not looked at
  llama.cpp        hosts: 1 would change, 2 not looked at
  other tasks      hosts: 1 would change, 2 not looked at
  Not looked at in this run: huge pages, L3 partition, frequencies, idle states, prefetchers, interrupts, CPU \
partition, boot parameters, BIOS, boot service.
WOULD NOT CHANGE b
WOULD CHANGE a: 2 changes. Nothing was changed.
WOULD CHANGE c: 1 change. Nothing was changed.
Next, with the same -e:
  ansible-playbook playbooks/site.yml --tags numa,llama -l a,c"""


def test_a_check_says_what_would_change_and_ends_with_one_command() -> None:
    def would(role: str, module: str, **result: Any) -> task_results.Seen:
        return task_results.check_mode_result_to_findings("Write", role, module, {"changed": bool(result), **result})

    def diff(address: str, before: str, after: str) -> dict[str, Any]:
        return {"diff": {"changes": {"before": {address: before}, "after": {address: after}}}}

    unit = diff("llama:/etc/systemd/system/llama-chat.service", "[Unit]", "[Service]")
    gathering = fleet_report.ResultCollector()
    gathering.add_findings_counts_and_map(
        "a", *would("numa", "sovereign.epyc.sysfs_settings", **diff("sysfs:thp/enabled", "always", "madvise"))
    )
    gathering.add_findings_counts_and_map("a", *would("llama", "sovereign.epyc.llama_server", **unit))
    gathering.add_findings_counts_and_map("b", *would("numa", "sovereign.epyc.sysfs_settings"))
    gathering.add_findings_counts_and_map("c", *would("", "ansible.builtin.copy", dest="/etc/x"))
    run = fleet_report.RunWithoutCheck(
        ["ansible-playbook", "playbooks/site.yml", "--tags", "numa,llama"], extra_variables=True
    )
    document = gathering.build_document(generated=NOW, check=run)
    assert terminal_page.render_terminal_page(document) == CHECK
    markdown = markdown_page.render_markdown(document)
    assert "| a text of 1 line -\\> another one |" in markdown and markdown.count("site.yml") == 1
    assert "now drift" not in drift_html.render_drift_html_page(document)


@pytest.mark.parametrize(
    ("address", "status", "advice"),
    [
        ("ledger:lost", "unknown", "Do what the reason says, and look again."),
        ("task:/Write/", "unknown", "Run the play without --check."),
        ("sysfs:thp/enabled", "drift", "Run the play without --check."),
    ],
)
def test_what_no_command_repairs_has_an_advice_that_helps(address: str, status: str, advice: str) -> None:
    finding = {"command": "", "status": status, "addresses": [address]}
    assert wording.repair_command_or_sentence(finding) == advice


def test_colours_are_only_added() -> None:
    document = report(FLEET)
    coloured = terminal_page.render_terminal_page(document, colour=True)
    assert "\033[31mUNREACHABLE\033[0m" in coloured
    plain = coloured
    for code in ("0", "1", "31", "32", "33", "35"):
        plain = plain.replace(f"\033[{code}m", "")
    assert plain == terminal_page.render_terminal_page(document)


@pytest.mark.parametrize("render", FORMATS)
def test_every_format_shows_every_kind_of_finding(render: Callable[[fleet_report.Document], str]) -> None:
    text = render(report(FLEET))
    for word in ("L3 share of group draft", "nohz", "boot service", "c", "all settings"):
        assert word in text.replace("\\", ""), word


@pytest.mark.parametrize("render", FORMATS)
def test_an_empty_report_says_that_nothing_is_known(render: Callable[[fleet_report.Document], str]) -> None:
    text = render(report({}))
    if render not in (junit_file.render_junit, fleet_metrics.render_fleet_metrics):
        assert "none was checked, so nothing is known" in text


def test_json_is_as_its_schema_says() -> None:
    schema = json.loads((ROOT / "docs/drift-report.schema.json").read_text())
    validator = jsonschema.Draft202012Validator(schema)
    first = report({**FLEET, "c": ("mask",), "a-1": ("pages",)}, generated=BEFORE)
    drawn = report(FLEET, first, host_map=plans.result("two 7543")["map"])
    assert len(drawn["maps"]) == 1 and [row.get("map") for row in drawn["hosts"] if row["findings"]].count(0) > 2
    check = gathered(FLEET).build_document(
        generated=NOW, check=fleet_report.RunWithoutCheck(["ansible-playbook", "site.yml"])
    )
    for document in (first, drawn, report({}), check):
        validator.validate(json.loads(json.dumps(document)))
        # What a schema cannot say.
        layers = ["run", *KNOBS, "bios", "llama", "boot", "other"]
        assert [layer["name"] for layer in document["layers"]] == layers
        named = {finding["layer"] for finding in document["findings"]}
        assert named.union(*(host["coverage"] for host in document["hosts"])) <= {*layers}
    with pytest.raises(jsonschema.ValidationError):
        validator.validate({**first, "layers": [{"name": "", "title": "no name"}]})
    with pytest.raises(jsonschema.ValidationError):
        validator.validate({**first, "version": 1})
    with pytest.raises(jsonschema.ValidationError):
        validator.validate({**first, "more": 1})


def test_junit_counts() -> None:
    root = ElementTree.fromstring(junit_file.render_junit(report(FLEET)).encode())
    suites = {suite.get("name"): suite for suite in root}
    counts = {name: (s.get("tests"), s.get("failures"), s.get("errors")) for name, s in suites.items()}
    assert counts == {
        "a-1": ("6", "0", "0"),
        "b-01": ("6", "2", "0"),
        "b-02": ("6", "2", "0"),
        "b-03": ("6", "1", "0"),
        "c": ("1", "0", "1"),
        "e": ("2", "0", "1"),
    }


def test_metrics_are_samples_under_their_headings() -> None:
    lines = fleet_metrics.render_fleet_metrics(report(FLEET)).splitlines()
    name = ""
    for line in lines:
        if line.startswith("# HELP "):
            name = line.split()[2]
        elif not line.startswith("# TYPE "):
            assert line.startswith(name), line
            assert line.rpartition(" ")[2].isdecimal(), line
    assert 'sovereign_epyc_hosts{state="drift"} 3' in lines
    assert 'sovereign_epyc_host_state{host="c",state="unreachable"} 1' in lines
    assert len(lines) == len(set(lines))


EVIL = '<script>alert("1")</script> | `x` \\ \n& \x07 --'


def test_texts_of_hosts_are_escaped_in_markup() -> None:
    gathering = gathered({"a": ("mask",)})
    gathering.record_host_failure(EVIL, "failed", EVIL, EVIL)
    number = gathering.hosts["a"].findings[0]
    finding = json.loads(gathering._texts[number])
    gathering.add_findings_counts_and_map(
        "b", [{**finding, "what": EVIL, "where": EVIL, "found": EVIL, "reason": EVIL}], {}
    )
    document = gathering.build_document(generated=NOW)

    page = Texts(drift_html.render_drift_html_page(document))
    assert [attributes for tag, attributes in page.tags if tag == "script"] == [{}], "only our own"
    assert any('<script>alert("1")</script>' in text for text in page.texts), "it is shown as it is"

    ElementTree.fromstring(junit_file.render_junit(document).encode())
    rows = [line for line in markdown_page.render_markdown(document).splitlines() if line.startswith("| 1 ")]
    assert rows[0].replace("\\|", "").count("|") == 10, rows
    assert "<script" not in markdown_page.render_markdown(document).replace("\\<", "")
    samples = [line for line in fleet_metrics.render_fleet_metrics(document).splitlines() if "alert" in line]
    assert samples
    for line in samples:
        assert '<script>alert(\\"1\\")</script>' in line
        assert line.endswith("} 1")


#: Colours, a bell, a new line, a byte that is no text, and what turns the direction of writing.
OBEYED = "\x1b[31mred\x1b[0m \x07 \x9b2J\n\udcff \u202egnp.exe\u2066 \u200f \r\x08"


@pytest.mark.parametrize("render", FORMATS)
def test_control_characters_of_hosts_are_escaped(render: Callable[[fleet_report.Document], str]) -> None:
    gathering = gathered({"a": ("mask",)})
    gathering.record_host_failure(f"failed{OBEYED}", "failed", OBEYED, OBEYED)
    finding = json.loads(gathering._texts[gathering.hosts["a"].findings[0]])
    texts = dict.fromkeys(("what", "where", "found", "wanted", "reason", "request", "role"), OBEYED)
    gathering.add_findings_counts_and_map(
        f"b{OBEYED}", [{**finding, **texts, "variables": [OBEYED]}], {"resctrl": {"drift": 1}}
    )
    page = render(gathering.build_document(generated=NOW, inventory=[OBEYED]))
    assert {char for char in page if not char.isprintable()} == {"\n"}
    page.encode()
    if render is not fleet_metrics.render_fleet_metrics:
        assert "gnp.exe" in page, "it is not left out"
    if render is terminal_page.render_terminal_page:
        assert "\\x1b[31mred\\x1b[0m \\x07 \\x9b2J\\n\\udcff \\u202egnp.exe\\u2066 \\u200f \\r\\x08" in page


def test_layers_of_a_failed_host_are_not_checked_rather_than_not_configured() -> None:
    gathering = gathered({"a": (), "b": ("mask",), "c": ("unreachable",), "d": ("failed",)})
    gathering.get_or_add_host_row("silent")
    document = gathering.build_document(generated=NOW)
    lines = terminal_page.render_terminal_page(document).splitlines()
    assert "  L3 partition     hosts: 1 ok, 1 drift, 3 not looked at" in lines
    nobody = "frequencies, idle states, interrupts, CPU partition, BIOS, llama.cpp"
    assert f"  Not asked for on any host that was looked at: {nobody}." in lines
    page = Texts(drift_html.render_drift_html_page(document))
    marks = [attributes.get("title") for tag, attributes in page.tags if tag == "td"]
    # A column for each layer that is asked for: of mask, msr and what every host of the fleet has.
    assert marks.count("not looked at") == 3 * 6
    nobody = terminal_page.render_terminal_page(report({"c": ("unreachable",)}))
    assert "asked for" not in nobody


def test_a_failed_run_reports_the_layers_before_the_failure() -> None:
    gathering = gathered({"a": ("failed",)})
    gathering.add_findings_counts_and_map("a", [], {"sysfs": {"ok": 2}})
    lines = terminal_page.render_terminal_page(gathering.build_document(generated=NOW)).splitlines()
    assert "  kernel settings  hosts: 1 ok" in lines
    assert not any(line.startswith("  prefetchers") for line in lines)


def test_html_loads_nothing_from_the_network() -> None:
    page = Texts(drift_html.render_drift_html_page(report(FLEET)))
    outside = [a for tag, a in page.tags for name in ("src", "href") if a.get(name) and not a[name].startswith("#")]  # type: ignore[union-attr]
    assert outside == []
    (policy,) = [a["content"] for tag, a in page.tags if a.get("http-equiv") == "Content-Security-Policy"]
    assert policy and policy.startswith("default-src 'none';")


def test_html_marks_have_shapes_and_names() -> None:
    page = Texts(drift_html.render_drift_html_page(report(FLEET)))
    marks = {(a["class"], a["title"]) for tag, a in page.tags if tag == "td"}
    assert marks >= {("ok", "ok"), ("drift", "drift"), ("unknown", "unknown"), ("unasked", "not asked for")}
    shapes = list(drift_html.LAYER_MARKS.values())
    assert len(shapes) == len(set(shapes))
