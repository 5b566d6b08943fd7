# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The hooks: commands that the unit of a server runs before the server starts, until it serves, and before it stops.

Exit codes: 0 for success; 1 for failure, with one sentence that gives the reason.
"""

from __future__ import annotations

import os
import sys

from ..._errors import BadRequest, TuningError
from ..._io.kernelfs import KernelFS
from ..._kernel.hugepages import parse_nodes
from ..._notation.numbers import parse_decimal, parse_whole_number
from ..._notation.printable import escape_lines
from ..catalogue import ENGINES, LLAMA

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ..catalogue import EngineRow

    Options = dict[str, str]

USAGE = """usage: sovereign-epyc llama COMMAND

  await URL --timeout SECONDS [--models NAMES] [--credential FILE] [--engine llama|vllm] [--bytes NUMBER]
            wait until the server reports that it serves, a router these models; stop waiting when the process $MAINPID
            has ended; with --bytes, print now and then how much of these bytes of its model the process has read
  answer URL --task completion|embedding|rerank --timeout SECONDS [--models NAMES] [--credential FILE]
        [--engine llama|vllm] [--alias NAME]
            request a first answer of each of these models, and fail where an answer proves that it does not compute
  drain URL --timeout SECONDS [--models NAMES] [--key-file FILE] [--credential FILE] [--engine llama|vllm]
            wait until the server has no request in progress; its keys are in a file, or in the credential that
            the process $MAINPID sees there
  save-slots URL FOLDER --limit BYTES --slot-bytes FIXED,TOKEN --timeout SECONDS [--credential FILE]
            save the prompts of idle slots to FOLDER, which a server has as --slot-save-path, in at most BYTES; a slot
            takes about FIXED bytes, and TOKEN bytes for each token
  restore-slots URL FOLDER --options DIGEST --files JSON --timeout SECONDS [--credential FILE]
            restore the prompts that a server with the same options and the same files saved, and remove all others
  port ADDRESS:PORT --reuse address|port --timeout SECONDS
            wait until a server that sets SO_REUSEADDR or SO_REUSEPORT can take this port, although connections of
            another server have just ended there
  stage FILE FOLDER [--nodes LIST] [--policy bind|interleave] [--replace]
            copy a model to a hugetlbfs, with pages of these nodes; --replace removes an older copy first
            when there is not enough room for both
  place FILE --policy bind|interleave|local --nodes LIST
            drop a model from the page cache when it is cached on other nodes than these
  room BYTES --nodes LIST --files JSON
            drop page cache until these nodes have free pages for so many bytes in equal parts; pages of the files that
            are cached there already need none
  rows FILE --threads NUMBER --nodes LIST
            read a model so that each slice of rows lies on the node of the thread that will read it
  home PROCESS --cpus LIST
            move the threads of a server that do not compute to these CPUs
  watch URL --unit UNIT --timeout SECONDS [--key-file FILE]
            kill a server whenever it has not answered for SECONDS, until this command is stopped
  reach WORKERS --timeout SECONDS
            wait until all RPC workers of a list, as ADDRESS:PORT,ADDRESS:PORT, accept connections
"""


def run_hook_command(arguments: Sequence[str]) -> int:
    """Run one hook and return its exit code."""
    command = COMMANDS.get(arguments[0] if arguments else "")
    options = command and _parse_hook_arguments(arguments[1:], command[0], command[1], command[2])
    if not command or options is None:
        sys.stderr.write(USAGE)
        return 1
    try:
        sys.stdout.write(f"{escape_lines(command[3](options))}\n")
    except TuningError as error:
        sys.stderr.write(f"{escape_lines(str(error))}\n")
        return 1
    return 0


def _parse_hook_arguments(
    words: Sequence[str], names: Sequence[str], required: Sequence[str], optional: Sequence[str]
) -> Options | None:
    """Return arguments and options by name; None for a usage error. All options but --replace take a value."""
    options: Options = {}
    remaining = list(words)
    positional_names = list(names)
    while remaining:
        word = remaining.pop(0)
        if word in options or (word.startswith("--") and word not in (*required, *optional)):
            return None
        if word == REPLACE:
            options[word] = "yes"
        elif word.startswith("--"):
            if not remaining:
                return None
            options[word] = remaining.pop(0)
        elif positional_names:
            options[positional_names.pop(0)] = word
        else:
            return None
    return options if not positional_names and all(name in options for name in required) else None


def _wait_for_server(options: Options) -> str:
    from . import server_http

    return server_http.wait_for_health(
        options["url"],
        _parse_timeout(options),
        _read_server_process_id(),
        key=_read_api_key(options),
        models=options[MODELS].split(",") if MODELS in options else [],
        row=_find_engine_row(options),
        model_bytes=parse_whole_number(options.get(BYTES, "0")) or 0,
        report=_print_line,
    )


def _require_first_answer(options: Options) -> str:
    from . import first_answer

    task, timeout = options[TASK], _parse_timeout(options)
    models = options[MODELS].split(",") if MODELS in options else [options.get(ALIAS)]
    if task not in first_answer.JUDGES:
        raise BadRequest(f"{TASK}: '{task}' is unknown; use {', '.join(first_answer.JUDGES)}.")
    if "INVOCATION_ID" in os.environ and _read_server_process_id() is None:
        # systemd names no main process of a server that has ended, and the command before has said that it ended.
        raise SystemExit(1)
    return first_answer.require_first_answer(
        options["url"], timeout, _read_api_key(options), task, models, _find_engine_row(options)
    )


def _wait_until_idle(options: Options) -> str:
    from . import server_http

    models = options[MODELS].split(",") if MODELS in options else [None]
    return server_http.wait_until_idle(
        options["url"], _parse_timeout(options), _read_api_key(options), models=models, row=_find_engine_row(options)
    )


def _save_slots(options: Options) -> str:
    from . import slot_files

    limit, sizes = parse_whole_number(options[LIMIT]), [parse_whole_number(n) for n in options[SLOT_BYTES].split(",")]
    if limit is None or len(sizes) != 2 or None in sizes:
        raise BadRequest(f"{LIMIT} or {SLOT_BYTES}: '{options[LIMIT]}' and '{options[SLOT_BYTES]}' are no bytes.")
    server = slot_files.Server(options["url"], _read_api_key(options), _parse_timeout(options))
    try:
        slot_bytes = (sizes[0] or 0, sizes[1] or 0)
        process = _read_server_process_id()
        return slot_files.save_slots(server, options["folder"], limit, slot_bytes, process, _print_line)
    except OSError as error:
        raise TuningError(f"{options['folder']}: the prompts cannot be saved: {error.strerror}.") from None


def _restore_slots(options: Options) -> str:
    from . import slot_files

    files = _parse_files(options)
    server = slot_files.Server(options["url"], _read_api_key(options), _parse_timeout(options))
    fs, process = KernelFS(read_only=True), _read_server_process_id()
    try:
        return slot_files.restore_slots(fs, server, options["folder"], options[DIGEST], files, process, _print_line)
    except OSError as error:
        raise TuningError(f"{options['folder']}: the prompts cannot be restored: {error.strerror}.") from None


def _find_engine_row(options: Options) -> EngineRow:
    key = options.get(ENGINE, LLAMA.key)
    if key not in ENGINES:
        raise BadRequest(f"{ENGINE}: '{key}' is unknown; use {', '.join(ENGINES)}.")
    return ENGINES[key]


def _read_api_key(options: Options) -> str | None:
    """Return an API key from the key file, or from the credential that the server sees; None where there is none."""
    from . import keys

    process = _read_server_process_id()
    if CREDENTIAL in options and process:
        # A server that was started before the option api_key_file was set has no key.
        return keys.read_api_key_loaded_by(options[CREDENTIAL], [process])
    return keys.read_api_keys(options[KEY_FILE])[0] if KEY_FILE in options else None


def _read_server_process_id() -> int | None:
    """Return the process ID of the server, which systemd gives to each command of a unit as MAINPID."""
    process = os.environ.get("MAINPID", "")
    return int(process) if process.isdecimal() else None


def _wait_for_free_port(options: Options) -> str:
    from . import port

    return port.wait_for_free_port(options["endpoint"], options[REUSE], _parse_timeout(options), _print_line)


def _stage_model(options: Options) -> str:
    from . import stage

    fs = KernelFS(read_only=True)
    kind = options.get(POLICY) or ("bind" if NODES in options else None)
    if kind not in (None, "bind", "interleave"):
        raise BadRequest(f"{POLICY}: a copy cannot be staged with '{kind}'; use bind or interleave.")
    nodes = parse_nodes(fs, options.get(NODES, "all"), NODES) if kind else ()
    return stage.stage_model(fs, options["file"], options["folder"], (kind, nodes), REPLACE in options)


def _evict_misplaced_model_files(options: Options) -> str:
    from ..._notation.gguf_parts import list_gguf_parts
    from . import cache

    if options[POLICY] not in cache.POLICIES:
        raise BadRequest(f"{POLICY}: '{options[POLICY]}' is unknown; use {', '.join(cache.POLICIES)}.")
    nodes = parse_nodes(KernelFS(read_only=True), options[NODES], NODES)
    return "\n".join(
        cache.evict_misplaced_file(part, options[POLICY], nodes) for part in list_gguf_parts(options["file"])
    )


def _make_room_on_nodes(options: Options) -> str:
    from ..._notation.gguf_parts import list_gguf_parts
    from . import cache

    size, fs = parse_whole_number(options["bytes"]), KernelFS(read_only=False)
    if size is None:
        raise BadRequest(f"'{options['bytes']}' is no number of bytes.")
    nodes = parse_nodes(fs, options[NODES], NODES)
    files = [part for path in _parse_files(options) for part in list_gguf_parts(path)]
    return "\n".join(cache.make_room_on_nodes(fs, size, nodes, files))


def _parse_files(options: Options) -> list[str]:
    """Return the paths of the option --files; BadRequest where it is no list in JSON."""
    import json

    try:
        return [str(path) for path in json.loads(options[FILES])]
    except (ValueError, TypeError):
        raise BadRequest(f"{FILES}: '{options[FILES]}' is no list of files in JSON.") from None


def _read_rows_onto_nodes(options: Options) -> str:
    from . import rows

    fs = KernelFS(read_only=True)
    nodes, threads = parse_nodes(fs, options[NODES], NODES), parse_whole_number(options[THREADS])
    if not threads:
        raise BadRequest(f"{THREADS}: '{options[THREADS]}' is not a number of threads.")
    if list(nodes) != list(range(len(nodes))):
        raise BadRequest(f"{NODES}: '{options[NODES]}' does not begin at 0 or has holes, as llama-server counts them.")
    return rows.read_rows_onto_nodes(fs, options["file"], threads, len(nodes), _print_line)


def _print_line(text: str) -> None:
    """Print a line without delay, so that the journal shows the progress."""
    sys.stdout.write(f"{escape_lines(text)}\n")
    sys.stdout.flush()


def _move_http_threads(options: Options) -> str:
    from ..._notation.cpulist import format_cpulist, parse_cpulist
    from . import http_threads

    process, cpus = parse_whole_number(options["process"]), parse_cpulist(options[CPUS])
    if process is None:
        raise BadRequest(f"'{options['process']}' is not a process ID.")
    count = http_threads.move_threads_without_own_cpu(KernelFS(read_only=True), process, cpus)
    return f"{count} threads of process {process} now run only on CPUs {format_cpulist(cpus)}."


def _watch_server(options: Options) -> str:
    from . import watchdog

    limit, fs = _parse_timeout(options), KernelFS(read_only=True)
    if not limit:
        raise BadRequest(f"{TIMEOUT}: 0 seconds would be over at once.")
    return watchdog.watch_and_kill_silent_server(
        fs, options["url"], options[UNIT], limit, options.get(KEY_FILE), _print_line
    )


def _wait_for_workers(options: Options) -> str:
    from . import rpc_workers

    return rpc_workers.wait_for_workers(options["workers"], _parse_timeout(options))


def _parse_timeout(options: Options) -> float:
    seconds = parse_decimal(options[TIMEOUT])
    if seconds is None or seconds < 0:
        raise BadRequest(f"{TIMEOUT}: '{options[TIMEOUT]}' is not a number of seconds.")
    return seconds


TIMEOUT, KEY_FILE, NODES, POLICY, REPLACE = "--timeout", "--key-file", "--nodes", "--policy", "--replace"
CPUS, CREDENTIAL, THREADS = "--cpus", "--credential", "--threads"
UNIT, MODELS, ENGINE, ALIAS, TASK = "--unit", "--models", "--engine", "--alias", "--task"
LIMIT, SLOT_BYTES, DIGEST, FILES = "--limit", "--slot-bytes", "--options", "--files"
BYTES, REUSE = "--bytes", "--reuse"
#: The hooks by name: positional arguments, required options, other options, and the function.
COMMANDS: dict[str, tuple[Sequence[str], Sequence[str], Sequence[str], Callable[[Options], str]]] = {
    "await": (("url",), (TIMEOUT,), (MODELS, CREDENTIAL, ENGINE, BYTES), _wait_for_server),
    "answer": (("url",), (TASK, TIMEOUT), (MODELS, CREDENTIAL, ENGINE, ALIAS), _require_first_answer),
    "drain": (("url",), (TIMEOUT,), (MODELS, KEY_FILE, CREDENTIAL, ENGINE), _wait_until_idle),
    "save-slots": (("url", "folder"), (LIMIT, SLOT_BYTES, TIMEOUT), (CREDENTIAL,), _save_slots),
    "restore-slots": (("url", "folder"), (DIGEST, FILES, TIMEOUT), (CREDENTIAL,), _restore_slots),
    "port": (("endpoint",), (REUSE, TIMEOUT), (), _wait_for_free_port),
    "stage": (("file", "folder"), (), (NODES, POLICY, REPLACE), _stage_model),
    "place": (("file",), (POLICY, NODES), (), _evict_misplaced_model_files),
    "room": (("bytes",), (NODES, FILES), (), _make_room_on_nodes),
    "rows": (("file",), (THREADS, NODES), (), _read_rows_onto_nodes),
    "home": (("process",), (CPUS,), (), _move_http_threads),
    "watch": (("url",), (UNIT, TIMEOUT), (KEY_FILE,), _watch_server),
    "reach": (("workers",), (TIMEOUT,), (), _wait_for_workers),
}
