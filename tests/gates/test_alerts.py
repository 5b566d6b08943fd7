# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Each alert with the real promtool: once where it fires, with what it says, and once where it must not."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import yaml

from vepyc.images import debian_packages

ROOT = Path(__file__).parents[2]
RULES = ROOT / "roles/epyc_monitoring/files/sovereign-epyc.rules.yml"
DOCUMENT = ROOT / "docs/monitoring.md"
LLAMA = 'job="llama", instance="10.0.0.1:8080", host="one", service="chat", model="m", speculation="ngram"'
PLAIN = LLAMA.replace('"ngram"', '"none"')
GATEWAY = 'job="gateway", instance="10.0.0.5:8405", host="gate"'
HOST = 'job="host", instance="10.0.0.1:9100", host="one"'
#: Steps of ten minutes: promtool takes no more samples than that for a week.
LONG, WEEK = 10, 7 * 24 * 6


class Case(NamedTuple):
    """Series with a sample each step, those that fire and those that must not, and what is said after so many steps.

    A step is a minute, or ``step`` of them.
    """

    fires: dict[str, str]
    silent: dict[str, str]
    steps: int
    labels: str
    summary: str
    action: str
    step: int = 1


def growing_series(by: float, steps: int) -> str:
    return f"0+{by}x{steps}"


def draft_counters(wrong: float) -> dict[str, str]:
    """Counters of a week of which 8 of 10 guesses were right, and of half a day with so many."""
    first, then = WEEK, 72
    accepted = f"0+8x{first} {8 * first + wrong}+{wrong}x{then}"
    return {
        f"llamacpp:spec_decode_num_draft_tokens_total{{{LLAMA}}}": growing_series(10, first + then),
        f"llamacpp:spec_decode_num_accepted_tokens_total{{{LLAMA}}}": accepted,
    }


def token_time_counters(then: float) -> dict[str, str]:
    """Counters of a week with 20 ms for a token, and of an hour with another time."""
    return {
        f"llamacpp:tokens_predicted_total{{{LLAMA}}}": growing_series(100, WEEK + 12),
        f"llamacpp:tokens_predicted_seconds_total{{{LLAMA}}}": f"0+2x{WEEK} {2 * WEEK + 100 * then}+{100 * then}x12",
    }


def server_states(up: int) -> dict[str, str]:
    """Two hosts behind a model, of which so many are up."""
    rows = {
        f'haproxy_server_status{{{GATEWAY}, proxy="model_m", server="{name}", state="UP"}}': f"{int(number < up)}x30"
        for number, name in enumerate(("one:chat", "two:chat"))
    }
    return {**rows, f'haproxy_backend_active_servers{{{GATEWAY}, proxy="model_m"}}': f"{up}x30"}


DRIFT = (
    f'sovereign_epyc_drift{{{HOST}, layer="cpufreq", what="governor", where="CPUs 1-7", role="cpufreq", live="drift"'
)
GIVEN_UP = (
    f'sovereign_epyc_repair_given_up{{{HOST}, layer="resctrl", what="L3 share of group draft", where="L3 domain 0", '
    'role="cat"}'
)
OF_MODEL = f'{GATEWAY}, proxy="model_m"'
ON_ONE = "On one: journalctl -u llama-chat. Then run site.yml --tags llama for it."
CASES: dict[str, Case] = {
    "EpycInstanceDown": Case(
        {f"up{{{LLAMA}}}": "1x5 0x10"},
        {f"up{{{LLAMA}}}": "1x5 0 1x10"},
        9,
        LLAMA,
        "chat on one does not answer.",
        ON_ONE,
    ),
    "EpycGatewayDown": Case(
        {f"up{{{GATEWAY}}}": "0x10"},
        {f"up{{{GATEWAY}}}": "1x10"},
        5,
        GATEWAY,
        "The gateway gate does not answer.",
        "On gate: journalctl -u haproxy. Then run gateway.yml for it.",
    ),
    "EpycHostSilent": Case(
        {f"up{{{HOST}}}": "0x10"},
        {f"up{{{HOST}}}": "0x3 1x10"},
        8,
        HOST,
        "one tells no metrics.",
        "Look whether one runs and its node_exporter answers.",
    ),
    "EpycModelGone": Case(
        server_states(0),
        server_states(1),
        20,
        OF_MODEL,
        "No host serves model_m at the gateway gate.",
        "Bring one of its hosts back, or take the model out of the inventory and run gateway.yml.",
    ),
    "EpycLastReplica": Case(
        server_states(1),
        server_states(2),
        20,
        OF_MODEL,
        "One host alone serves model_m at the gateway gate.",
        "Bring its other hosts back: the next one that ends takes the model with it.",
    ),
    "EpycQueue": Case(
        {f"haproxy_backend_current_queue{{{OF_MODEL}}}": "3x10"},
        {f"haproxy_backend_current_queue{{{OF_MODEL}}}": "3 0 3 0 3 0 3 0 3 0"},
        6,
        OF_MODEL,
        "3 requests wait for a slot of model_m at the gateway gate.",
        "Add slots or hosts for the model, or lower the rates of its tenants.",
    ),
    "EpycDeferred": Case(
        {f"llamacpp:requests_deferred{{{LLAMA}}}": "2x10"},
        {f"llamacpp:requests_deferred{{{LLAMA}}}": "0x10"},
        6,
        LLAMA,
        "chat on one lets 2 requests wait itself.",
        "Somebody asks it past the gateway, or its slots differ from the inventory: run gateway.yml.",
    ),
    "EpycNoSpeculation": Case(
        {
            f"llamacpp:tokens_predicted_total{{{LLAMA}}}": growing_series(100, 90),
            f"llamacpp:spec_decode_num_drafts_total{{{LLAMA}}}": "7x90",
        },
        {
            f"llamacpp:tokens_predicted_total{{{PLAIN}}}": growing_series(100, 90),
            f"llamacpp:spec_decode_num_drafts_total{{{PLAIN}}}": "7x90",
        },
        80,
        LLAMA,
        "chat on one guesses nothing, and shall (ngram).",
        "Run verify.yml for one: it says whether the draft was dropped.",
    ),
    "EpycAcceptanceHalved": Case(
        draft_counters(2),
        draft_counters(6),
        WEEK + 24,
        LLAMA,
        "Of what chat on one guesses, 20% is right, half of its week.",
        "Look whether model, draft or texts have changed; tune.yml finds other lengths.",
        LONG,
    ),
    "EpycSlower": Case(
        token_time_counters(0.04),
        token_time_counters(0.025),
        WEEK + 9,
        LLAMA,
        "A token of chat on one takes 40ms, half as long again as in its week.",
        "Run verify.yml for one: it says what is not as it was tuned.",
        LONG,
    ),
    "EpycDrift": Case(
        {f'{DRIFT}, status="drift"}}': "1x60"},
        {f'{DRIFT}, status="unsupported"}}': "1x60"},
        40,
        f'{HOST}, layer="cpufreq", what="governor", where="CPUs 1-7", role="cpufreq", live="drift", status="drift"',
        "governor (CPUs 1-7) on one is not as it was tuned.",
        "Run site.yml --tags cpufreq for one, or find out who changes it.",
    ),
    "EpycFight": Case(
        {GIVEN_UP: "1x10"},
        {f'{DRIFT}, status="drift"}}': "1x10"},
        5,
        f'{HOST}, layer="resctrl", what="L3 share of group draft", where="L3 domain 0", role="cat"',
        "Somebody sets L3 share of group draft (L3 domain 0) on one again and again; it is not repaired any more now.",
        "Find out who: another tool, a tuned profile, a script at boot. Or change what the inventory asks for.",
    ),
    "EpycUntunedServes": Case(
        {f'{DRIFT}, status="drift"}}': "1x90", f"llamacpp:tokens_predicted_total{{{LLAMA}}}": growing_series(10, 90)},
        {f'{DRIFT}, status="drift"}}': "1x90", f"llamacpp:tokens_predicted_total{{{LLAMA}}}": "900x90"},
        80,
        'host="one"',
        "one serves, and is not tuned.",
        "Run site.yml for one; its agent takes it out of service at the gateway meanwhile.",
    ),
    "EpycCheckFailed": Case(
        {f"sovereign_epyc_check_success{{{HOST}}}": "0x60"},
        {f"sovereign_epyc_check_success{{{HOST}}}": "1x60"},
        40,
        HOST,
        "The check of one cannot be made.",
        "On one: sovereign-epyc check says why.",
    ),
    "EpycCheckStale": Case(
        {f'node_textfile_mtime_seconds{{{HOST}, file="/x/sovereign-epyc.prom"}}': "0x120"},
        {f'node_textfile_mtime_seconds{{{HOST}, file="/x/sovereign-epyc.prom"}}': "0+60x120"},
        90,
        f'{HOST}, file="/x/sovereign-epyc.prom"',
        "one has not been checked for 1h 30m 0s.",
        "On one: systemctl status sovereign-epyc-check.timer.",
    ),
}


def load_alerts() -> dict[str, dict[str, Any]]:
    groups = yaml.safe_load(RULES.read_text())["groups"]
    return {rule["alert"]: rule for group in groups for rule in group["rules"] if "alert" in rule}


@pytest.fixture(scope="session")
def promtool() -> Path:
    """That of Debian, which is one file: its package is only unpacked."""
    return debian_packages.ensure_extracted("trixie", "promtool") / "usr/bin/promtool"


def run(promtool: Path, *words: object) -> str:
    done = subprocess.run([promtool, *map(str, words)], capture_output=True, text=True, check=False)
    return "" if done.returncode == 0 else done.stdout + done.stderr


def test_promtool_takes_the_rules(promtool: Path) -> None:
    assert run(promtool, "check", "rules", "--lint-fatal", RULES) == ""


def test_each_alert_has_a_case_and_a_line_in_the_document() -> None:
    rows = re.findall(r"^\| `(Epyc\w+)` \| ([^|]+) \|", DOCUMENT.read_text(), re.MULTILINE)
    assert set(load_alerts()) == set(CASES) == {name for name, dummy in rows}
    for name, after in rows:
        said = load_alerts()[name].get("for")
        assert said is None or after == f"{said[:-1]} {'h' if said[-1] == 'h' else 'min'}"


def labels_of(text: str) -> dict[str, str]:
    return dict(re.findall(r'(\w+)="([^"]*)"', text))


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_an_alert(promtool: Path, tmp_path: Path, name: str) -> None:
    case = CASES[name]
    severity = load_alerts()[name]["labels"]["severity"]
    fired = {
        "exp_labels": {**labels_of(case.labels), "severity": severity},
        "exp_annotations": {"summary": case.summary, "action": case.action},
    }
    tests = [
        {
            "interval": f"{case.step}m",
            "input_series": [{"series": one, "values": values} for one, values in series.items()],
            "alert_rule_test": [{"eval_time": f"{case.step * case.steps}m", "alertname": name, "exp_alerts": expected}],
        }
        for series, expected in ((case.fires, [fired]), (case.silent, []))
    ]
    file = tmp_path / "test.yml"
    # promtool takes the groups in any order otherwise, and an alert on a record would be a step late at times.
    order = [group["name"] for group in yaml.safe_load(RULES.read_text())["groups"]]
    told = {"rule_files": [str(RULES)], "group_eval_order": order, "evaluation_interval": f"{case.step}m"}
    file.write_text(yaml.safe_dump({**told, "tests": tests}))
    assert run(promtool, "test", "rules", file) == ""
