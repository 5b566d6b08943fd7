# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
name: serving_page
short_description: A page that shows what a fleet serves at this moment
version_added: 1.0.0
author: The sovereign.epyc authors (@sovereign-epyc)
description:
  - Renders an HTML page that queries one Prometheus by its HTTP API every 15 seconds, and no other server. For each
    instance the page shows tokens per second, busy slots, the time per token, the share of accepted guesses, memory
    use and drift.
  - Prometheus has to read the files of the role P(sovereign.epyc.epyc_monitoring#role).
positional: _input
options:
  _input:
    description: The URL by which browsers reach Prometheus, as V(http://prometheus.example.com:9090).
    type: str
    required: true
"""

EXAMPLES = r"""
- name: Write the page
  ansible.builtin.copy:
    content: "{{ 'http://prometheus.example.com:9090' | sovereign.epyc.serving_page }}"
    dest: /var/www/html/serving.html
    mode: "0644"
"""

RETURN = r"""
_value:
  description: The text of the page.
  type: str
"""

from typing import Any

from ansible_collections.sovereign.epyc.plugins.plugin_utils._filter_errors import refusals_as_filter_errors


def serving_page(prometheus: str) -> str:
    """Return the HTML page of what a fleet serves. Raises AnsibleFilterError for a text that is no URL."""
    from ansible_collections.sovereign.epyc.plugins.plugin_utils._serving_page import serving_html

    with refusals_as_filter_errors("serving_page: {}"):
        return serving_html.render_serving_page(str(prometheus))


class FilterModule:
    def filters(self) -> dict[str, Any]:
        return {"serving_page": serving_page}
