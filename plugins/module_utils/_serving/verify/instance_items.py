# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Checklist items on installed instances: they serve, they guess tokens, and they run where they were planned.

The unit of an instance carries its plan; all other values come from the running server.
"""

from __future__ import annotations

import time

from ..._drift.next_step import stopped_unit_advice
from ..._errors import TuningError
from ..._knobs.managed_units import BETWEEN_STATES, read_unit_properties, unit_state
from ..._verify.checklist_items import NOT_CONFIGURED, OK, UNKNOWN, WRONG, Item
from ..._verify.placement.watch import ServiceWatch
from ..catalogue import ENGINES, LLAMA
from ..hooks import keys, server_http
from ..hooks.read_progress import describe_start_of_unit
from ..unit.installed import (
    list_changed_mapping_messages,
    list_files_replaced_since_load,
    list_installed_instances,
    missing_plan_message,
    write_unit_again_message,
)
from . import jitter, silent_unit_items
from . import trial as trials
from .baseline import list_baseline_items
from .drawn_threads import list_drawn_thread_items
from .silent_unit_items import build_item, judge_unit_placement

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from ..._host.host import Host
    from .trial import Question, Trial

    Plan = Mapping[str, Any]
    Facts = dict[str, object]

#: The verdicts whose sentences are shown when all are right: where the instance computes, and where its memory lies.
SUMMARY_VERDICTS = ("busy_cpus", "nodes/weights", "rows", "nodes/anonymous")


def check_all_instances(host: Host, clock: Any = time) -> tuple[list[Item], dict[str, Facts]]:
    """Return the items on all instances, and the measured values by instance."""
    items: list[Item] = []
    facts: dict[str, Facts] = {}
    for instance in list_installed_instances(host.fs.root):
        name, plan = instance.name, instance.plan
        if plan is not None and not plan["url"]:
            items += silent_unit_items.check_part_without_requests(host, instance, plan, clock)
        elif plan is not None and plan["models"]:
            items_of_instance, facts_of_models = check_models_of_router(host, name, plan, clock)
            items += items_of_instance
            facts.update(facts_of_models)
        elif plan is not None:
            items_of_instance, facts[name], dummy = check_instance_or_model(host, name, plan, clock)
            items += [*items_of_instance, *list_baseline_items(host, name, plan)]
        else:
            items.append(build_item("service", name, UNKNOWN, missing_plan_message(instance.unit, instance.text)))
    return [*items, *silent_unit_items.check_rpc_worker(host, clock)], facts


def check_models_of_router(host: Host, name: str, plan: Plan, clock: Any) -> tuple[list[Item], dict[str, Facts]]:
    """Send a request to each loaded model of a router; return items, and the measured values by model.

    Another model is not loaded for this, which might push a loaded one out of memory.
    """
    items = [mark_wrong_if_files_replaced(host, build_serving_item(name, plan), name, plan)]
    facts: dict[str, Facts] = {}
    states = _fetch_model_states(host, name, plan) if items[0].verdict == OK else {}
    for model in plan["models"]:
        label = f"{name}/{model}"
        if states.get(model) == server_http.LOADED:
            (serving_item, *items_of_model), facts[label], dummy = check_instance_or_model(
                host, name, plan, clock, model=model
            )
            items[0] = items[0] if serving_item.verdict == OK else serving_item
            items += items_of_model
        else:
            state = states.get(model, "unknown")
            sentence = f"The model is {state}, and is read when somebody asks for it. No request was sent."
            items.append(build_item("speed", label, WRONG if state == "failed" else NOT_CONFIGURED, sentence, state))
    return items, facts


def _fetch_model_states(host: Host, name: str, plan: Plan) -> dict[str, str]:
    try:
        return server_http.fetch_model_states(
            plan["url"],
            server_http.HEALTH_TIMEOUT,
            keys.read_api_key_loaded_by_unit(host.fs, plan["unit"], plan["key_file"]),
        )
    except TuningError:
        return {}


def check_instance_or_model(
    host: Host,
    name: str,
    plan: Plan,
    clock: Any,
    question: Question = trials.DEFAULT_QUESTION,
    model: str | None = None,
) -> tuple[list[Item], Facts, Trial]:
    """Send a request to an instance or a model of a router; return the items, the measured values, and the trial."""
    label = f"{name}/{model}" if model else name
    units = {name: (plan["unit"], plan["expect"])}
    if plan["rpc"]:
        units[f"{name}-rpc"] = (plan["rpc"]["unit"], plan["rpc"]["expect"])
    serving_item = build_serving_item(name, plan)
    if serving_item.verdict != OK:
        trial = _failed_trial("it does not serve.")
        proofs: dict[str, Mapping[str, Any] | str] = dict.fromkeys(units, trial.reason)
    else:
        watches = {key: _start_placement_watch(host, unit, expect, clock) for key, (unit, expect) in units.items()}
        trial = _run_trial(host, name, plan, clock, question, model)
        proofs = {key: _finish_placement_watch(watch, trial) for key, watch in watches.items()}
    placement_items = [
        build_placement_item(label if key == name else key, proof, units[key][0]) for key, proof in proofs.items()
    ]
    for key, proof in proofs.items():
        placement_items += list_drawn_thread_items(host, label if key == name else key, proof)
    placement_items.append(jitter.build_jitter_item(host.fs, label, plan["expect"]["busy_cpus"], proofs[name]))
    final_serving_item = mark_wrong_if_model_not_loaded(
        mark_wrong_if_files_replaced(host, serving_item, name, plan), name, plan, proofs[name]
    )
    final_serving_item = mark_wrong_if_request_refused(final_serving_item, name, plan, trial)
    items = [
        final_serving_item,
        build_speculation_item(label, plan, trial),
        *placement_items,
        build_speed_item(label, trial, question),
    ]
    return items, _measured_facts(trial, proofs[name]), trial


def build_serving_item(name: str, plan: Plan) -> Item:
    """Return the item on whether the unit of an instance is active and its server serves."""
    unit = plan["unit"]
    try:
        state = unit_state(read_unit_properties([unit]).get(unit, {})) or "unknown to systemd"
        status, text = server_http.send_get_request(plan["url"], "/health", server_http.HEALTH_TIMEOUT)
    except TuningError as error:
        return build_item("service", name, UNKNOWN, str(error))
    if state in BETWEEN_STATES or (state == "active" and status == 503):
        how_far = f"{unit} is being stopped" if state == "deactivating" else describe_start_of_unit(unit, plan)
        return build_item("service", name, UNKNOWN, f"{how_far}. Ask again when it serves.", state)
    if state != "active":
        return build_item("service", name, WRONG, f"{unit} is {state}. {stopped_unit_advice(unit)}", state)
    if status != 200:
        answer = f"{plan['url']}/health answers {status}" if status else f"at {plan['url']} {text}"
        sentence = f"{unit} is active, and {answer}. 'journalctl -u {unit}' says what it does."
        return build_item("service", name, WRONG, sentence, state)
    return build_item("service", name, OK, f"{unit} is active and serves at {plan['url']}.", state)


def mark_wrong_if_files_replaced(host: Host, item: Item, name: str, plan: Plan) -> Item:
    """Return the item on a server; the verdict becomes wrong when a file of the plan was replaced since."""
    changed = list_changed_mapping_messages(host.fs, plan) if item.verdict == OK else []
    if changed:
        return build_item("service", name, WRONG, f"{changed[0]} {write_unit_again_message(plan['unit'])}", item.found)
    replaced = list_files_replaced_since_load(plan) if item.verdict == OK else []
    if not replaced:
        return item
    sentence = (
        f"{replaced[0]} was replaced or removed since {plan['unit']} was planned, which may still run with the old one."
    )
    sentence += f" {write_unit_again_message(plan['unit'])}"
    return build_item("service", name, WRONG, sentence, item.found)


def mark_wrong_if_model_not_loaded(item: Item, name: str, plan: Plan, proof: Mapping[str, Any] | str) -> Item:
    """Return the item of a server, as wrong when none of its processes maps the model or has memory for half of it."""
    rows = [] if isinstance(proof, str) else proof["memory"]
    if item.verdict != OK or not rows or any(row["weights"] is None or row["hugepages"] is None for row in rows):
        return item
    is_mapped = any(row["weights"]["files"] for row in rows)
    held_bytes = sum(row["anonymous"]["bytes"] + row["hugepages"]["hugetlb"] for row in rows)
    if is_mapped or 2 * held_bytes >= max((size for size, dummy in plan["files"].values()), default=0):
        return item
    sentence = f"{plan['unit']} answers, and has no model in memory: what runs there is not the server of the plan."
    return build_item("service", name, WRONG, f"{sentence} {write_unit_again_message(plan['unit'])}", item.found)


def mark_wrong_if_request_refused(item: Item, name: str, plan: Plan, trial: Trial) -> Item:
    """Return the item on a server, as wrong when it refuses a request of its task, which every client may send."""
    if item.verdict != OK or not trial.is_refused:
        return item
    sentence = (
        f"{plan['unit']} is active, and refuses each request of its task {plan['task']}: {trial.reason} Its clients "
        "get the same answer."
    )
    return build_item("service", name, WRONG, sentence, item.found)


def _run_trial(host: Host, name: str, plan: Plan, clock: Any, question: Question, model: str | None) -> Trial:
    try:
        key = keys.read_api_key_loaded_by_unit(host.fs, plan["unit"], plan["key_file"])
        row = ENGINES[plan["engine"]]
        if row is not LLAMA:
            return trials.run_openai_trial(plan["url"], key, clock, question, plan["details"]["alias"], row)
        return trials.run_trial_of_task(plan["url"], key, clock, plan["task"], question, model)
    except TuningError as error:
        return _failed_trial(str(error))


def _failed_trial(reason: str) -> Trial:
    trial = trials.Trial()
    trial.reason = reason
    return trial


def build_speculation_item(name: str, plan: Plan, trial: Trial) -> Item:
    """Return the item on whether the server guesses tokens before it computes them, where this was planned."""
    kinds = ", ".join(plan["speculation"])
    if not kinds:
        sentence = ENGINES[plan["engine"]].cannot.get("speculation", "Speculation is not configured.")
        return build_item("speculation", name, NOT_CONFIGURED, sentence)
    if trial.has_guessed_tokens:
        drafts = "" if trial.drafts is None else f" in {trial.drafts} drafts"
        share = f"{100 * (trial.share_of_right_guesses or 0):.0f} %"
        sentence = (
            f"{trial.drafted} tokens were guessed{drafts} ({kinds}), and {trial.accepted} of them right ({share})."
        )
        return build_item("speculation", name, OK, sentence, f"{trial.share_of_right_guesses or 0:.2f}")
    if trial.speculative is False or (trial.has_guessed_tokens is False and trial.speculative is None and trial.tokens):
        return build_item(
            "speculation",
            name,
            WRONG,
            f"It answers, but does not speculate as planned ({kinds}): its unit was changed by hand, or it dropped the "
            f"draft silently. {write_unit_again_message(plan['unit'])} If it stays so, "
            f"'journalctl -u {plan['unit']}' says why.",
        )
    if not trial.tokens:
        return build_item("speculation", name, UNKNOWN, f"Not known: {trial.reason}")
    reason = (
        "the server counts no guesses"
        if trial.has_guessed_tokens is None
        else "the server can guess, and guessed nothing"
    )
    sentence = (
        f"Not known: {reason} in the answer to a text that repeats itself. Look at timings.draft_n of other answers."
    )
    return build_item("speculation", name, UNKNOWN, sentence)


def build_speed_item(name: str, trial: Trial, question: Question = trials.DEFAULT_QUESTION) -> Item:
    """Return the item with the measured speed, which no limit judges."""
    if not trial.tokens or trial.rate is None:
        return build_item("speed", name, UNKNOWN, f"Not known: {trial.reason or 'a single token came.'}")
    cut_off = "" if trial.is_complete else f", cut off after {question.limit:.0f} s"
    kind_of_text = " of a text that repeats itself" if question is trials.DEFAULT_QUESTION else ""
    sentence = f"{trial.rate:.1f} tokens per second, with {trial.tokens}{kind_of_text}{cut_off}."
    return build_item("speed", name, OK, sentence, f"{trial.rate:.1f}")


def _start_placement_watch(host: Host, unit: str, expect: Mapping[str, Any], clock: Any) -> ServiceWatch | str:
    try:
        return ServiceWatch(host, {**expect, "service": unit}, clock)
    except TuningError as error:
        return str(error)


def _finish_placement_watch(watch: ServiceWatch | str, trial: Trial) -> Mapping[str, Any] | str:
    if isinstance(watch, str):
        return watch
    if not trial.tokens and not trial.other_requests:
        return trial.reason
    try:
        return watch.prove_placement_since_start(relative_to_busiest=trial.tokens > 0)
    except TuningError as error:
        return str(error)


def build_placement_item(name: str, proof: Mapping[str, Any] | str, unit: str) -> Item:
    """Return the item on where a unit runs; a ``proof`` of text says why there is no proof."""
    if isinstance(proof, str):
        return build_item("placement", name, UNKNOWN, f"Not known: {proof}")
    return judge_unit_placement(name, proof["verdicts"], SUMMARY_VERDICTS, write_unit_again_message(unit))


def _measured_facts(trial: Trial, proof: Mapping[str, Any] | str) -> Facts:
    return {
        "drafts": trial.drafts,
        "drafted": trial.drafted,
        "accepted": trial.accepted,
        "acceptance": None if trial.share_of_right_guesses is None else round(trial.share_of_right_guesses, 3),
        "tokens_per_second": None if trial.rate is None else round(trial.rate, 2),
        "locality": {} if isinstance(proof, str) else _local_share_by_node(proof.get("memory", [])),
        "jitter": None if isinstance(proof, str) else proof.get("noise"),
    }


def _local_share_by_node(memory: list[Mapping[str, Any]]) -> dict[str, float]:
    """Return by node the share of the mapped weights; of all anonymous memory where no weights are mapped."""
    for kind in ("weights", "anonymous"):
        bytes_by_node: dict[str, int] = {}
        for nodes in (row[kind]["nodes"] for row in memory if row[kind]):
            for node, size in nodes.items():
                bytes_by_node[node] = bytes_by_node.get(node, 0) + size
        total_bytes = sum(bytes_by_node.values())
        if total_bytes:
            return {node: round(size / total_bytes, 3) for node, size in sorted(bytes_by_node.items())}
    return {}
