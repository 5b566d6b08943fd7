# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The style sheet of the page of a run beside that of all pages; no information is in a colour alone."""

from __future__ import annotations

STYLE = """
:root { --zone: #e2e5e9; --axis: #8a8a8a; }
@media (prefers-color-scheme: dark) { :root { --zone: #343a42; --axis: #7d828a; } }
section { margin: 1.5rem 0; padding-top: .8rem; border-top: 1px solid var(--line); }
section h2 { margin: 0; }
section table { width: auto; margin: .5rem 0; } section td, section th { text-align: left; }
section th:first-child { width: auto; font-weight: 600; }
section td { max-width: 45rem; overflow-wrap: break-word; }
section td.number, section th.number { text-align: right; font-variant-numeric: tabular-nums; }
section td.number { white-space: nowrap; } section thead th { vertical-align: bottom; }
.wide { overflow-x: auto; }
.plot { display: block; max-width: 100%; height: auto; margin: .5rem 0; font: 12px system-ui, sans-serif; }
.plot.inline { display: inline-block; margin: 0; vertical-align: -.15em; }
.plot text { fill: var(--text); font-variant-numeric: tabular-nums; }
.plot .end { text-anchor: end; } .plot .middle { text-anchor: middle; } .plot .small { font-size: 10px; }
.plot .zone { fill: var(--zone); }
.plot path { fill: none; } .plot .axis { stroke: var(--line); } .plot .base { stroke: var(--axis); }
.plot .one { stroke: var(--text); stroke-dasharray: 3 3; }
.plot .range { stroke: currentColor; stroke-width: 2; }
.plot .mark { fill: currentColor; stroke: currentColor; stroke-width: 1.5; }
.plot .hollow { fill: var(--ground); }
.plot .bar { fill: currentColor; }
.pays, .kept { color: var(--ok); } .hurts, .stock { color: var(--drift); } .undecided { color: var(--unknown); }
.rejected, .untested { color: var(--unsupported); } .nothing, .itself, .other { color: var(--faint); }
.tuned { color: var(--link); }
@media print { section { break-inside: auto; } .plot { break-inside: avoid; } * { print-color-adjust: exact; } }
"""

#: Verdict -> the CSS class of its colour, and its sign.
SIGNS = {
    "pays": ("pays", "\u25b2"),
    "hurts": ("hurts", "\u25bc"),
    "nothing": ("nothing", "\u25cf"),
    "undecided": ("undecided", "?"),
    "rejected": ("rejected", "\u00d7"),
    "not tested": ("untested", "\u25c7"),
    "": ("itself", ""),
}
