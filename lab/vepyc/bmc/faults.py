# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Faults of real BMCs, each as a switch that is off by default; every fault was reported of a real BMC."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass
class Faults:
    """The faults of a BMC. A test may switch them while the server runs, which reads them at every request and boot."""

    #: Attributes that are accepted and shown as pending, and that the boot drops silently.
    accept_and_drop: tuple[str, ...] = ()
    #: Attributes that are accepted and never shown as pending.
    accept_and_drop_at_once: tuple[str, ...] = ()
    #: Attributes that the boot refuses: the messages say `Success` first, and name these after it.
    refused_at_boot: tuple[str, ...] = ()
    #: Pending values that another client has left.
    foreign_pending: Mapping[str, object] = field(default_factory=dict)
    #: A job of another client is scheduled, with the foreign pending values. Only for a personality that has jobs.
    foreign_job: bool = False
    #: Pending values are applied by the second boot, not by the first.
    two_boots: bool = False
    #: Pending values are applied only by a cold boot, after the machine had no power.
    cold_only: bool = False
    #: Dependencies look at active values only, so a child waits for the boot that makes its parent active.
    parent_must_be_active: bool = False
    #: How many of the next PATCHes with If-Match find that the ETag has changed since it was read.
    etag_races: int = 0
    #: The pending object does not exist while nothing is pending.
    pending_404: bool = False
    #: The pending object has to be made by a POST before it takes a PATCH.
    post_first: bool = False
    #: A PATCH of settings is refused, because the machine has no licence for it.
    no_licence: bool = False
    #: Other clients hold all sessions.
    sessions_exhausted: bool = False
    #: Seconds of 503 after every reset.
    busy_after_reset: float = 0
    #: So many of the next boots hang in the POST, until the machine is reset once more.
    hung_posts: int = 0
    #: The BMC shows the new values, and the machine keeps the old ones (Dell R7425).
    os_unchanged: bool = False
    #: `GET /Bios` shows values that are only pending, because they belong to a scheduled job.
    early_active: bool = False
    #: `/Bios` has no link to its pending object.
    no_settings_link: bool = False
    #: There is no attribute registry, as on a board that has not booted since its BMC was installed.
    no_registry: bool = False
    #: Attributes have opaque names such as CPU005; only their display names tell what they are.
    opaque_names: bool = False
    #: Every GET is redirected to this address, as by a proxy or a hijacked name.
    redirect_to: str = ""
    #: Connections are accepted, and no request is answered.
    silent: bool = False
    #: A PATCH of settings is answered by 202, and done after so many questions about it.
    task_polls: int = 0
    #: Where the answer names its task: `location` (a monitor), `task` (the task itself), `body`, or `nowhere`.
    task_named_in: str = "location"
    #: Each task ends in an exception with this reason.
    task_fails: str = ""
    #: A PATCH of settings is answered by 200, with this reason why none of them was taken.
    refused_in_success: str = ""
    #: The job that applies settings at a boot fails with this reason. Only for a personality that has jobs.
    job_fails: str = ""
    #: A value that was made pending stays so: a later PATCH of it is answered by success and ignored.
    pending_stays: bool = False
    #: The scheme and authority that the BMC puts before each of its paths, as `https://172.17.21.120`.
    calls_itself: str = ""
    #: Where the answer to a login names its session: `location`, `body`, `id` (of the body) or `nowhere`.
    session_named_in: str = "location"
    #: The status with which the end of a session is refused; 0 if it is not.
    session_end_status: int = 0
    #: The status with which every login is refused, because the BMC has no sessions; 0 if it has.
    no_session_service: int = 0
    #: A login is redirected to the same path with a slash at its end.
    login_wants_slash: bool = False
    #: Further systems of the BMC, by the last part of their paths: what is other than at the server, or its `status`.
    more_systems: Mapping[str, Mapping[str, object]] = field(default_factory=dict)
    #: What the server has other than it would have, such as its `Id`.
    system_shows: Mapping[str, object] = field(default_factory=dict)
    #: How many of the next GETs of a resource, by the end of its path, are answered by 200 and `garbled_body`.
    garbled: dict[str, int] = field(default_factory=dict)
    #: What a garbled answer is: a page by default, or `cut` for the half of the right answer.
    garbled_body: bytes = b"<html><body>The service is starting.</body></html>"
    #: How many of the next requests of a resource, by the end of its path, are answered by a status: 502, 504 or other.
    failing: dict[str, tuple[int, int]] = field(default_factory=dict)
    #: The apply times that the BMC offers in place of those of its vendor. Without OnReset it applies a PATCH at once,
    #: by a reset of the server.
    apply_times: tuple[str, ...] = ()
    #: Where the apply times are named: `bios` (its settings), `pending` (the pending object), or `operations`.
    apply_times_named_in: str = "bios"
    #: What becomes of If-Match, other than with its vendor: `refused` whatever it holds (iDRAC 10), `all refused` (a
    #: request without it too), `no tags` (none is
    #: given, and * is an error), `real` (one is required, and * is an error), `of bios` (the tag of the active settings
    #: is meant), `unquoted`, `weak` (tags are weak, and taken as they were given) or `strong` (taken without W/).
    if_match: str = ""
    #: Where values that are numbers are shown as numbers, and not as text: `registry`, `active`, `pending`. In the type
    #: of the registry they have to be sent.
    numbers_in: tuple[str, ...] = ()
    #: Where the names of values have a blank at their end, and where they are in capital letters.
    blanks_in: tuple[str, ...] = ()
    capitals_in: tuple[str, ...] = ()
    #: Attributes that only the pending object shows.
    only_in_pending: Mapping[str, object] = field(default_factory=dict)
    #: How many members a page of a collection has, where the rest is behind a link to the next page; 0 for all.
    page_size: int = 0
    #: How many bytes of each answer are sent in a second, from its first byte on; 0 for no limit.
    bytes_per_second: float = 0
    #: A request with a query is answered by this status.
    query_status: int = 501
    #: How the file of the registry names its place: `uri`, `extref` (an object), or `odd name` (in the collection).
    registry_named_by: str = "uri"
    #: How each refusal repeats the request, with its password and its token: `json`, `url`, `text`; "" for not at all.
    repeats_request_as: str = ""
    #: Changes each good answer to a GET before it is sent: gets its path and its document, and returns another one.
    rewrite: Callable[[str, Any], Any] | None = None
