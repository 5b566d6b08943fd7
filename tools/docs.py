#!/usr/bin/env python3
# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Build the documents as a site in build/docs: the pages of docs, the recipe as a table, and the generated reference.

The build needs no network. A warning of Sphinx or antsibull-docs, such as for a broken link, is a failure.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).parents[1]
BUILD = ROOT / "build/docs"
#: Heading in the index -> the pages below it that this tool generates.
GENERATED = {"Background": ["recipe-settings"], "Reference": ["reference/index"]}
#: On top of the index of the site, because the theme hides its own field on a phone.
SEARCH = """```{raw} html
<form class="find" role="search" action="search.html" method="get">
  <input type="search" name="q" aria-label="Search all pages" placeholder="cache_type_k, epyc_plan_draft, ...">
  <button type="submit">Search pages, variables and options</button>
</form>
```

"""
HEAD = """# The recipe, setting by setting

What the nine-step recipe asks for, which variable gives it here, and why not where it is declined. Made from
`docs/recipe.yml`; a test tunes a virtual EPYC and holds its kernel against that file. [Why](recipe.md), with sources.
"""


def render_index(index: str) -> str:
    """Return the index of the site: with a search, and a table of contents that has the links of the lists."""
    lists = dict(re.findall(r"^## (.+)\n([^#]*)", index, re.MULTILINE))
    for heading in {**lists, **GENERATED}:
        pages = re.findall(r"^- \[.+?\]\((\S+)\.md\)", lists.get(heading, ""), re.MULTILINE)
        lines = [f":caption: {heading}", ":hidden:", "", *pages, *GENERATED.get(heading, [])]
        index += "\n".join(["", "```{toctree}", *lines, "```", ""])
    head, picture, rest = index.partition("![")
    return head + SEARCH + picture + rest


def render_recipe_page(table: list[dict[str, Any]]) -> str:
    """Return the page with the steps of docs/recipe.yml as tables."""
    lines = [HEAD]
    for step in table:
        lines += [f"## Step {step['step']}: {step['name']}", "", "| It wants | Here |", "| --- | --- |"]
        lines += [f"| {row['wants']} | {_format_answer(row)} |" for row in step["settings"]]
        lines.append("")
    return "\n".join(lines)


def _format_answer(row: dict[str, Any]) -> str:
    given = f"`{_format_setting(row)}`" if "variable" in row else ""
    if "given" in row:
        return f"{given}: {row['given'].strip()}"
    if "declined" not in row:
        return given
    return f"Declined, as of {row['checked']}. {row['declined'].strip()}" + (f" See {given}." if given else "")


def _format_setting(row: dict[str, Any]) -> str:
    if "value" not in row:
        return str(row["variable"])
    return yaml.safe_dump({row["variable"]: row["value"]}, default_flow_style=True, width=1000).strip()[1:-1]


def run_documentation_builder(*command: str) -> None:
    environment = {**os.environ, "ANSIBLE_COLLECTIONS_PATH": str(ROOT / ".collections"), "LC_ALL": "C.UTF-8"}
    subprocess.run(command, cwd=ROOT, env=environment, check=True)


def main() -> None:
    source, site = BUILD / "source", BUILD / "html"
    shutil.rmtree(BUILD, ignore_errors=True)
    shutil.copytree(ROOT / "docs", source)
    index = source / "index.md"
    index.write_text(render_index(index.read_text(encoding="utf-8")), encoding="utf-8")
    table = yaml.safe_load((ROOT / "docs/recipe.yml").read_text(encoding="utf-8"))
    (source / "recipe-settings.md").write_text(render_recipe_page(table), encoding="utf-8")
    (source / "reference").mkdir()
    reference = ["--use-current", "--squash-hierarchy", "--no-add-antsibull-docs-version", "--fail-on-error"]
    settings = ["--config-file", "tools/docsite/antsibull-docs.cfg"]
    run_documentation_builder(
        "antsibull-docs", *settings, "collection", *reference, "--dest-dir", str(source / "reference"), "sovereign.epyc"
    )
    how = ["-q", "--fail-on-warning", "-c", "tools/docsite", "-d", str(BUILD / "doctrees")]
    run_documentation_builder("sphinx-build", *how, str(source), str(site))
    print(f"{site.relative_to(ROOT)}/index.html")


if __name__ == "__main__":
    main()
