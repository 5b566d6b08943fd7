# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Any node of any resource of a BMC is something else: a run ends well or in one sentence, and never otherwise.

No session is left, and neither the password nor a token is in what is said.
"""

from __future__ import annotations

import copy
import json
import random
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.sovereign.epyc.plugins.module_utils._errors import TuningError
from ansible_collections.sovereign.epyc.plugins.module_utils._redfish.bios_info import read_result_of_bios_info_module
from ansible_collections.sovereign.epyc.plugins.module_utils._redfish.converge import BiosRequest, apply_bios_request
from ansible_collections.sovereign.epyc.plugins.module_utils._redfish.originals import Originals
from ansible_collections.sovereign.epyc.plugins.module_utils._redfish.probe import probe_bmc
from ansible_collections.sovereign.epyc.plugins.module_utils._redfish.server_reset import reset_server
from vepyc.bmc import Faults
from vepyc.bmc.personality import PERSONALITIES, READ_ONLY_PERSONALITIES, load_personality

from .direct import PASSWORD, DirectBmc

WISH = {"nps": "4", "smt": "off", "determinism": "power", "c_states": "off"}
DEEP: Any = []
for _ in range(90):
    DEEP = [DEEP]
VALUES: list[Any] = [
    None,
    [],
    {},
    7,
    -1.5,
    True,
    False,
    "",
    "text",
    "/x",
    "https://[::1",
    [None, 7, "x", {}],
    {"a": None},
]
VALUES += [
    DEEP,
    "\ud800 \x00 \u202e",
    "https://elsewhere.example.com/redfish/v1/x",
    {"@odata.id": 7},
    f"said {PASSWORD}",
]
Mutation = tuple[str, str, tuple[Any, ...], Any]


def list_nodes(value: Any, place: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield the places of all nodes of a document, each as the keys that lead there."""
    yield place
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, entry in items:
        yield from list_nodes(entry, (*place, key))


def set_node(document: Any, place: tuple[Any, ...], value: Any) -> Any:
    """Return a document in which a node is another one; the whole is only replaced by an object."""
    if not place:
        return value if isinstance(value, dict) else {}
    changed = copy.deepcopy(document)
    node = changed
    for key in place[:-1]:
        if not isinstance(node, (dict, list)) or (isinstance(node, list) and key >= len(node)):
            return changed
        node = node.get(key) if isinstance(node, dict) else node[key]
    if isinstance(node, dict) or (isinstance(node, list) and place[-1] < len(node)):
        node[place[-1]] = value
    return changed


def list_places(vendor: str) -> list[tuple[str, tuple[Any, ...]]]:
    """Return every node of every resource that runs of all kinds read from a BMC."""
    seen: dict[str, Any] = {}

    def remember(path: str, document: Any) -> Any:
        seen[path] = copy.deepcopy(document)
        return document

    bmc = DirectBmc(vendor, Faults(rewrite=remember, task_polls=2 if vendor == "lenovo" else 0))
    for action in ACTIONS:
        try_action(bmc, action, Path("/nowhere"), check=action is not reset)
    places = [(path, place) for path, document in seen.items() for place in list_nodes(document)]
    # A registry has thousands of nodes that are all alike, so some entries of it are enough.
    return [(path, place) for path, place in places if not any(isinstance(key, int) and key > 8 for key in place)]


def converge(bmc: DirectBmc, originals: Path, check: bool) -> Any:
    with bmc.client(patience=4) as client:
        return apply_bios_request(client, BiosRequest(WISH, {}), Originals(str(originals), check), check)


def clear(bmc: DirectBmc, originals: Path, check: bool) -> Any:
    with bmc.client(patience=4) as client:
        return apply_bios_request(
            client, BiosRequest({"nps": "2"}, {}, foreign="clear"), Originals(str(originals), check), check
        )


def info(bmc: DirectBmc, dummy_originals: Path, dummy_check: bool) -> Any:
    with bmc.client(patience=4) as client:
        return read_result_of_bios_info_module(client, None, ["all"])


def reset(bmc: DirectBmc, dummy_originals: Path, check: bool) -> Any:
    with bmc.client(patience=4) as client:
        return reset_server(client, None, "cold", check=check, sleep=bmc.slept.append)


def probe(bmc: DirectBmc, dummy_originals: Path, dummy_check: bool) -> Any:
    with bmc.client(patience=4) as client:
        return probe_bmc(client, None)


ACTIONS = (converge, clear, info, reset, probe)


def try_action(bmc: DirectBmc, action: Any, originals: Path, check: bool = False) -> str:
    """Run an action and return all that it says, whether it ends well or in a sentence."""
    try:
        return repr(action(bmc, originals, check))
    except TuningError as error:
        assert re.fullmatch(r"\S.*[.!)]", str(error), re.DOTALL), f"no sentence: {error}"
        return f"{error} {error.details}"


def run_mutation(mutation: Mutation, action: Any, folder: Path) -> None:
    vendor, path, place, value = mutation
    faults = Faults(
        rewrite=lambda seen, document: set_node(document, place, value) if seen == path else document,
        task_polls=2 if vendor == "lenovo" else 0,
        foreign_pending=load_personality(vendor).machine_state_to_settings({"iommu": False}) if action is clear else {},
    )
    bmc = DirectBmc(vendor, faults)
    originals = folder / "originals.json"
    originals.unlink(missing_ok=True)
    said = try_action(bmc, action, originals)
    # A second run meets what the first one has left.
    said += try_action(bmc, action, originals)
    assert bmc.accounts.sessions == {}
    if f"said {PASSWORD}" != value:
        assert json.dumps(PASSWORD)[1:-1] not in said and PASSWORD not in said


def run_mutations(vendor: str, number: int, folder: Path, seed: int) -> None:
    places = list_places(vendor)
    assert len(places) > 150, "a BMC has more than this"
    chance = random.Random(f"{vendor} {seed}")
    for dummy in range(number):
        path, place = chance.choice(places)
        mutation, action = (vendor, path, place, chance.choice(VALUES)), chance.choice(ACTIONS)
        try:
            run_mutation(mutation, action, folder)
        except BaseException:
            print(f"{action.__name__} with {mutation}")
            raise


MACHINES = (*PERSONALITIES, *READ_ONLY_PERSONALITIES)


@pytest.mark.parametrize("vendor", MACHINES)
def test_some_changed_nodes_end_in_one_sentence(vendor: str, tmp_path: Path) -> None:
    run_mutations(vendor, 20, tmp_path, 1)


@pytest.mark.slow
@pytest.mark.parametrize("vendor", MACHINES)
def test_five_thousand_changed_nodes_end_in_one_sentence(vendor: str, tmp_path: Path) -> None:
    run_mutations(vendor, 5000 // len(MACHINES) + 1, tmp_path, 2)
