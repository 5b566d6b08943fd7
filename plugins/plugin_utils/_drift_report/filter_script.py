# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The script of the HTML page, which filters hosts and findings. All else on the page works without the script."""

from __future__ import annotations

SCRIPT = """
const rows = [...document.querySelectorAll('tbody tr')];
const cards = [...document.querySelectorAll('article')];
const form = document.querySelector('form');
function filter() {
  const name = form.host.value.trim().toLowerCase(), layer = form.layer.value, wrong = form.wrong.checked;
  let shown = 0;
  for (const row of rows) {
    const layers = row.dataset.wrong.split(' ');
    row.hidden = !row.dataset.host.includes(name) || (layer && !layers.includes(layer))
      || (wrong && row.dataset.state === 'clean');
    shown += !row.hidden;
  }
  for (const card of cards) {
    card.hidden = (layer && card.dataset.layer !== layer)
      || (name && !card.dataset.hosts.split(' ').some(host => host.includes(name)));
  }
  document.querySelector('output').textContent = `${shown} of ${rows.length} hosts`;
}
form.addEventListener('input', filter);
form.addEventListener('submit', event => event.preventDefault());
form.hidden = false;
filter();
"""
