# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The restart of a running instance: for how long nobody will be served, and for how long nobody was.

The best predictor of a start is the last start of the same unit, until its server began to serve. The part of it that
the disk took is known, because the kernel counts what a process reads from disks; the rest of it is about proportional
to the size of the model.
Source: org.freedesktop.systemd1(5); proc_pid_io(5).
"""

from __future__ import annotations

import datetime
import re
import time
from contextlib import contextmanager, suppress

from ..._errors import TuningError
from ..._io import command, textfile
from ..._kernel import page_cache
from ..._kernel.hugepages import SMALL
from ..hooks import server_http
from ..hooks.read_progress import count_model_bytes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from threading import Event
    from typing import Any

START_FIRST, STOP_FIRST = "start_first", "stop_first"
#: The times of a start, and in the line of a hook the time at which the hook ended.
TIMES = ("InactiveExitTimestamp", "ActiveEnterTimestamp")
HOOK_END = re.compile(r" llama await .* stop_time=\[(.+?)\]")
#: How many pages of a file are looked up in the page cache.
SAMPLE_PAGES = 512
#: Outages below so many seconds are announced with tenths of a second.
TENTHS_BELOW = 10
#: The seconds between two health checks while an outage is measured.
PAUSE_SECONDS = 0.1


class Restart:
    """One restart of a running instance: its order, and the seconds without service, announced and measured.

    ``url`` is where the instance is asked before and after; "" where that differs, and no outage can be measured.
    ``reason`` says why nobody can be spared the outage, or "". ``stop_seconds`` are the most that the old server gets
    to end its requests after it has closed its port; an idle server takes none.
    """

    __slots__ = ("announced_seconds", "is_done", "order", "outage_seconds", "reason", "stop_seconds", "unit", "url")

    def __init__(
        self, unit: str, order: str, announced_seconds: float, reason: str, url: str, stop_seconds: int
    ) -> None:
        self.unit = unit
        self.order = order
        self.announced_seconds = announced_seconds
        self.reason = reason
        self.url = url
        self.stop_seconds = stop_seconds
        self.is_done = False
        #: None before the restart, and where it is not measured.
        self.outage_seconds: float | None = None

    def format_message(self) -> str:
        """Return a sentence for the operator: what the restart would cost, or what it did cost."""
        seconds, outage = self.announced_seconds, self.outage_seconds
        more = f"up to {self.stop_seconds} s"
        announced = f"about {seconds:.0f} s" if seconds >= TENTHS_BELOW else f"about {seconds:.1f} s"
        if not self.is_done:
            cost = f"nobody is served for {announced}, and {more} more while its last requests end"
            cost = cost if seconds else "nobody notices: the new server is started first"
            text = f"{self.unit} needs a restart; {cost}"
        elif outage is None:
            text = f"{self.unit} was restarted; nobody was served for {announced}"
        elif seconds or outage:
            forecast = f"{announced} were announced, and {more} more" if seconds else "nothing was announced"
            text = f"{self.unit} was restarted; nobody was served for {outage:.1f} s ({forecast})"
        else:
            text = f"{self.unit} was restarted; nobody noticed: the new server was started first"
        return f"{text}. {self.reason}".rstrip()

    def to_dict(self) -> dict[str, Any]:
        return {
            "unit": self.unit,
            "order": self.order,
            "announced_seconds": self.announced_seconds,
            "outage_seconds": self.outage_seconds,
            "message": self.format_message(),
        }

    @contextmanager
    def measure_outage(self) -> Iterator[None]:
        """Check the health of the server all the time during the block, and note for how long nobody was served."""
        # Imported here because most runs restart nothing.
        import threading

        ended, outages = threading.Event(), [0.0]
        watcher = threading.Thread(target=_check_health_until, args=(self.url, ended, outages), daemon=True)
        if self.url:
            watcher.start()
        try:
            yield
        finally:
            self.is_done = True
            ended.set()
            if self.url:
                watcher.join()
                self.outage_seconds = round(sum(outages), 1)


def _check_health_until(url: str, ended: Event, outages: list[float]) -> None:
    """Add the seconds of each time without service to ``outages`` until the event ``ended``."""
    failed_at: float | None = None
    while not ended.wait(PAUSE_SECONDS):
        now = time.monotonic()
        status, text = server_http.send_get_request(url, "/health", server_http.HEALTH_TIMEOUT)
        if status == 200 and failed_at is not None:
            outages.append(time.monotonic() - failed_at)
            failed_at = None
        elif failed_at is None and (status == 503 or text == server_http.CONNECTION_REFUSED):
            failed_at = now
    outages += [] if failed_at is None else [time.monotonic() - failed_at]


def estimate_start_seconds(
    unit: str, old_files: Mapping[str, list[int]], new_files: Mapping[str, list[int]], speed: float | None, cached: bool
) -> float:
    """Return how many seconds a start of ``unit`` with the new files will take, at least 0.1.

    Both maps have size and time of each file by its path. ``speed`` is the measured speed of the disk in bytes per
    second, and ``cached`` is True for files that will be in the page cache by then.
    """
    seconds, bytes_read = _read_last_start(unit)
    old_bytes, new_bytes = (count_model_bytes(files) for files in (old_files, new_files))
    if speed:
        seconds = max(seconds - min(bytes_read, old_bytes) / speed, 0.0)
    if old_bytes:
        seconds *= new_bytes / old_bytes
    if speed and not cached:
        seconds += sum(_count_uncached_bytes(path, row[0]) for path, row in new_files.items()) / speed
    return max(round(seconds, 1), 0.1)


def _read_last_start(unit: str) -> tuple[float, int]:
    """Return the seconds until a running unit began to serve, and the bytes that its process has read from disks."""
    properties = f"--property={','.join(TIMES)},ExecStartPost,MainPID"
    output = command.run_command(["systemctl", "show", "--timestamp=us+utc", properties, unit])
    values = dict(row.partition("=")[::2] for row in output.splitlines())
    begun, ended = (_parse_systemd_time(values.get(name, "")) for name in TIMES)
    serving = HOOK_END.search(output)
    ended = (_parse_systemd_time(serving[1]) if serving else 0.0) or ended
    rows = (textfile.read_text(f"/proc/{values.get('MainPID') or 0}/io") or "").splitlines()
    counts = dict(row.split(": ") for row in rows if ": " in row)
    return max(ended - begun, 0.0), int(counts.get("read_bytes", 0))


def _parse_systemd_time(text: str) -> float:
    """Return a time that systemd shows, such as "Mon 2026-11-30 11:03:40.465438 UTC", in seconds; 0 for none."""
    words = text.split()
    if len(words) != 4:
        return 0.0
    moment = datetime.datetime.strptime(f"{words[1]} {words[2]}", "%Y-%m-%d %H:%M:%S.%f")
    return moment.replace(tzinfo=datetime.timezone.utc).timestamp()


def _count_uncached_bytes(path: str, size: int) -> float:
    """Return an estimate of the bytes of a file that are not in the page cache; all of them where it is unknown."""
    pages = range(0, size // SMALL, max(size // SMALL // SAMPLE_PAGES, 1))
    with suppress(TuningError):
        return size * (1 - len(page_cache.read_nodes_of_cached_pages(path, pages)) / max(len(pages), 1))
    return size
