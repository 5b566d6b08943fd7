# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The file of variables is the YAML that Ansible reads back as it was meant, whatever stands in a path or a comment."""

from __future__ import annotations

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.sovereign.epyc.plugins.module_utils._errors import BadRequest
from ansible_collections.sovereign.epyc.plugins.module_utils._notation.templates import has_template
from ansible_collections.sovereign.epyc.plugins.module_utils._serving.recommend.variables_file import (
    WIDTH,
    Variable,
    render_variables_file,
)


def read_back(value: object) -> object:
    return yaml.safe_load(render_variables_file([], [Variable("key", value, "A reason.")]))["key"]


@pytest.mark.parametrize(
    ("value", "written"),
    [
        ("/srv/models/a-Q4_K_M.gguf", "/srv/models/a-Q4_K_M.gguf"),
        ("https://x.example.com/a.gguf", "https://x.example.com/a.gguf"),
        ("64GiB", "64GiB"),
        ("75%", "75%"),
        ("node0,node1", "node0,node1"),
        ("9754", '"9754"'),
        ("1e5", '"1e5"'),
        ("yes", '"yes"'),
        ("a: b", '"a: b"'),
        ("/a #b", '"/a #b"'),
        ("/a:", '"/a:"'),
        ('/a"\\', '"/a\\"\\\\"'),
        ("/Bücher", '"/B\\U000000fccher"'),
        ({"cores": 1, "per": "node"}, "{cores: 1, per: node}"),
        ([], "[]"),
        (False, "false"),
    ],
)
def test_values(value: object, written: str) -> None:
    assert render_variables_file([], [Variable("key", value, "A reason.")]) == f"---\n\n# A reason.\nkey: {written}\n"
    assert read_back(value) == value


@given(st.text(st.characters(blacklist_categories=["Cs"])).filter(lambda text: not has_template(text)))
def test_any_text(text: str) -> None:
    assert read_back(text) == text


@pytest.mark.parametrize("bad", ["/{{ x }}", "/{%if%}", "a{#b", "{{{"])
def test_what_ansible_would_run_is_in_no_file(bad: str) -> None:
    """The file is read back as variables, and a name on the host may hold anything."""
    rows = [[Variable("name", bad, "First.")]]
    for line in (
        Variable("key", bad, ""),
        Variable("key", ["a", bad], ""),
        Variable("key", {"a": bad}, ""),
        Variable("k", 1, "", rows),
    ):
        with pytest.raises(BadRequest) as caught:
            render_variables_file([], [line])
        assert str(caught.value) == (
            f"The file of variables would hold {bad!r}, in which Ansible would run the braces as a template. Nothing "
            "was written. Rename that file or folder, or name another."
        )


@given(st.text())
def test_any_comment(text: str) -> None:
    """The name of a model comes from a file and may hold anything; nothing of it is read as a variable."""
    assert yaml.safe_load(render_variables_file([f"Model: {text}"], [Variable("key", 1, f"Because {text}")])) == {
        "key": 1
    }


def test_rows() -> None:
    rows = [[Variable("name", "a", "First."), Variable("port", 1, "Second.")], [Variable("name", "b", "Third.")]]
    line = Variable("list", None, "A list.", rows)
    assert render_variables_file(["Head."], [line]) == (
        "---\n# Head.\n\n# A list.\nlist:\n  # First.\n  - name: a\n    # Second.\n    port: 1\n  # Third.\n"
        "  - name: b\n"
    )
    assert line.value_or_rows() == [{"name": "a", "port": 1}, {"name": "b"}]


def test_comments_are_wrapped() -> None:
    text = render_variables_file(
        ["word " * 100], [Variable("list", None, "word " * 100, [[Variable("name", "a", "word " * 100)]])]
    )
    assert max(map(len, text.splitlines())) in range(WIDTH - 5, WIDTH + 1)
