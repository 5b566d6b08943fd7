# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The schema of the run document. Times are milliseconds, memory is in kB, shares are from 0 to 1.

``SCHEMA`` is the major version: a document of another major version has other fields, or the same fields with another
meaning. A document of a newer ``MINOR`` version only has more fields, so that this version of the collection reads it.
"""

from __future__ import annotations

from ..._notation.shape import ANY, Nullable, text_choice_shape, whole_number_shape
from ..load.objective_names import OBJECTIVES
from ..rounds import schedule
from .value_shapes import AMOUNT, COUNT, DURATION, NAME, NUMBER, PORTION, SCALAR, SEVERAL, SHARE, TEXT, WHOLE

SCHEMA, MINOR = 2, 1
OBJECTIVE = text_choice_shape(*OBJECTIVES)
CLASS = text_choice_shape(*schedule.REPETITIONS)
#: A result is valid for this fingerprint; a host that differs in any field must be measured again. Null means "not
#: known".
FINGERPRINT = {
    "sku": Nullable(TEXT),
    "microcode": Nullable(TEXT),
    "bios": Nullable(TEXT),
    "kernel": Nullable(TEXT),
    "cmdline": Nullable(TEXT),
    "topology": Nullable(TEXT),
    "uptime_s": Nullable(AMOUNT),
    #: The name of the host, its memory modules as in "24x 64 GiB DDR5-4800", and its NUMA nodes per socket.
    "host": Nullable(TEXT),
    "dimms": Nullable(TEXT),
    "nps": Nullable(SCALAR),
    #: The name of the engine, its build, and the digest of its programs.
    "engine": Nullable(TEXT),
    "engine_build": Nullable(TEXT),
    "engine_sha256": Nullable(TEXT),
    "model": Nullable(TEXT),
    "quantization": Nullable(TEXT),
    #: Digest of names, sizes and the first MiB of the model's files; reading whole files would take minutes.
    "model_sha256": Nullable(TEXT),
    "arguments": [TEXT],
    "settings": {ANY: Nullable(TEXT)},
    "prompts_sha256": Nullable(TEXT),
}
#: ``class`` is null for the anchor and its twin, which belong to every class. ``without`` is the name of the setting
#: that an arm ``without X`` removes, and ``removed`` are the names of all settings that the arm leaves out.
#: ``settings`` are the settings that differ from the anchor. ``arguments`` are the words that the instance is started
#: without: flags, and variables and settings of its unit with an equals sign. ``options`` are the options of module
#: llama_server that a candidate or a variant changes.
ARM = {
    "name": NAME,
    "class": Nullable(CLASS),
    "without": Nullable(NAME),
    "removed": [NAME],
    "settings": {ANY: Nullable(TEXT)},
    "arguments": [TEXT],
    "options": {ANY: SCALAR},
}
ROUND = {
    "round": COUNT,
    "phase": text_choice_shape(*schedule.PHASES),
    "class": CLASS,
    "restart": bool,
    "arms": [NAME],
}
#: The limits of a request that counts as good: milliseconds to the first text, and milliseconds per token after it.
SLO = {"first_ms": DURATION, "per_token_ms": DURATION}
PLAN = {
    "arms": [ARM],
    #: Each round is added here before it is measured.
    "order": [ROUND],
    #: Probability of any false claim in the whole run; all settings share it.
    "alpha": SHARE,
    #: A change of less than this share counts as no effect.
    "zone": SHARE,
    "budget_s": Nullable(AMOUNT),
    #: The objective that decides, and all objectives that get a verdict.
    "objective": OBJECTIVE,
    "objectives": [OBJECTIVE],
    "slo": Nullable(SLO),
    #: Class -> estimated seconds: ``pass_s`` of sending all prompts once, ``start_s`` of a start of the server.
    "costs": {ANY: {ANY: AMOUNT}},
    #: Candidate -> predicted tokens per second of whole requests, the geometric mean over all kinds.
    "predicted": {ANY: NUMBER},
    #: Setting -> why it is not tested, such as that it needs a reboot.
    "untested": {ANY: TEXT},
    #: Setting or candidate -> why its arm was rejected.
    "rejected": {ANY: TEXT},
}
#: Activity of the host during all samples of an arm in a round. ``others`` is the CPU time of other programs on the
#: cores or the nodes of the instance, as a share of the time of these CPUs. ``busiest`` are up to three units with the
#: most CPU time beside the service, each with its share of the time of the CPUs on which the instance computes.
#: ``steal`` is the CPU time that the hypervisor gave to other guests, as a share of the time with work. In ``seconds``
#: the server generated ``tokens`` and took ``joules``, by counters of the processors or the power meter of the host.
WITNESS = {
    "others": Nullable(AMOUNT),
    "steal": Nullable(AMOUNT),
    "freq_mhz": Nullable(AMOUNT),
    "joules": Nullable(AMOUNT),
    "seconds": Nullable(AMOUNT),
    "tokens": Nullable(WHOLE),
    "power_source": Nullable(text_choice_shape("rapl", "bmc")),
    "busiest": [{"unit": TEXT, "share": AMOUNT}],
    "pages_by_node": {ANY: WHOLE},
    "settings_sha256": Nullable(TEXT),
    ANY: object,
}
#: A sample is an answer with one stream, or a window of several streams. ``time`` is the UTC time of its begin.
#:
#: Output is end to end: ``output_n`` tokens were generated in ``output_ms``, from the sent request to the end of the
#: answer with one stream, and in the window in which all streams had a pending request with several. The times of the
#: server are ``prompt_ms`` and ``predicted_ms``; with several streams they are sums over the answers wholly within the
#: window, so that all streams together decode ``streams * predicted_n / predicted_ms`` tokens per millisecond. They are
#: null for windows of schema 1. A sample has at least two tokens, because a single token has no time per token.
#:
#: ``depth`` is the number of tokens before the prompt that were taken from the prefix cache on purpose. ``turn`` is 2
#: for the second turn of a chat, whose first turn is in the prefix cache. ``rate`` is the number of requests that were
#: sent per second, null where each stream sends a request after an answer. ``prompt`` are the first twelve hexadecimal
#: digits of the SHA-256 of the prompt's text. ``ttft_ms`` is the median of ``ttfts_ms``, the times to first token of
#: all answers. ``within_slo`` is the share of answers within the limits of the plan. ``start`` is the number of the
#: server's start, and ``void`` the reason why the sample is discarded.
SAMPLE = {
    "round": COUNT,
    "arm": NAME,
    "start": COUNT,
    "kind": NAME,
    "streams": COUNT,
    "depth": WHOLE,
    "turn": COUNT,
    "rate": Nullable(AMOUNT),
    "time": Nullable(TEXT),
    "prompt": Nullable(TEXT),
    "prompt_n": WHOLE,
    "prompt_ms": AMOUNT,
    "predicted_n": Nullable(SEVERAL),
    "predicted_ms": Nullable(DURATION),
    "output_n": SEVERAL,
    "output_ms": DURATION,
    "drafted": WHOLE,
    "accepted": WHOLE,
    "ttft_ms": Nullable(AMOUNT),
    "ttfts_ms": [AMOUNT],
    "gaps_ms": [AMOUNT],
    "text_sha256": Nullable(TEXT),
    "within_slo": Nullable(PORTION),
    "witness": WITNESS,
    "void": Nullable(TEXT),
}
#: ``source`` is the program that measured, "paper" for a data-sheet figure, or "nothing"; GB/s are 10^9 bytes.
BANDWIDTH = {
    "scope": NAME,
    "cpus": TEXT,
    "nodes": TEXT,
    "gbps": Nullable(AMOUNT),
    "source": text_choice_shape("likwid-bench", "reader", "paper", "nothing"),
}
#: The bytes that a step of all streams reads, by kind of memory. ``context`` is the number of tokens of a stream before
#: the step, of which ``depth`` were taken from the prefix cache on purpose. ``guessed`` is the number of drafted tokens
#: of a stream in the step.
STEP = {
    "kind": NAME,
    "streams": COUNT,
    "depth": WHOLE,
    "context": WHOLE,
    "guessed": AMOUNT,
    "parts": {ANY: AMOUNT},
}
#: The rate that was predicted before the run, in tokens per second of one stream with so many streams. ``low`` and
#: ``high`` are the range of the prediction, ``ceiling`` is the rate at which only memory is read, and ``gbps`` the
#: bandwidth that it stands on, by its ``source``. ``arithmetic`` is a sentence with the numbers.
PREDICTION = {
    "streams": COUNT,
    "tokens_per_second": AMOUNT,
    "low": AMOUNT,
    "high": AMOUNT,
    "ceiling": AMOUNT,
    "gbps": AMOUNT,
    "source": text_choice_shape("measured", "paper"),
    "arithmetic": TEXT,
}
DOCUMENT_SHAPE = {
    "schema": whole_number_shape(1, SCHEMA),
    "minor": WHOLE,
    #: The version of the collection that began the run.
    "collection": Nullable(TEXT),
    "id": NAME,
    "instance": NAME,
    "started": TEXT,
    "ended": Nullable(TEXT),
    "seed": WHOLE,
    "fingerprint": FINGERPRINT,
    "plan": PLAN,
    #: Predictions of the instance as it runs; nothing learns from them. Empty where a rate could not be predicted.
    "predictions": [PREDICTION],
    "samples": [SAMPLE],
    "bandwidth": [BANDWIDTH],
    #: Bytes of the L3 caches of the instance's CPUs.
    "cache": WHOLE,
    "steps": [STEP],
    #: Sentences on how to read the results.
    "remarks": [TEXT],
    #: Sentences on what the time of the run did not suffice for.
    "shortages": [TEXT],
    #: Whether all settings at the end equal those at the beginning; null before the end.
    "restored": Nullable(bool),
}
