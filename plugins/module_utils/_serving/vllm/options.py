# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The options of an instance of vLLM, and their validation without a host."""

from __future__ import annotations

import re
from posixpath import basename

from ..._errors import BadRequest
from ..._notation.ip_addresses import LOOPBACK, parse_endpoint
from ..._notation.sizes import parse_bytes
from ..options.option_table import CLIENT_PATTERN, COMMON_FIELDS, Field, OptionTable

TYPE_CHECKING = False
#: Aliases are also written to the configuration of HAProxy, which splits lines at blanks and quotes.
ALIAS_PATTERN = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:/@+-]{0,127}\Z")
#: Folders that the hardening of units hides.
HOME_FOLDERS = ("/root/", "/home/", "/run/user/")
FIELDS = {
    **COMMON_FIELDS,
    "stop_timeout": Field("int", 30, low=1),
    "folder": Field("path"),
    "model": Field("path", required=True),
    "slots": Field("int", 32, low=1),
    "context": Field("int", low=1),
    "kv_cache": Field("str", "4GiB"),
    "dtype": Field("str", "auto", ("auto", "bfloat16", "float16", "float32")),
    "compile": Field("bool", False),
    # Options of an instance on several hosts.
    "workers": Field("list", ()),
    "group_port": Field("int", 29501, low=1, high=65535),
}
#: The options of the instance that set these arguments and variables. api_key_file also keeps the key out of the list
#: of processes.
OPTION_BY_ARGUMENT = {
    "--model": "model",
    "--host": "host",
    "--port": "port",
    "--served-model-name": "alias",
    "--max-num-seqs": "slots",
    "--max-model-len": "context",
    "--kv-cache-memory-bytes": "kv_cache",
    "--dtype": "dtype",
    "--enforce-eager": "compile",
    "--api-key": "api_key_file",
    "--shutdown-timeout": "drain_timeout",
    "--tensor-parallel-size": "cpus",
    "-tp": "cpus",
    "--nnodes": "workers",
    "--node-rank": "workers",
    "--master-addr": "workers",
    "--master-port": "group_port",
    "--headless": "workers",
    "--distributed-executor-backend": "workers",
    "VLLM_HOST_IP": "workers",
    "GLOO_SOCKET_IFNAME": "workers",
    "VLLM_CPU_OMP_THREADS_BIND": "cpus",
    "VLLM_CPU_KVCACHE_SPACE": "kv_cache",
    "VLLM_API_KEY": "api_key_file",
}
#: With several stages of a pipeline, vLLM on CPUs ends at the first request, although its health check succeeds before.
PIPELINE_ARGUMENTS = ("--pipeline-parallel-size", "-pp")


class VllmOptions(OptionTable):
    """The options of one instance of vLLM, with an attribute for each entry of ``FIELDS``."""

    __slots__ = tuple(FIELDS)

    fields = FIELDS
    engine_key = "vllm"

    if TYPE_CHECKING:
        model: str
        alias: str

    @property
    def binary(self) -> str:
        """The Python of the virtual environment with vLLM."""
        return f"{self.folder}/bin/python"

    @property
    def kv_cache_bytes(self) -> int:
        """The bytes of the KV cache of each process."""
        return parse_bytes(self.kv_cache, "kv_cache")

    def validate(self) -> None:
        """Raise BadRequest for options that exclude each other. The default alias is the name of the model's folder."""
        super().validate()
        self.model = self.model.rstrip("/")
        if self.model.startswith(HOME_FOLDERS):
            raise BadRequest(f"model is {self.model}, and services do not see homes: keep the model elsewhere.")
        self.alias = self.alias or basename(self.model)
        if not ALIAS_PATTERN.match(self.alias):
            raise BadRequest(f"alias is '{self.alias}': take letters, digits and ._:/@+- only.")
        parse_bytes(self.kv_cache, "kv_cache")
        _require_closed_group(self)
        for word in [*self.extra_arguments, *self.extra_environment]:
            key = word.partition("=")[0]
            if key in PIPELINE_ARGUMENTS:
                raise BadRequest(
                    f"{key} is refused, because vLLM on CPUs ends at the first request with stages of a pipeline. "
                    "Leave it out."
                )
            if key in OPTION_BY_ARGUMENT:
                raise BadRequest(f"{key} is set by the option {OPTION_BY_ARGUMENT[key]}: use that.")


def _require_closed_group(options: VllmOptions) -> None:
    """Raise BadRequest for a group that is open to other hosts: the data between its processes can run as code."""
    for address in options.workers:
        if parse_endpoint(address, "workers")[1] == options.group_port:
            raise BadRequest(f"workers and group_port are both {options.group_port}: take two ports.")
    if options.workers and not CLIENT_PATTERN.match(options.host):
        raise BadRequest(f"host is '{options.host}': with workers, name an address, such as 10.20.0.1.")
    if options.workers and options.host not in LOOPBACK and not options.clients:
        raise BadRequest(
            f"the instance has workers and listens on {options.host}, and its unit lets in nobody but them: name in "
            "clients who asks it, such as the addresses of the gateways."
        )
