# Copyright (c) 2026, the sovereign.epyc authors
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
.tiles div { flex: 1 1 8rem; background: var(--card); padding: .5rem .9rem; }
.tiles strong { display: block; font-size: 1.5rem; font-variant-numeric: tabular-nums; }
td { font-variant-numeric: tabular-nums; } th:first-child { width: auto; }
tbody th, td { white-space: nowrap; }
svg { width: 7rem; height: 1.3rem; } polyline { fill: none; stroke: currentColor; stroke-width: 1.5; }
.stale { opacity: .5; }
"""
SCRIPT = """
const { base, queries } = JSON.parse(document.querySelector('.live').dataset.asks);
const form = document.querySelector('form'), body = document.querySelector('tbody');
const show = (selector, text) => { document.querySelector(selector).textContent = text; };
const count = (number, what) => `${number} ${what}${number === 1 ? '' : 's'}`;
const percent = value => value === undefined ? '' : `${tidy(100 * value, 0)} %`;
const tidy = (value, digits) => value === undefined ? '' : value.toFixed(digits);

// Prometheus answered with something else than the result of a query; the message describes the answer.
class WrongAnswer extends Error {}

function parse(text) {
  try { return JSON.parse(text); } catch { return null; }
}

function isSeries(series, field) {
  const labels = series?.metric, samples = field === 'value' ? [series?.value] : series?.values;
  return labels instanceof Object && Object.values(labels).every(label => typeof label === 'string')
    && Array.isArray(samples) && samples.every(Array.isArray);
}

async function query(path, parameters, field) {
  const signal = AbortSignal.timeout(10000);
  const answer = await fetch(`${base}/api/v1/${path}?${new URLSearchParams(parameters)}`, { signal });
  if (!answer.ok) throw new WrongAnswer(`answered ${answer.status}`);
  const result = parse(await answer.text())?.data?.result;
  if (!Array.isArray(result) || !result.every(series => isSeries(series, field)))
    throw new WrongAnswer('answered something that is no result of a query');
  return result;
}

function collectRows(answers) {
  const rows = new Map();
  for (const series of answers.up) {
    const { host = '', service = '', model = '' } = series.metric;
    rows.set(`${host}/${service}`, { host, service, model, up: series.value[1] === '1' });
  }
  for (const name of Object.keys(queries)) {
    for (const series of name === 'up' ? [] : answers[name]) {
      const { host = '', service } = series.metric;
      const value = Number(series.value[1]);
      // Prometheus returns NaN for a ratio whose denominator is 0.
      if (!Number.isFinite(value)) continue;
      const targets = service ? [rows.get(`${host}/${service}`)] : [...rows.values()].filter(row => row.host === host);
      for (const row of targets) if (row) row[name] = value;
    }
  }
  return [...rows.values()].sort((a, b) => a.up - b.up || (b.drift || 0) - (a.drift || 0)
    || a.host.localeCompare(b.host, undefined, { numeric: true }) || a.service.localeCompare(b.service));
}

function drawLine(values) {
  const finite = values.filter(Number.isFinite);
  if (!finite.length) return '';
  const svg = document.createElementNS('http://www.w3.org/2000/svg', 'svg');
  const polyline = document.createElementNS('http://www.w3.org/2000/svg', 'polyline');
  const most = Math.max(...finite, 1e-9), step = 100 / Math.max(values.length - 1, 1);
  svg.setAttribute('viewBox', '0 0 100 20');
  svg.setAttribute('preserveAspectRatio', 'none');
  svg.setAttribute('role', 'img');
  svg.setAttribute('aria-label', `up to ${most.toFixed(1)}`);
  const places = values.map((value, at) => [at * step, 19 - 18 * value / most]).filter(([, y]) => Number.isFinite(y));
  const points = places.map(place => place.map(coordinate => coordinate.toFixed(1)).join());
  polyline.setAttribute('points', points.join(' '));
  svg.append(polyline);
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
  show('form output', `${shown} of ${count(body.rows.length, 'instance')}`);
}

function showTotals(rows, answers) {
  const total = name => rows.reduce((sum, row) => sum + (row[name] || 0), 0);
  const queue = Number(answers.queue[0]?.value[1]) || 0;
  const down = rows.filter(row => !row.up).length;
  const untuned = new Set(rows.filter(row => row.drift).map(row => row.host)).size;
  const hosts = new Set(rows.map(row => row.host)).size;
  show('#tokens', tidy(total('tokens'), 1));
  show('#busy', tidy(total('busy'), 0));
  show('#queue', tidy(queue, 0));
  show('#down', down);
  show('#untuned', untuned);
  const wrong = [down && `${count(down, 'instance')} down`, untuned && `${count(untuned, 'host')} not as tuned`]
    .filter(Boolean);
  show('.headline', rows.length
    ? `${count(rows.length, 'instance')} on ${count(hosts, 'host')}: ${wrong.join(', ') || 'all is well'}.`
    : 'Prometheus knows no instance: run monitoring.yml, and have it read the files that it writes.');
  document.querySelector('.headline').className = `headline ${wrong.length || !rows.length ? 'drift' : 'ok'}`;
}

let last = '';
async function poll() {
  try {
    const names = Object.keys(queries), now = Date.now() / 1000;
    const results = await Promise.all(names.map(name => query('query', { query: queries[name] }, 'value')));
    const answers = Object.fromEntries(names.map((name, at) => [name, results[at]]));
    const period = { query: queries.tokens, start: now - 3600, end: now, step: 60 };
    const range = await query('query_range', period, 'values');
    const drawSeries = series => drawLine(series.values.map(value => Number(value[1])));
    const key = labels => `${labels.host ?? ''}/${labels.service ?? ''}`;
    const hours = new Map(range.map(series => [key(series.metric), drawSeries(series)]));
    const rows = collectRows(answers);
    showTotals(rows, answers);
    draw(rows, hours);
    last = new Date().toLocaleTimeString();
    show('time', last);
    document.querySelector('.live').classList.remove('stale');
  } catch (error) {
    const since = last ? ` The page shows values of ${last}.` : '';
    const what = error instanceof WrongAnswer ? error.message : `does not answer: ${error.message}`;
    show('.headline', `Prometheus at ${base} ${what}.${since}`);
    document.querySelector('.headline').className = 'headline drift';
    document.querySelector('.live').classList.add('stale');
  }
  setTimeout(poll, 15000);
}
form.addEventListener('input', filter);
form.addEventListener('submit', event => event.preventDefault());
poll();
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
    return frame.render_page(
        "What the fleet serves", STYLE + SERVING_STYLE, SCRIPT, _render_body(base), connect_url=base
    )


def _render_body(base: str) -> Iterator[Html]:
    yield element("h1", "What the fleet serves")
    yield element("p", "Waiting for Prometheus.", class_="headline", role="status")
    yield element("p", f"{base}, ", element("time"), ". The page asks Prometheus every 15 seconds.", class_="faint")
    tiles = [element("div", element("strong", id=name), text) for name, text in TILES.items()]
    search = element("input", name="host", type="search", autocomplete="off")
    head = element("tr", *(element("th", name, scope="col") for name in COLUMNS))
    table = element("table", element("thead", head), element("tbody"))
    yield element(
        "div",
        element("div", *tiles, class_="tiles"),
        element("form", element("label", "Host, instance or model ", search), element("output")),
        frame.scrolling_box(table, "Instances", "narrow"),
        class_="live",
        data_asks=json.dumps({"base": base, "queries": QUERIES}),
    )
