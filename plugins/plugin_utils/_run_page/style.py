# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The style sheet of the page of a run beside that of all pages; no information is in a colour alone."""

from __future__ import annotations

STYLE = """
:root { --zone: #e2e5e9; --axis: #8a8a8a; }
@media (prefers-color-scheme: dark) { :root { --zone: #343a42; --axis: #7d828a; } }
.tiles { display: flex; flex-wrap: wrap; gap: .6rem; margin: .8rem 0; }
.tiles div { flex: 1 1 9rem; padding: .5rem .8rem; background: var(--card); border-radius: .4rem; }
.tiles b { display: block; font-size: 1.25rem; white-space: nowrap; font-variant-numeric: tabular-nums; }
.tiles span, .tiles small { display: block; } .tiles small { color: var(--faint); overflow-wrap: anywhere; }
.facts { display: flex; flex-wrap: wrap; gap: .1rem 1.6rem; margin: .6rem 0; }
.facts div { display: flex; gap: .5rem; max-width: 100%; } .facts dt { flex: none; }
.unbroken { white-space: nowrap; }
.change { color: var(--ok); }
pre { margin: .4rem 0; padding: .5rem .7rem; background: var(--card); border-radius: .3rem;
  font: .85rem/1.5 ui-monospace, monospace; white-space: pre-wrap; overflow-wrap: anywhere; }
.diff span { display: block; }
.change pre { background: var(--ground); } .diff .cut { color: var(--drift); } .diff .added { color: var(--ok); }
section { margin: 1.5rem 0; padding-top: .8rem; border-top: 1px solid var(--line); }
section h2 { margin: 0; } section ul { margin: .3rem 0; padding-left: 1.2rem; }
section table { width: auto; min-width: min(100%, 24rem); margin: .5rem 0; }
section td, section th { text-align: left; }
section tbody th:first-child, section thead th:first-child { width: auto; min-width: 5.5rem; font-weight: 600;
  position: sticky; left: 0; background: var(--ground); z-index: 1; }
section td.note { min-width: 12rem; max-width: 34rem; overflow-wrap: break-word; }
section td.number, section th.number { text-align: right; font-variant-numeric: tabular-nums; }
section td.number { white-space: nowrap; } section thead th { vertical-align: bottom; }
section th.interval, section td.interval { width: 45%; min-width: 9rem; padding: 0 .8rem; vertical-align: middle; }
section details { margin: .5rem 0; } .known dt { overflow-wrap: anywhere; }
.plot { display: block; margin: 0; overflow: visible; font: 12px system-ui, sans-serif; }
.plot.scaled { margin: .5rem 0; padding-left: 3.2rem; } .plot.curves { max-width: 44rem; }
.plot.inline { display: inline-block; margin: 0; vertical-align: -.15em; }
.plot .at { overflow: visible; }
.plot text { fill: var(--text); font-variant-numeric: tabular-nums; }
.plot .end { text-anchor: end; } .plot .middle { text-anchor: middle; } .plot .small { font-size: 10px; }
.plot .zone { fill: var(--zone); }
.plot path { fill: none; } .plot .axis { stroke: var(--line); } .plot .base { stroke: var(--axis); }
.plot .one { stroke: var(--text); stroke-dasharray: 3 3; }
.plot .range { stroke: currentColor; stroke-width: 2; }
.plot .mark { fill: currentColor; stroke: currentColor; stroke-width: 1.5; }
.plot .hollow { fill: var(--ground); }
.pays, .kept { color: var(--ok); } .hurts, .stock { color: var(--drift); } .undecided { color: var(--unknown); }
.rejected, .untested, .mixed { color: var(--unsupported); } .nothing, .itself, .other { color: var(--faint); }
.tuned { color: var(--link); }
@media (max-width: 40rem) {
  body { padding: .7rem; } .tiles { gap: .4rem; } .tiles div { flex-basis: 8.5rem; padding: .4rem .6rem; }
  section table { font-size: .85rem; } section th, section td { padding: .15rem .35rem; }
  section tbody th:first-child { max-width: 7.5rem; overflow-wrap: break-word; }
  .facts { display: block; } .known { grid-template-columns: 1fr; }
}
@media print { section { break-inside: auto; } .plot { break-inside: avoid; } * { print-color-adjust: exact; } }
"""

#: Verdict -> the CSS class of its colour, and its sign.
SIGNS = {
    "pays": ("pays", "\u25b2"),
    "hurts": ("hurts", "\u25bc"),
    "nothing": ("nothing", "\u25cf"),
    "undecided": ("undecided", "?"),
    "mixed": ("mixed", "\u25e8"),
    "rejected": ("rejected", "\u00d7"),
    "not tested": ("untested", "\u25c7"),
    "": ("itself", ""),
}
