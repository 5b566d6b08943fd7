# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Documents of runs for the tests of their page: an ablation with something of everything, a benchmark, a tuning."""

from __future__ import annotations

import json
from functools import lru_cache
from typing import Any

from ansible_collections.sovereign.epyc.plugins.module_utils._bench.rounds import schedule
from ansible_collections.sovereign.epyc.tests.unit.fakes.bench_runs import KINDS, Bench

KNOBS = {"threads": 0.3, "boost": -0.06, "governor": 0.0}
#: A text that would be markup, an attribute's end and an entity where it is not escaped; it fits into a name.
EVIL = "<img src=x onerror=a()>\"'&lt;"
STEAL_ROUND = 3


def client(sample: dict[str, Any]) -> None:
    """Add what the client saw of a sample: the time to the first text, and gaps of which some are longer.

    Eight tokens come at once.
    """
    gap = 8 * sample["predicted_ms"] / sample["predicted_n"]
    sample["gaps_ms"] = [round(gap * (1 + (at % 7) / 10), 3) for at in range(sample["predicted_n"] // 8 - 1)]
    sample["ttft_ms"], sample["ttfts_ms"] = sample["prompt_ms"], [sample["prompt_ms"]]


def _spoil(sample: dict[str, Any]) -> None:
    client(sample)
    sample["witness"].update(steal=0.02 if sample["round"] == STEAL_ROUND else 0.0)


@lru_cache(maxsize=1)
def _ablation() -> str:
    """Return the text of its file: making the run takes longer than all that is done with it."""
    bench = Bench(11, KNOBS, noise=0.004, kinds=KINDS, streams=(1, 4))
    bench.spoil = _spoil
    bench.ablate(14)
    bench.data["plan"]["untested"]["isolation"] = "it needs a reboot, and reboots are not allowed"
    bench.data["plan"]["predicted"] = {"tuned": 29.0, "without boost": 33.0, "nobody": 3.0}
    bench.data["fingerprint"].update(sku="AMD EPYC 9354", kernel="6.12", arguments=["--threads", "32"])
    bench.data["fingerprint"]["settings"] = {"sysfs:governor": "performance", "sysfs:absent": None}
    bench.confirm(["boost"])
    return json.dumps(bench.data)


def ablation() -> dict[str, Any]:
    """Return an ablation with a gain, a loss, nothing, an untested setting, a void round, and its confirmation."""
    return dict(json.loads(_ablation()))


def unconfirmed() -> dict[str, Any]:
    """Return the same run without its confirmation."""
    data = ablation()
    order = data["plan"]["order"]
    data["plan"]["order"] = [one for one in order if one["phase"] == schedule.ABLATION]
    data["samples"] = [one for one in data["samples"] if one["round"] <= len(data["plan"]["order"])]
    return data


def begun() -> dict[str, Any]:
    """Return a run that has no samples yet, on a host of which nothing is known."""
    return Bench(11, KNOBS).data


def benchmark(rounds: int = 6) -> dict[str, Any]:
    """Return a run of one arm."""
    bench = Bench(5, KNOBS, noise=0.01, kinds=KINDS, streams=(1, 2, 4))
    bench.spoil = client
    for dummy in range(rounds):
        bench.round([schedule.TUNED])
    bench.data["plan"]["arms"] = schedule.build_arm_as_running()
    for one in bench.data["plan"]["order"]:
        one.update(arms=[schedule.RUNNING], phase=schedule.BENCHMARK)
    for one in bench.data["samples"]:
        one["arm"] = schedule.RUNNING
    return bench.data


def loads() -> dict[str, Any]:
    """Return a benchmark with two depths of context, second turns, arrivals at a rate, and energy."""
    data = benchmark(2)
    plain = [one for one in data["samples"] if one["streams"] == 1]
    data["plan"]["slo"] = {"first_ms": 2000, "per_token_ms": 100}
    for depth in (4096, 16384):
        data["samples"] += [_changed(one, 1 + depth / 16384, depth=depth) for one in plain]
    data["samples"] += [_changed(one, 0.1, turn=2, depth=600, prompt_n=40) for one in plain]
    data["samples"] += [_changed(one, 2.0, rate=0.5, streams=3, within_slo=0.75) for one in plain]
    for one in data["samples"]:
        one["witness"].update(joules=3600.0, seconds=10.0, power_source="bmc", tokens=1800)
    return data


def _changed(sample: dict[str, Any], factor: float, **other: Any) -> dict[str, Any]:
    """Return a copy of a sample whose times are longer by a factor."""
    times = {name: sample[name] * factor for name in ("prompt_ms", "predicted_ms", "output_ms", "ttft_ms")}
    return {**sample, **times, "ttfts_ms": [times["ttft_ms"]], "witness": dict(sample["witness"]), **other}


def tuning() -> dict[str, Any]:
    """Return a tuning of three candidates: a better one, which is confirmed, a worse one, and one that cannot be."""
    bench = Bench(3, {"threads": -0.1, "ubatch": 0.1}, schedule.RESTART, noise=0.004, requests=3)
    without = ["without threads", "without ubatch"]
    for dummy in range(4):
        bench.round([schedule.TUNED, *without])
    for dummy in range(schedule.CONFIRMATION_ROUNDS):
        bench.round([schedule.TUNED, schedule.AGAIN, without[0]], schedule.CONFIRMATION)
    names = {schedule.TUNED: schedule.DEFAULT, **{name: f"candidate {at}" for at, name in enumerate(without, 1)}}
    data: dict[str, Any] = _replaced(bench.data, names)
    tried: tuple[dict[str, Any], ...] = ({"threads": 96}, {"ubatch": 128}, {"hugepages": "pool"})
    arms = [schedule.build_candidate_arm(at, options) for at, options in enumerate(tried, 1)]
    data["plan"]["arms"] = [*schedule.build_tuning_arms({"threads": 124, "ubatch": 512, "hugepages": "none"}), *arms]
    phases = (schedule.SWEEP, schedule.SWEEP, schedule.HALVING, schedule.RACE)
    for one, phase in zip(data["plan"]["order"], phases):
        one["phase"] = phase
    data["plan"]["predicted"] = {"candidate 1": 14.0}
    data["plan"]["rejected"] = {"candidate 3": "No pool of huge pages is large enough."}
    return data


def hostile() -> dict[str, Any]:
    """Return the ablation with EVIL wherever a document takes a text that we do not choose."""
    others = {"threads": EVIL, "without threads": f"without {EVIL}", "prose": EVIL, "run-11": EVIL}
    data: dict[str, Any] = _replaced(ablation(), others)
    data["started"] = EVIL
    known = data["fingerprint"]
    for name, value in known.items():
        known[name] = EVIL if value is None or isinstance(value, str) else value
    known.update(arguments=[EVIL, "\u202e"], uptime_s=5, settings={EVIL: EVIL, "\x1b[31m": None})
    data["plan"]["untested"] = {EVIL: EVIL, "\x1b\ud800": "\u202e"}
    data["plan"]["rejected"] = {"governor": EVIL}
    data["plan"]["predicted"][f"without {EVIL}"] = 30.0
    data["samples"][-1]["void"] = EVIL
    return data


def _replaced(data: Any, others: dict[str, str]) -> Any:
    """Return data with other texts in place of some, in keys too."""
    if isinstance(data, dict):
        return {_replaced(key, others): _replaced(value, others) for key, value in data.items()}
    if isinstance(data, list):
        return [_replaced(one, others) for one in data]
    return others.get(data, data) if isinstance(data, str) else data
