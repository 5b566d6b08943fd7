# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Settings of Sphinx for `make docs`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml
from docutils import nodes

ROOT = Path(__file__).parents[2]

project = "sovereign.epyc"
author = "the sovereign.epyc authors"
project_copyright = f"2026, {author}"
version = release = yaml.safe_load((ROOT / "galaxy.yml").read_text(encoding="utf-8"))["version"]

extensions = ["myst_parser", "sphinx_antsibull_ext", "sphinx_copybutton"]
source_suffix = {".md": "markdown", ".rst": "restructuredtext"}
myst_heading_anchors = 3

html_theme = "sphinx_rtd_theme"
html_static_path = ["static"]
html_css_files = ["site.css"]
html_js_files = ["site.js"]
html_theme_options = {"navigation_depth": 3}
html_show_sourcelink = False
html_copy_source = False

#: What is typed can be copied by a click, and what a command prints cannot.
copybutton_selector = ", ".join(f"div.highlight-{name} pre" for name in ("bash", "yaml", "ini"))

#: Labels in Ansible's documents that generated pages link to -> their pages. Sphinx would look labels up in the
#: network.
ANSIBLE = {
    "common_return_values": "reference_appendices/common_return_values.html",
    "action_plugins": "plugins/action.html",
    "callback_plugins": "plugins/callback.html",
    "ansible_configuration_settings": "reference_appendices/config.html",
}


def _link_page_of_ansible(app: Any, env: Any, node: Any, text: nodes.TextElement) -> nodes.reference | None:
    page = ANSIBLE.get(node.get("reftarget", ""))
    if page is None:
        return None
    return nodes.reference("", "", text, refuri=f"https://docs.ansible.com/ansible/latest/{page}")


def setup(app: Any) -> None:
    app.connect("missing-reference", _link_page_of_ansible)
