# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The style and the legend of host maps, and the script that shows a map, with marks, in an opened host."""

from __future__ import annotations

from ansible_collections.sovereign.epyc.plugins.module_utils._host.map_data import LETTERS
from ansible_collections.sovereign.epyc.plugins.plugin_utils._pages.html import Html, element

#: The style of maps, in addition to that of the page. Letters have a contrast of at least 4.5 on each background.
MAP_STYLE = """
:root { --h: #cfd4da; --d: #ffc46b; --v: #a5d3f7; --i: #fff; --rest: #ececec; --box: #fbfbfb; --edge: #b4b4b4; }
@media (prefers-color-scheme: dark) { :root { --h: #565c64; --d: #8a5300; --v: #17568f; --i: #16181b; --rest: #33373d;
  --box: #1b1e22; --edge: #555a61; } }
.map { display: block; margin: .5rem 0; font: 11px system-ui, sans-serif; }
.map text { fill: var(--text); pointer-events: none; }
.map .socket > rect, .map .ccd > rect { fill: none; stroke: var(--edge); stroke-dasharray: 2 2; }
.map .socket > rect { stroke-dasharray: none; }
.map .node > rect { fill: var(--card); stroke: var(--edge); }
.map .l3 > rect:first-of-type { fill: var(--box); stroke: var(--edge); }
.map .socket > text, .map .node > text, .map .l3 > text:first-of-type { font-weight: 600; }
.map .cpus { text-anchor: end; fill: var(--faint); font-weight: 400; }
.map .letters { font: 600 12px ui-monospace, monospace; text-anchor: middle; }
.map .way { font-size: 10px; text-anchor: middle; }
.map rect.h { fill: var(--h); } .map rect.d { fill: var(--d); } .map rect.v { fill: var(--v); }
.map rect.i { fill: var(--i); stroke: var(--edge); } .map rect.rest { fill: var(--rest); }
.map rect.x { fill: none; stroke: var(--text); stroke-dasharray: 3 2; }
.map rect.wrong, .map .wrong > rect:first-of-type { stroke: var(--drift); stroke-width: 3; stroke-dasharray: none; }
.map .wrong > text:first-of-type { fill: var(--drift); }
.roles span { display: inline-block; margin-right: 1.2rem; }
.roles b { display: inline-block; min-width: 1.3rem; margin-right: .3rem; border: 1px solid var(--edge);
  color: var(--text); font: 600 .8rem ui-monospace, monospace; text-align: center; }
.roles .h { background: var(--h); } .roles .d { background: var(--d); } .roles .v { background: var(--v); }
.roles .i { background: var(--i); } .roles .rest { background: var(--rest); }
.drawn td { text-align: left; } tr[hidden] + .drawn { display: none; }
/* What is opened stays in the window when its table is scrolled. */
.opened { position: sticky; left: .5rem; max-width: calc(100vw - 3rem); }
@media print { .map { break-inside: avoid; max-width: 100%; height: auto; } * { print-color-adjust: exact; } }
"""

#: When a host is opened, its list of findings moves to a row below, beside the map of the host. Marks are [id of the
#: finding, kind of place, first, last]. The title of a marked place has the heading of the finding.
MAP_SCRIPT = """
function draw(host) {
  const map = document.getElementById(host.dataset.map), row = host.closest('tr');
  const drawn = row.nextElementSibling?.matches('.drawn') && row.nextElementSibling;
  if (!host.open && drawn) host.append(drawn.querySelector('.findings'));
  if (!host.open) return drawn && drawn.remove();
  if (!map || drawn) return;
  const below = `<tr class="drawn"><td colspan="${row.cells.length}"><div class="opened"></div></td></tr>`;
  row.insertAdjacentHTML('afterend', below);
  const slot = row.nextElementSibling.querySelector('.opened'), places = {};
  slot.append(map.content.cloneNode(true));
  slot.querySelector('.columns').append(host.querySelector('.findings'));
  for (const place of slot.querySelectorAll('[data-at]')) (places[place.dataset.at] ??= []).push(place);
  for (const [id, kind, first, last] of JSON.parse(host.dataset.marks)) {
    const words = document.querySelector(`#f${id} h3`).textContent;
    for (let number = first; number <= last; number++)
      for (const place of places[`${kind}:${number}`] ?? []) mark(place, words);
  }
}
function mark(place, words) {
  const label = place.querySelector(':scope > text');
  let title = place.querySelector(':scope > title');
  if (!title) {
    title = document.createElementNS('http://www.w3.org/2000/svg', 'title');
    place.prepend(title);
  }
  title.textContent += `\\n${words}`;
  if (label && !place.classList.contains('wrong')) label.textContent = `\\u25b2 ${label.textContent}`;
  place.classList.add('wrong');
}
document.addEventListener('toggle', event => event.target.dataset.map && draw(event.target), true);
"""


def render_legend(has_ways: bool, has_marks: bool = False) -> Html:
    """Return the legend that names letters and colours; the ways of L3 and the marks only where a map has such."""
    entries = [(letter, letter, role) for role, letter in LETTERS.items()]
    entries += [("rest", ".", "default group, in the bar of L3 ways")] if has_ways else []
    spans = [element("span", element("b", letter, class_=kind), name) for kind, letter, name in entries]
    spans += [element("span", "\u25b2 thick edge: something is wrong here", class_="drift")] if has_marks else []
    return element("p", *spans, class_="roles")
