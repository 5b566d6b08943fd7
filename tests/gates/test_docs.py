# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What users read: the site builds without a warning, and every example is checked against the sources."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from ansible_collections.sovereign.epyc.tests.unit.plugins.module_utils._host.test_plan_text import SMALL
from tools import site

ROOT = Path(__file__).parents[2]
CHECK = (sys.executable, "-m", "tools.examples")
PATHS = {"PYTHONPATH": ".collections:lab:."}
# Examples, each with a part of the message that it must give.
WRONG = {
    "```yaml\n- sovereign.epyc.hugepages: {pools: [{nodes: 2}]}\n```": "pools.nodes",
    "```yaml\n- sovereign.epyc.irq_affinity: {cpus: '{{ cpus }}', irqbalance: kill}\n```": "irqbalance must be one of",
    "```yaml\n- sovereign.epyc.huge: {}\n```": "no module sovereign.epyc.huge",
    "```yaml\nepyc_numa_thp: sometimes\n```": "epyc_numa_thp must be one of",
    "```yaml\nepyc_numa_tph: never\n```": "epyc_numa_tph",
    "```yaml\nversion: 3\nimages: {base: x}\n```": "ansible-builder says",
    "```yaml\n[\n```": "is no YAML",
    "```bash\nansible-playbook playbooks/sight.yml\n```": "no playbook playbooks/sight.yml",
    "```bash\nansible-playbook sovereign.epyc.site --chek\n```": "ansible-playbook does not take that",
    "```bash\nansible-playbook playbooks/site.yml -i inventories/none\n```": "no inventory",
    "```bash\nansible-playbook playbooks/site.yml --tags numma\n```": "no layer numma",
    "```bash\nansible-playbook playbooks/site.yml -e epyc_numa_thp=no\n```": "epyc_numa_thp must be one of",
    "```bash\nmake sight\n```": "the Makefile knows no sight",
    "```bash\nsovereign-epyc undo\n```": "does not take 'undo'",
    "```bash\nlab/bin/vepyc ssh small sovereign-epyc undo\n```": "does not take 'undo'",
    "```bash\ncd . && rm -r everything\n```": "'rm' is a program that nobody checks",
    "```text\nSOVEREIGN_EPYC_DRIFT_HTM\n```": "nothing called SOVEREIGN_EPYC_DRIFT_HTM",
    "```text\nfigure drift_against_pong_1_hosts 1.38 x (bar <= 1.5)\n```": "prints a figure drift_against_pong_1_hosts",
    "    make test\n": "as its language",
    "Set `epyc_numa_tph: never`.": "no variable, role or module epyc_numa_tph",
    "Say `numa_*: never`.": "no variable begins with numa_",
    "Run `sight.yml`.": "no playbook or file sight.yml",
    "Run `playbooks/sight.yml --check`.": "no playbook or file playbooks/sight.yml",
    "`site.yml --tags numma` mends it.": "no layer numma",
    "`make sight SKU=small` does it.": "the Makefile knows no sight",
    "`sovereign-epyc undo` does it.": "no command undo",
    "Say `depth` of `hugepages`.": "no option depth of hugepages",
    "The options `slots` and `slotss` of an instance.": "no option slotss of an instance",
    "`hugepages` with `depth` is a list.": "no option depth of hugepages",
    "An instance with `slotss: 4`.": "no option of a module or role is called slotss",
    "| Row | Of a table |\n| --- | --- |\n| `epyc_numa_tph` | x |": "no variable, role or module epyc_numa_tph",
}


@pytest.mark.slow
@pytest.mark.everyday
def test_every_example_is_right(run: Callable[..., str]) -> None:
    assert re.search(r"^\d{2,} examples are right$", run(*CHECK, env=PATHS), re.MULTILINE)


def ansible_doc(run: Callable[..., str], kind: str, names: set[str]) -> dict[str, Any]:
    said = run("ansible-doc", "--type", kind, "--json", *sorted(names))
    return dict(json.loads(said[said.index("{\n") :]))


def run_failing_check(run: Callable[..., str], pages: list[Path]) -> str:
    with pytest.raises(pytest.fail.Exception) as failed:
        run(*CHECK, *map(str, pages), env=PATHS)
    return str(failed.value)


def test_wrong_examples_are_refused(run: Callable[..., str], tmp_path: Path) -> None:
    pages = {tmp_path / f"{number}.md": text for number, text in enumerate(WRONG)}
    for page, text in pages.items():
        page.write_text(text, encoding="utf-8")
    said = run_failing_check(run, list(pages)).splitlines()
    for page, text in pages.items():
        assert any(line.startswith(f"{page.name}:1: ") and WRONG[text] in line for line in said), (text, said)


def test_a_module_of_others_that_is_not_there_is_refused(run: Callable[..., str], tmp_path: Path) -> None:
    page = tmp_path / "syntax.md"
    page.write_text("```yaml\n- ansible.builtin.systemd_sirvice: {name: x}\n```", encoding="utf-8")
    said = run_failing_check(run, [page])
    assert "systemd_sirvice" in said
    assert "syntax.md-1.yml" in said


@pytest.mark.slow
@pytest.mark.everyday
def test_ansible_doc_reads_every_plugin_and_role(run: Callable[..., str]) -> None:
    for kind, folder in (("module", "modules"), ("callback", "callback"), ("filter", "filter"), ("lookup", "lookup")):
        names = {f"sovereign.epyc.{path.stem}" for path in (ROOT / "plugins" / folder).glob("*.py")}
        read = ansible_doc(run, kind, names)
        assert {name for name in names if read[name]["doc"]["description"]} == names
    names = {f"sovereign.epyc.{path.name}" for path in (ROOT / "roles").iterdir()}
    read = ansible_doc(run, "role", names)
    assert {name for name in names if read[name]["entry_points"]["main"]["description"]} == names


def test_each_entry_point_of_a_role_says_what_it_does() -> None:
    """`ansible-doc -t role -l` lists them side by side."""
    for path in ROOT.glob("roles/*/meta/main.yml"):
        entry_points = yaml.safe_load(path.read_text(encoding="utf-8"))["argument_specs"]
        descriptions = {entry["short_description"] for entry in entry_points.values()}
        assert len(descriptions) == len(entry_points), path


def read_documentation(path: Path, section: str = "DOCUMENTATION") -> dict[str, Any]:
    (text,) = re.findall(rf'^ *{section} = r"""\n(.*?)^"""', path.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    return dict(yaml.safe_load(text))


def merge_intended_attributes(module: Path) -> dict[str, dict[str, Any]]:
    """Return the attributes of a module: its own before those of other fragments, and `attributes` last."""
    own = read_documentation(module)
    fragments = own.get("extends_documentation_fragment", [])
    names = [fragments] if isinstance(fragments, str) else fragments
    parts = [name.removeprefix("sovereign.epyc.").partition(".") for name in names]
    documents = [
        read_documentation(ROOT / f"plugins/doc_fragments/{file}.py", section.upper() or "DOCUMENTATION")
        for file, dummy, section in sorted(parts, key=lambda part: part[0] != "attributes")
    ]
    meant: dict[str, dict[str, Any]] = {}
    for document in [*documents, own]:
        for name, attribute in document.get("attributes", {}).items():
            meant[name] = {**meant.get(name, {}), **attribute}
    return meant


def test_the_attributes_of_modules_are_shown_as_meant(run: Callable[..., str]) -> None:
    """Of two fragments with the same attribute, ansible-doc shows the one that is named first."""
    modules = {f"sovereign.epyc.{path.stem}": path for path in (ROOT / "plugins/modules").glob("*.py")}
    shown = ansible_doc(run, "module", set(modules))
    wrong = {
        (name, attribute): (shown[name]["doc"]["attributes"].get(attribute), meant)
        for name, path in modules.items()
        for attribute, meant in merge_intended_attributes(path).items()
        if shown[name]["doc"]["attributes"].get(attribute) != meant
    }
    assert wrong == {}
    for name in modules:
        attributes = shown[name]["doc"]["attributes"]
        assert (attributes["diff_mode"]["support"] == "full") == ("diff" in shown[name]["return"]), name
        assert attributes["platform"]["support"] == "full", name
        assert any("python" in requirement for requirement in shown[name]["doc"]["requirements"]), name


def test_links_between_files_lead_somewhere(tracked: list[Path]) -> None:
    """Links of the site are checked when it is built; those of the pages outside of it are checked here."""
    links = [
        (name, link)
        for name in tracked
        if name.suffix == ".md" and name.name != "CHANGELOG.md"
        for link in re.findall(r"\]\(([^)#\s]+)", (ROOT / name).read_text(encoding="utf-8"))
        if "://" not in link
    ]
    assert len(links) > 10
    assert [(str(name), link) for name, link in links if not (ROOT / name).parent.joinpath(link).exists()] == []


def test_links_by_name_have_an_address(tracked: list[Path]) -> None:
    """A name without one is shown as plain text, and the site builds all the same."""
    names = {
        (str(name), key)
        for name in tracked
        if name.suffix == ".md"
        for key in re.findall(r"\]\[(\w+)\]", (ROOT / name).read_text(encoding="utf-8"))
    }
    assert len(names) > 10
    defined = {(name, key) for name, key in names if re.search(rf"^\[{key}\]: \S+$", (ROOT / name).read_text(), re.M)}
    assert names - defined == set()


def test_the_plan_in_the_documents_is_one_that_is_printed() -> None:
    assert f"```text\n{SMALL}\n```" in (ROOT / "docs/read-a-plan.md").read_text(encoding="utf-8")


def test_the_layers_in_the_documents_are_those_of_the_playbook() -> None:
    site = yaml.safe_load((ROOT / "playbooks/site.yml").read_text(encoding="utf-8"))
    layers = site[0]["vars"]["epyc_site_layers"]
    page = (ROOT / "docs/new-host.md").read_text(encoding="utf-8")
    told = page.partition("The order of the layers is that of `site.yml`: ")[2].partition(".\n")[0]
    assert re.findall(r"`(\w+)`", told) == layers
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert re.findall(r"^\| `(\w+)` \|", readme, re.MULTILINE) == layers


def test_what_make_site_says_in_the_readme_is_of_its_steps() -> None:
    """The block is a record of a run (`make record`); it has to be made anew when a step comes or goes."""
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    block = readme.partition(site.RECORDED)[2].partition("```text\n")[2].partition("```\n")[0]
    titles = list(site.list_steps("epyc9754"))
    assert re.findall(r"^\[\d/\d\] (.*)$", block, re.MULTILINE) == titles
    said = " ".join(block.split())
    assert "tokens were guessed" in said and "of the mapped weights" in said


def test_the_controller_needs_nothing(run: Callable[..., str]) -> None:
    """What ansible-builder takes from the collection for an image: no package, and not those of the developers."""
    code = "from ansible_builder._target_scripts.introspect import process_collection as p; print(p('.'))"
    assert "([], [])" in run(sys.executable, "-c", code).replace("{}", "[]")


@pytest.mark.slow
def test_the_site_builds(run: Callable[..., str]) -> None:
    run(sys.executable, "tools/docs.py")
    assert run("git", "status", "--porcelain", "build") == ""
    for page in (
        "index.html",
        "recipe-settings.html",
        "reference/epyc_plan_role.html",
        "reference/hugepages_module.html",
    ):
        assert (ROOT / "build/docs/html" / page).is_file()
    index = (ROOT / "build/docs/html/searchindex.js").read_text(encoding="utf-8")
    assert [name for name in ("epyc_numa_thp", "draft_max") if name not in index] == []


def test_each_claim_of_the_page_on_security_has_its_test(tracked: list[Path]) -> None:
    names = set(re.findall(r"`(test_\w+)`", (ROOT / "docs/security.md").read_text()))
    sources = [(ROOT / path).read_text() for path in tracked if path.parts[0] == "tests" and path.suffix == ".py"]
    missing = [name for name in sorted(names) if not any(f"def {name}(" in source for source in sources)]
    assert (missing, len(names) >= 40) == ([], True)


def test_each_fault_in_the_documents_has_its_test() -> None:
    rows = re.findall(r"`(test_\w+)::(test_\w+)` \|$", (ROOT / "docs/faults.md").read_text(), re.MULTILINE)
    missing = [
        f"{file}::{name}"
        for file, name in rows
        if not any(f"def {name}(" in path.read_text() for path in (ROOT / "tests").rglob(f"{file}.py"))
    ]
    assert (missing, len(rows) >= 40) == ([], True)
