# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The HTML page of the instances of a fleet, which queries one Prometheus by its HTTP API and no other server.

Source: the page "HTTP API" of the Prometheus documentation.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

from ansible_collections.sovereign.epyc.plugins.module_utils._errors import BadRequest
from ansible_collections.sovereign.epyc.plugins.plugin_utils._pages import frame
from ansible_collections.sovereign.epyc.plugins.plugin_utils._pages.html import Html, element
from ansible_collections.sovereign.epyc.plugins.plugin_utils._pages.style import STYLE

if TYPE_CHECKING:
    from collections.abc import Iterator

URL = re.compile(r"https?://[A-Za-z0-9.\[\]:-]+(?:/[A-Za-z0-9._~/-]*)?\Z")
#: Column -> query of Prometheus. Each series has the label host, and that of an instance the label service.
QUERIES = {
    "up": 'up{job="llama"}',
    "tokens": "service:llama_tokens:rate5m",
    "busy": "llamacpp:requests_processing",
    "seconds": "service:llama_token_seconds:mean15m",
    "right": "service:llama_acceptance:ratio1h",
    "cached": "service:llama_cached:ratio1h",
    "memory": 'sum by (host) (rate(sovereign_epyc_memory_bytes_total{of="all"}[1h]))',
    "ceiling": "avg by (host, service) (sovereign_epyc_measured_over_ceiling)",
    "drift": 'count by (host) (sovereign_epyc_drift{status="drift"})',
    "queue": 'sum(haproxy_backend_current_queue{proxy=~"model_.*"})',
}
COLUMNS = (
    *("Instance", "Model", "Tokens per second", "the last hour", "Busy slots", "Time of a token", "Right guesses"),
    *("From cache", "Of the ceiling", "Memory of the host", "Not as tuned"),
)
SERVING_STYLE = """
.tiles { display: flex; flex-wrap: wrap; gap: .6rem; margin: 1rem 0; }
.tiles div { background: var(--card); padding: .5rem .9rem; min-width: 9rem; }
.tiles strong { display: block; font-size: 1.5rem; font-variant-numeric: tabular-nums; }
td { font-variant-numeric: tabular-nums; } th:first-child { width: auto; }
tbody th, td:nth-child(2) { white-space: nowrap; }
svg { width: 7rem; height: 1.3rem; } polyline { fill: none; stroke: currentColor; stroke-width: 1.5; }
.stale { opacity: .5; }
"""
SCRIPT = """
const { base, queries } = JSON.parse(document.querySelector('main').dataset.asks);
const form = document.querySelector('form'), body = document.querySelector('tbody');
const say = (selector, text) => { document.querySelector(selector).textContent = text; };
const count = (number, what) => `${number} ${what}${number === 1 ? '' : 's'}`;
const percent = value => value === undefined ? '' : `${tidy(100 * value, 0)} %`;
const tidy = (value, digits) => value === undefined ? '' : value.toFixed(digits);

// Prometheus answered, but not with the result of a query; the message says with what.
class WrongAnswer extends Error {}

function parse(text) {
  try { return JSON.parse(text); } catch { return null; }
}

function isSeries(one, field) {
  const labels = one?.metric, samples = field === 'value' ? [one?.value] : one?.values;
  return labels instanceof Object && Object.values(labels).every(label => typeof label === 'string')
    && Array.isArray(samples) && samples.every(Array.isArray);
}

async function ask(path, words, field) {
  const signal = AbortSignal.timeout(10000);
  const answer = await fetch(`${base}/api/v1/${path}?${new URLSearchParams(words)}`, { signal });
  if (!answer.ok) throw new WrongAnswer(`answered ${answer.status}`);
  const result = parse(await answer.text())?.data?.result;
  if (!Array.isArray(result) || !result.every(one => isSeries(one, field)))
    throw new WrongAnswer('answered something that is no result of a query');
  return result;
}

function gathered(answers) {
  const rows = new Map();
  for (const one of answers.up) {
    const { host = '', service = '', model = '' } = one.metric;
    rows.set(`${host}/${service}`, { host, service, model, up: one.value[1] === '1' });
  }
  for (const name of Object.keys(queries)) {
    for (const one of name === 'up' ? [] : answers[name]) {
      const { host = '', service } = one.metric;
      const value = Number(one.value[1]);
      // Prometheus returns NaN for a ratio whose denominator is 0.
      if (!Number.isFinite(value)) continue;
      const mine = service ? [rows.get(`${host}/${service}`)] : [...rows.values()].filter(row => row.host === host);
      for (const row of mine) if (row) row[name] = value;
    }
  }
  return [...rows.values()].sort((a, b) => a.up - b.up || (b.drift || 0) - (a.drift || 0)
    || a.host.localeCompare(b.host, undefined, { numeric: true }) || a.service.localeCompare(b.service));
}

function line(values) {
  const finite = values.filter(Number.isFinite);
  if (!finite.length) return '';
  const svg = document.createElementNS('http://www.w3.org/2000/svg', 'svg');
  const drawn = document.createElementNS('http://www.w3.org/2000/svg', 'polyline');
  const most = Math.max(...finite, 1e-9), step = 100 / Math.max(values.length - 1, 1);
  svg.setAttribute('viewBox', '0 0 100 20');
  svg.setAttribute('preserveAspectRatio', 'none');
  svg.setAttribute('role', 'img');
  svg.setAttribute('aria-label', `up to ${most.toFixed(1)}`);
  const places = values.map((value, at) => [at * step, 19 - 18 * value / most]).filter(([, y]) => Number.isFinite(y));
  const points = places.map(place => place.map(one => one.toFixed(1)).join());
  drawn.setAttribute('points', points.join(' '));
  svg.append(drawn);
  return svg;
}

function draw(rows, hours) {
  const cells = row => [
    row.model, row.up ? tidy(row.tokens, 1) : 'down', hours.get(`${row.host}/${row.service}`),
    tidy(row.busy, 0), row.seconds ? `${tidy(1000 * row.seconds, 0)} ms` : '',
    percent(row.right), percent(row.cached), percent(row.ceiling),
    row.memory === undefined ? '' : `${tidy(row.memory / 1e9, 1)} GB/s`, row.drift || '',
  ];
  body.replaceChildren(...rows.map(row => {
    const tr = document.createElement('tr'), head = document.createElement('th');
    head.scope = 'row';
    head.textContent = `${row.host} ${row.service}`;
    tr.dataset.name = `${row.host} ${row.service} ${row.model}`.toLowerCase();
    tr.append(head, ...cells(row).map((cell, at) => {
      const td = document.createElement('td');
      td.append(cell === undefined ? '' : cell);
      if ((at === 1 && !row.up) || (at === 9 && row.drift)) td.className = 'drift';
      return td;
    }));
    return tr;
  }));
  filter();
}

function filter() {
  const name = form.host.value.trim().toLowerCase();
  let shown = 0;
  for (const row of body.rows) { row.hidden = !row.dataset.name.includes(name); shown += !row.hidden; }
  say('form output', `${shown} of ${count(body.rows.length, 'instance')}`);
}

function sum(rows, answers) {
  const of = name => rows.reduce((total, row) => total + (row[name] || 0), 0);
  const queue = Number(answers.queue[0]?.value[1]) || 0;
  const down = rows.filter(row => !row.up).length;
  const untuned = new Set(rows.filter(row => row.drift).map(row => row.host)).size;
  const hosts = new Set(rows.map(row => row.host)).size;
  say('#tokens', tidy(of('tokens'), 1));
  say('#busy', tidy(of('busy'), 0));
  say('#queue', tidy(queue, 0));
  say('#down', down);
  say('#untuned', untuned);
  const wrong = [down && `${count(down, 'instance')} down`, untuned && `${count(untuned, 'host')} not as tuned`]
    .filter(Boolean);
  say('.headline', rows.length
    ? `${count(rows.length, 'instance')} on ${count(hosts, 'host')}: ${wrong.join(', ') || 'all is well'}.`
    : 'Prometheus knows no instance: run monitoring.yml, and have it read the files that it writes.');
  document.querySelector('.headline').className = `headline ${wrong.length || !rows.length ? 'drift' : 'ok'}`;
}

let last = '';
async function look() {
  try {
    const names = Object.keys(queries), now = Date.now() / 1000;
    const found = await Promise.all(names.map(name => ask('query', { query: queries[name] }, 'value')));
    const answers = Object.fromEntries(names.map((name, at) => [name, found[at]]));
    const words = { query: queries.tokens, start: now - 3600, end: now, step: 60 };
    const range = await ask('query_range', words, 'values');
    const drawn = one => line(one.values.map(value => Number(value[1])));
    const hours = new Map(range.map(one => [`${one.metric.host ?? ''}/${one.metric.service ?? ''}`, drawn(one)]));
    const rows = gathered(answers);
    sum(rows, answers);
    draw(rows, hours);
    last = new Date().toLocaleTimeString();
    say('time', last);
    document.querySelector('main').classList.remove('stale');
  } catch (error) {
    const since = last ? ` What is shown is of ${last}.` : '';
    const what = error instanceof WrongAnswer ? error.message : `does not answer: ${error.message}`;
    say('.headline', `Prometheus at ${base} ${what}.${since}`);
    document.querySelector('.headline').className = 'headline drift';
    document.querySelector('main').classList.add('stale');
  }
  setTimeout(look, 15000);
}
form.addEventListener('input', filter);
form.addEventListener('submit', event => event.preventDefault());
look();
"""
TILES = {
    "tokens": "tokens per second",
    "busy": "busy slots",
    "queue": "requests that wait",
    "down": "instances down",
    "untuned": "hosts not as tuned",
}


def render_serving_page(prometheus: str) -> str:
    """Return the page for the Prometheus at a URL. Raises BadRequest for a text that is no URL."""
    if not URL.match(prometheus):
        raise BadRequest(
            f"'{prometheus}' is no URL of a Prometheus: say one such as http://prometheus.example.com:9090."
        )
    base = prometheus.rstrip("/")
    return frame.render_page("What the fleet serves", STYLE + SERVING_STYLE, SCRIPT, _render_body(base), connect=base)


def _render_body(base: str) -> Iterator[Html]:
    yield element("h1", "What the fleet serves")
    yield element("p", "Prometheus is asked.", class_="headline", role="status")
    yield element("p", f"{base}, ", element("time"), ". It is asked again every 15 seconds.", class_="faint")
    tiles = [element("div", element("strong", id=name), text) for name, text in TILES.items()]
    search = element("input", name="host", type="search", autocomplete="off")
    head = element("tr", *(element("th", name, scope="col") for name in COLUMNS))
    yield element(
        "main",
        element("div", *tiles, class_="tiles"),
        element("form", element("label", "Host, instance or model ", search), element("output")),
        element("table", element("thead", head), element("tbody")),
        data_asks=json.dumps({"base": base, "queries": QUERIES}),
    )
