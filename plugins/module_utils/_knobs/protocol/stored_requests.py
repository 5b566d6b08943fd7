# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The stored requests, which the boot service applies at every boot.

A request is stored as the user wrote it, in roles and amounts, and each boot plans it anew, because ids of CPUs and
domains may change. A later request of the same knob with the same label replaces it.
"""

from __future__ import annotations

from ..._errors import Damaged, TuningError
from ..._io.store import REQUESTS
from ..._notation.shape import ANY
from .knob import Knob

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from typing import Any

    from ..._io.store import Store
    from .knob import Change, Settings

SHAPE = {"intent": dict, "requests": {ANY: dict}}
INTENT = "desired:intent"
#: The way out of a damaged file on a host that is to stay tuned.
STORE_ANEW = "Move it away, and run site.yml, which stores the requests anew."


def load_stored_requests(
    store: Store, repair_hint: str = STORE_ANEW
) -> tuple[dict[str, Any], dict[str, dict[str, Any]]]:
    """Return the stored intent, and the stored options by "KNOB/LABEL".

    Raises TuningError if the file is damaged; ``repair_hint`` is the sentence that says what to do about that.
    """
    try:
        data = store.load_document(REQUESTS, SHAPE)
    except Damaged as error:
        raise TuningError(
            f"{error} The file holds what the boot service applies. Nothing was changed. {repair_hint}"
        ) from None
    return data.get("intent", {}), data.get("requests", {})


class StoredRequests(Knob):
    """The stored requests as a knob, so that storing has check mode, diff mode and rollback as a setting has."""

    prefix = "desired"
    has_originals = False

    def __init__(self, store: Store, wanted: dict[str, Any]) -> None:
        """``wanted`` maps "intent" or "KNOB/LABEL" to plain data to store, or to None to remove it."""
        self.store = store
        self._wanted = {f"desired:{name}": _format_json(value) for name, value in wanted.items()}

    def wanted_settings(self) -> Settings:
        return dict(self._wanted)

    def read_settings(self, addresses: Iterable[str]) -> Settings:
        intent, requests = load_stored_requests(self.store)
        stored = {f"desired:{name}": _format_json(options) for name, options in requests.items()}
        stored[INTENT] = _format_json(intent or None)
        return {address: stored.get(address) for address in addresses}

    def require_writable_record(self) -> None:
        """Raise TuningError if the requests could not be stored after their settings are made."""
        if self.read_settings(self._wanted) != self._wanted:
            self.store.require_writable()

    def write_changes(self, changes: Sequence[Change]) -> None:
        """Write all changed requests at once."""
        import json

        intent, requests = load_stored_requests(self.store)
        for change in changes:
            value = None if change.after is None else json.loads(change.after)
            if change.address == INTENT:
                intent = value or {}
            elif value is None:
                requests.pop(change.address[len("desired:") :], None)
            else:
                requests[change.address[len("desired:") :]] = value
        if intent or requests:
            self.store.save_document(REQUESTS, {"intent": intent, "requests": requests})
        else:
            self.store.remove_file(REQUESTS)


def _format_json(value: object) -> str | None:
    # Imported here because the import of json takes longer than that of most of the library.
    import json

    return None if value is None else json.dumps(value, sort_keys=True)
