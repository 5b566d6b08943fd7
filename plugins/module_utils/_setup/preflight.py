# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Finds all refusals that a run of site.yml would meet on this host, before the first change of the run.

Each layer is checked by its own code, in check mode. Files that the run itself will make, such as a model to fetch, are
pending: the layers that need these files check them later.
"""

from __future__ import annotations

import os

from .._errors import TuningError
from .._io.checksum import ALGORITHM, compute_sha256
from .._knobs.boot import knob as boot
from .._knobs.msr import knob as msr
from .._knobs.protocol import stored_requests
from .._knobs.protocol.converge import converge_knobs
from .._models.model_file import has_stored_requested_digests
from .._serving.llama_cpp.engine import LlamaEngine
from .._serving.unit import instances
from .._serving.unit.pending import Pending
from . import llama_sources, prerequisites

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Any

    from .._host.host import Host
    from .._io.store import Store
    from .._knobs.protocol.knob import Knob
    from .._knobs.protocol.ledger import Ledger

SYSTEMD_FOLDER = "/run/systemd/system"
CONTAINER_FILE = "/run/systemd/container"
#: Layers that work without systemd, because they use a BMC or only read the kernel.
WITHOUT_SYSTEMD = ("bios", "bios_check")
#: Layers that change kernel settings, which a container shares with its host.
OF_THE_KERNEL = ("prerequisites", "numa", "grub_params", "irq", "cat", "cpufreq", "cpuidle", "prefetch")
#: The binary of instances without a binary, while no server is built.
NOT_BUILT = "/the/server/that/will/be/built"
NUMA_POOLS = "hugepages/hugepages"


class Preflight:
    """The checks of a host for a run: the layers of the run, and its options for each of them.

    ``params`` are the options of the module epyc_preflight. Without an intent, the plan was refused, and checks that
    need the plan are left out.
    """

    def __init__(self, params: Mapping[str, Any], host: Host, ledger: Ledger) -> None:
        self.params = params
        self.layers: Sequence[str] = params["layers"]
        self.host = host
        self.ledger = ledger
        self.refusals: list[str] = []
        #: What the changes of running instances cost those who are served.
        self.remarks: list[str] = []
        self._booted = True

    def find_refusals_of_layers(self) -> list[str]:
        """Return the messages of all layers of this run that are refused."""
        in_container = self._refuse_container()
        self._booted = self._refuse_without_systemd()
        checks: dict[str, Callable[[], None]] = {"prerequisites": self._check_distribution_and_kernel}
        if not in_container and self.params["intent"] is not None:
            checks.update(
                grub_params=self._check_boot_parameters,
                cat=self._check_cache_allocation,
                prefetch=self._check_read_only_prefetchers,
            )
        if self.params["instances"] is not None:
            checks["llama"] = self._check_instances
        for layer, check in checks.items():
            if layer in self.layers:
                self._run_check_and_collect_refusals(check)
        return list(dict.fromkeys(self.refusals))

    def _refuse_container(self) -> bool:
        """Add a refusal if this host is a container and layers change kernel settings; return whether it was added."""
        layers = [layer for layer in OF_THE_KERNEL if layer in self.layers]
        kind = self.host.fs.read_if_present(CONTAINER_FILE)
        if not layers or kind is None:
            return False
        self.refusals.append(
            f"This host is a container ({kind.strip() or 'of an unknown kind'}), and kernel settings belong to its "
            f"host: leave {', '.join(layers)} out of epyc_steps."
        )
        return True

    def _refuse_without_systemd(self) -> bool:
        """Add a refusal if layers need systemd and it does not run; return True if no refusal was added."""
        layers = [layer for layer in self.layers if layer not in WITHOUT_SYSTEMD]
        if layers and not self.host.fs.is_dir(SYSTEMD_FOLDER):
            self.refusals.append(
                f"This host was not booted with systemd, which these layers need: {', '.join(layers)}. Boot it with "
                "systemd as PID 1."
            )
            return False
        return True

    def _run_check_and_collect_refusals(self, check: Callable[[], None]) -> None:
        try:
            check()
        except TuningError as error:
            several = error.details.get("refusals")
            self.refusals += several if isinstance(several, list) else [str(error)]

    def _check_distribution_and_kernel(self) -> None:
        options = self.params["system"]
        if options and not options["allow_unsupported"]:
            system = prerequisites.read_distribution_and_kernel(self.host.fs)
            prerequisites.validate_distribution_and_kernel(system, options["distributions"], options["kernel"])

    def _check_boot_parameters(self) -> None:
        options = self.params["boot_parameters"]
        if options and (options["parameters"] or options["absent"]):
            self._predict_knobs(boot.build_knobs(self.host, options))

    def _check_cache_allocation(self) -> None:
        if "cat" in self.host.plan.cannot:
            self.refusals.append(self.host.plan.cannot["cat"])

    def _check_read_only_prefetchers(self) -> None:
        """Check the prefetchers on a host with read-only registers, where requested bits may still be set already."""
        if not self.params["prefetch"] or "prefetch" not in self.host.plan.cannot:
            return
        try:
            self._predict_knobs(msr.build_knobs(self.host, {"settings": self.params["prefetch"], "load_module": True}))
        except TuningError as error:
            self.refusals.append(
                f"{error} To tune the rest of this host without its prefetchers, set epyc_prefetch_draft and "
                "epyc_prefetch_verify to {}."
            )

    def _predict_knobs(self, knobs: Sequence[Knob]) -> None:
        converge_knobs(knobs, self.ledger, check=True)

    def _check_instances(self) -> None:
        params = self.params
        binary = params["binary"] or NOT_BUILT
        self._check_model_files_without_url()
        self._run_check_and_collect_refusals(self._check_llama_sources)
        if "base" not in self.layers and params["instances"]:
            self._run_check_and_collect_refusals(lambda: instances.require_host_tool(self.host.fs.root))
        self._check_server_checksum(binary)
        options = [{**item, "binary": item.get("binary") or binary} for item in params["instances"]]
        servers = [binary] if params["installs"] else []
        pending = Pending(
            self._list_models_to_fetch_or_make(), servers, self._may_change_cpus_or_memory(), not self._booted
        )
        purge = instances.Purge(params["purge"])
        knobs = instances.build_knobs(LlamaEngine(), self.host, options, purge, self.host.fs.root, pending)
        self.remarks += [restart["message"] for knob in knobs for restart in knob.module_facts().get("restarts", ())]

    def _check_model_files_without_url(self) -> None:
        for path in self.params["present"]:
            if not os.path.isfile(path):
                self.refusals.append(
                    f"epyc_llama_models: there is no file {path} on the host. Give its url, or copy it there first."
                )

    def _check_llama_sources(self) -> None:
        if self.params["sources"]:
            self.refusals += llama_sources.find_unavailable_llama_sources(
                self.params["sources"], self.host.fs, self.ledger.store
            )

    def _check_server_checksum(self, binary: str) -> None:
        """Compare a server that is already on the host with its requested checksum."""
        checksum = self.params["binary_checksum"]
        if checksum and os.path.isfile(binary):
            found = f"{ALGORITHM}{compute_sha256(binary)}"
            if found != checksum:
                self.refusals.append(
                    f"{binary} is {found}, and epyc_llama_checksum says {checksum}. Install that file, or correct "
                    "epyc_llama_checksum."
                )

    def _list_models_to_fetch_or_make(self) -> list[str]:
        """Return the paths of models that this run may still fetch or make."""
        store: Store = self.ledger.store
        fetched = [model["path"] for model in self.params["fetched"] if not has_stored_requested_digests(store, model)]
        return [*fetched, *self.params["made"]]

    def _may_change_cpus_or_memory(self) -> bool:
        """Return whether this run may change CPUs or free memory before it starts the instances."""
        if self.params["intent"] is None:
            return True
        if "numa" not in self.layers:
            return False
        smt = self.params["smt"]
        pools = self.params["pools"] or NUMA_POOLS in stored_requests.load_stored_requests(self.ledger.store)[1]
        return bool(pools or (smt and smt != self.host.topology.smt))
