# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The style that all HTML pages share, and the mark of each status, which is recognised without its colour."""

from __future__ import annotations

# These colours stay distinguishable with any colour blindness, on a light and on a dark background.
STYLE = """
:root { color-scheme: light dark; --ground: #fff; --text: #1c1c1c; --faint: #6a6a6a; --line: #d8d8d8; --card: #f5f5f5;
  --ok: #00745a; --drift: #b83a00; --unknown: #6b3fa0; --unsupported: #8a6100; --link: #0b57a4; }
@media (prefers-color-scheme: dark) { :root { --ground: #16181b; --text: #e8e8e8; --faint: #a0a0a0; --line: #3a3d42;
  --card: #202327; --ok: #3fc9a2; --drift: #ff8a4c; --unknown: #c3a0f0; --unsupported: #e0b44a; --link: #7ab8ff; } }
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 80rem; padding: 1rem; background: var(--ground); color: var(--text);
  font: 1rem/1.45 system-ui, sans-serif; }
h1 { margin: 0; font-size: 1.4rem; } h2 { margin: 2rem 0 .5rem; font-size: 1.1rem; }
p { margin: .4rem 0; } a { color: var(--link); }
.headline { font-size: 1.2rem; font-weight: 600; } .faint { color: var(--faint); }
.ok { color: var(--ok); } .drift, .failed, .unreachable { color: var(--drift); } .unknown { color: var(--unknown); }
.unsupported { color: var(--unsupported); } .clean { color: var(--ok); } .unasked, .unseen { color: var(--faint); }
form { display: flex; flex-wrap: wrap; gap: .5rem 1rem; align-items: center; margin: .5rem 0; }
input, select { font: inherit; padding: .2rem .4rem; }
table { border-collapse: collapse; width: 100%; }
th, td { padding: .15rem .5rem; border-bottom: 1px solid var(--line); text-align: center; vertical-align: top; }
th:first-child { text-align: left; font-weight: 400; width: 40%; }
.wide { overflow-x: auto; max-width: 100%; }
@media (min-width: 68rem) { .wide.narrow { overflow: visible; } }
@media (max-width: 68rem) { .narrow th:first-child { position: sticky; left: 0; z-index: 1; width: auto;
  min-width: 8.5rem; background: var(--ground); box-shadow: inset 0 -1px var(--line); } }
.columns { display: flex; flex-wrap: wrap; gap: .3rem 1.5rem; align-items: flex-start; }
.columns > :last-child { flex: 1 1 20rem; min-width: 0; }
thead th { position: sticky; top: 0; background: var(--ground); font-weight: 600; font-size: .85rem; }
tbody tr { content-visibility: auto; contain-intrinsic-size: auto 1.9rem; }
summary { cursor: pointer; } details ul { margin: .2rem 0 .5rem; padding-left: 1.4rem; }
article { margin: .6rem 0; padding: .6rem .8rem; background: var(--card); border-left: .3rem solid currentColor;
  break-inside: avoid; }
article > * { color: var(--text); } article h3 { margin: 0; font-size: 1rem; }
dl { display: grid; grid-template-columns: max-content 1fr; gap: .1rem .8rem; margin: .3rem 0; }
dt { color: var(--faint); } dd { margin: 0; overflow-wrap: anywhere; }
code { font: .9rem ui-monospace, monospace; overflow-wrap: anywhere; }
.legend span { display: inline-block; margin-right: 1rem; white-space: nowrap; }
[hidden] { display: none !important; }
@media print { form { display: none; } .wide { overflow: visible; }
  body { max-width: none; padding: 0; } thead th { position: static; }
  tbody tr { content-visibility: visible; } }
"""

STATUS_MARKS = {"ok": "\u25cf", "drift": "\u25b2", "unknown": "?", "unsupported": "\u25c7"}
