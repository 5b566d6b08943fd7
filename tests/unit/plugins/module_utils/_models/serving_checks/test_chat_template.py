# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Chat templates that no parser of Jinja takes, and templates that it takes."""

from __future__ import annotations

import pytest

from ansible_collections.sovereign.epyc.plugins.module_utils._models.serving_checks.chat_template import (
    chat_template_faults,
)

RIGHT = (
    "",
    "a { b } %} }} #}",
    "{{ a }}{%- if a -%}b{%- elif c %}d{% else %}e{%+ endif %}",
    "{% for m in messages %}{{ m['content'] }}{% else %}none{% endfor %}",
    "{% set x = {'a': {'b': 1}} %}{{ {'a': {'b': 1}}['a']['b'] }}{{ {'a': {}}}}",
    "{% set x %}{{ a }}{% endset %}{% macro f(a, b='}}') %}{{ b }}{% endmacro %}",
    "{% call(u) f() %}{{ u }}{% endcall %}{% filter upper %}x{% endfilter %}",
    "{# {% if %} {{ #}{{ '{% if %}' }}{{ \"it's\" ~ 'a \\' b' }}",
    "{% raw %}{% if %}{{ {% endraw %}{{ a }}",
    "{% generation %}{{ a }}{% endgeneration %}{% unknown %}{% break %}",
)
WRONG = {
    "{{ a": "its mark {{ at character 0 is not closed",
    "a{% if x": "its mark {% at character 1 is not closed",
    "{# a": "its mark {# at character 0 is not closed",
    "{{ 'a }}": "its mark {{ at character 0 is not closed",
    "{{ {'a': 1 }}": "its mark {{ at character 0 is not closed",
    "{% if a %}b": "its {% if %} is not ended",
    "{% for a in b %}{% if a %}{% endfor %}": "its {% endfor %} ends no {% for %} at character 26",
    "{% endif %}": "its {% endif %} ends no {% if %} at character 0",
    "{% else %}": "its {% else %} is in no {% if %} at character 0",
}


@pytest.mark.parametrize("template", RIGHT)
def test_a_right_template_has_no_fault(template: str) -> None:
    assert list(chat_template_faults(template)) == []


@pytest.mark.parametrize("template", WRONG)
def test_a_wrong_template_has_a_fault(template: str) -> None:
    assert list(chat_template_faults(template)) == [WRONG[template]]
