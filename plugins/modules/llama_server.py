#!/usr/bin/python
# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: llama_server
short_description: Run instances of llama-server as systemd units, placed on CPUs and NUMA nodes
version_added: 0.1.0
description:
  - Plans all instances for this host, writes their units, enables and starts them, and waits until they answer.
  - The binary is asked for its options, and whether it accepts the planned arguments. Its version decides nothing.
  - Whatever can be refused is refused before a unit is touched, such as a truncated model, a draft with another
    vocabulary, a port that is taken, too little memory for all of them, a binary that was built for another CPU, a file
    that its user cannot read, or keys that would leave it open.
  - What has to be tried for that runs behind the walls of the unit, as its user, and only for an instance that will be
    started.
  - Memory is counted as the server takes it, with layers that keep a window, a state or compressed keys, and with all
    that it may keep of earlier requests.
  - When a new unit does not start, the previous one is put back and runs.
  - An instance is restarted when its unit, its binary, its model or its keys changed, and only then. How it is stopped,
    and how it is started the next time, changes without a restart. Drop-ins that somebody put beside it are removed;
    say O(instances[].unit_settings) instead.
author: The sovereign.epyc authors (@sovereign-epyc)
extends_documentation_fragment:
  - sovereign.epyc.attributes
  - sovereign.epyc.knob.intent
options:
  instances:
    description: The instances. Each has a unit of its own, and may have CPUs, nodes and an L3 group of its own.
    type: list
    elements: dict
    required: true
    suboptions:
      name:
        description: The name of the instance; its unit is C(llama-NAME.service).
        type: str
        required: true
      binary:
        description: The llama-server to run. Without it, that of O(binary).
        type: path
      rpc_binary:
        description: The C(ggml-rpc-server) for O(instances[].draft_placement=own_ccd). Without it, the one beside
          O(instances[].binary).
        type: path
      engine:
        description: Which engine O(instances[].binary) must be. Without it, it is asked which it is.
        type: str
        choices: [llama.cpp, ik_llama.cpp]
      model:
        description: The model, a GGUF file; of one in several files the first. It or O(instances[].models) is needed.
        type: path
      models:
        description:
          - Several models behind this port, a file by the name by which clients ask for it. llama.cpp from about 2026
            on does it, as a router that starts a server for each model. What else the instance says holds for each.
          - The CPUs are the same for all, so that two that work at a time slow each other down.
        type: dict
        default: {}
      models_loaded:
        description:
          - How many of O(instances[].models) are in memory at once at most. When another one is asked for, the one that
            was idle for the longest is ended first. The memory of those that need the most has to fit. Without it, all.
        type: int
      draft_model:
        description: The model that drafts, with the same vocabulary.
        type: path
      projector:
        description:
          - The file that turns pictures or sounds into what O(instances[].model) reads, for a model that has one.
          - Such a server does not guess tokens, because some builds end with an error when they guess beside a picture;
            a remark says so.
        type: path
      adapters:
        description:
          - LoRA adapters for O(instances[].model), GGUF files, each with its scale, of which 1 is the usual one. They
            change its answers, and cost time for each token.
          - A request may have other scales (C(lora) in its body). ik_llama.cpp is not known to have several.
        type: dict
        default: {}
      chat_template:
        description:
          - A file with a Jinja template that makes one text of a conversation, instead of that within the model. When
            the file changes, the server is restarted.
        type: path
      task:
        description:
          - What the server is for. V(completion) goes on with texts, V(embedding) turns texts into vectors, V(rerank)
            compares texts with a question. The last two make no tokens, so that nothing is guessed.
        type: str
        choices: [completion, embedding, rerank]
        default: completion
      alias:
        description: The name by which clients ask for the model.
        type: str
      host:
        description: The address to listen on.
        type: str
        default: 127.0.0.1
      port:
        description: The port to listen on.
        type: int
        required: true
      api_key_file:
        description:
          - A file with keys, a line each, one of which a client has to send. systemd hands it to the server, whose user
            need not be able to read it. Lines that begin with C(#) are comments, for builds that know them.
          - A file without a key is refused, because the server would be open. When the file changes, the server is
            restarted, because it reads its keys only once.
        type: path
      context:
        description: How many tokens all slots together can hold.
        type: int
        default: 8192
      slots:
        description: How many requests are worked on at a time.
        type: int
        default: 1
      cache_type_k:
        description: The type of the keys in the KV cache.
        type: str
        choices: &types [f32, f16, bf16, q8_0, q4_0, q4_1, iq4_nl, q5_0, q5_1]
        default: f16
      cache_type_v:
        description: The type of the values in the KV cache.
        type: str
        choices: *types
        default: f16
      flash_attention:
        description: Whether to use flash attention. Without it, the server decides.
        type: str
        choices: ["on", "off", auto]
      batch:
        description: The logical size of a batch, in tokens.
        type: int
      ubatch:
        description: The physical size of a batch, in tokens.
        type: int
      experts:
        description:
          - With how many experts a mixture of experts works for each token, fewer than the model was trained with.
          - This changes the answers of the model, for the worse.
        type: int
      sampling:
        description:
          - How the next token is chosen where a request does not say it, as numbers by name. V(temperature), V(top_k),
            V(top_p), V(min_p), V(repeat_penalty), V(presence_penalty) and V(frequency_penalty) are as in a request, and
            V(max_tokens) is how long an answer may become.
          - Whoever publishes a model says which values it was made for. A request that names one of them has its own.
        type: dict
        default: {}
      mla:
        description:
          - How ik_llama.cpp computes with compressed keys (MLA), 0 to 3. Without it, as its build does. This and the
            next two are refused for llama.cpp, which has nothing of the kind.
        type: int
      attention_buffer:
        description: The MiB that ik_llama.cpp takes for scores of attention at most, where keys are compressed.
        type: int
      fused_moe:
        description: Whether ik_llama.cpp computes the matrices of experts together. Without it, as its build does.
        type: bool
      rpc_workers:
        description:
          - C(ggml-rpc-server) on other hosts that hold a part of the model, each as V(ADDRESS:PORT), such as
            V(10.20.0.2:50052), for a model that is larger than this host. M(sovereign.epyc.llama_rpc_worker) runs them,
            and the role P(sovereign.epyc.epyc_group#role) does all of it.
          - Experimental. It makes room and is no faster than one host. An address that is not of a private network is
            refused, and so is a draft. When a worker ends, this server ends with the next request, waits for the worker
            and begins anew, without a limit.
        type: list
        elements: str
        default: []
      rpc_layers:
        description: How many layers are on O(instances[].rpc_workers), together. Without it, each host has as many.
        type: int
      speculation:
        description:
          - How tokens are guessed before they are verified, by one kind, or by several that are asked in turn until one
            guesses. llama.cpp asks in the order of the choices.
          - V(ngram) looks the last tokens up in the text so far, and so does V(ngram_map), which keeps a table of it.
            V(ngram_mod) has one table for the texts of all slots, so that it also finds what stood in another request
            since the start. V(suffix) keeps a tree of suffixes, which only builds of ik_llama.cpp since August 2026
            have. These cost next to nothing where they miss.
          - V(draft) asks O(instances[].draft_model). V(cascade) is V(ngram) and V(draft).
          - V(eagle3) and V(dflash) ask a head that was made for this very model, whose file is
            O(instances[].draft_model). V(mtp) asks layers at the end of the model, which many files have lost; they may
            be in O(instances[].draft_model). llama.cpp has these three from about May 2026 on, ik_llama.cpp all but
            V(eagle3). One kind at most of these and V(draft).
        type: list
        elements: str
        choices: [ngram, ngram_map, ngram_mod, suffix, draft, eagle3, mtp, dflash, none, cascade]
        default: [ngram]
      draft_max:
        description:
          - How many tokens a draft has at most. Without it, what the costs on this host say for the two models.
          - When they say that this draft loses, it is left out with a remark, unless this option is given.
        type: int
      draft_p_min:
        description: How sure the draft has to be of a token, from 0 to 1. Without it, what the costs say.
        type: float
      draft_cache_type_k:
        description: The type of the keys in the KV cache of the draft. Without it, V(f16).
        type: str
        choices: *types
      draft_cache_type_v:
        description: The type of the values in the KV cache of the draft. Without it, V(f16).
        type: str
        choices: *types
      draft_placement:
        description:
          - Where the draft computes. Draft and verification take turns, so that V(shared) has all CPUs serve both.
          - V(first_ccd) has it compute on one CCD, of which verification has the CPUs too.
          - V(own_ccd) gives it a process of its own on a CCD that nothing else has, and verification the others.
        type: str
        choices: [shared, first_ccd, own_ccd]
        default: shared
      draft_cpus:
        description:
          - The CPUs of the draft, as O(instances[].cpus), such as V(socket1). The others of the instance are those of
            the model, and the memory of each is on its own nodes. Without it, the role draft of the plan, or a CCD.
          - The draft and the model take turns, so that on one instance one of two sockets idles. The remarks say when
            that is computed to lose against the model on all CPUs.
        type: str
      rpc_port:
        description: The port on the loopback address for O(instances[].draft_placement=own_ccd).
        type: int
      ngram_lookup:
        description: How many of the last tokens are looked up.
        type: int
        default: 6
      ngram_max:
        description: How many tokens that followed there are guessed at most.
        type: int
        default: 8
      ngram_min_hits:
        description: How often the tokens must have been seen.
        type: int
        default: 1
      suffix_corpus:
        description:
          - A file with texts in which V(suffix) looks from the start on, before any request. A name that ends in
            C(.json) is a list of texts, or of objects with C(content) or C(messages), any other one numbers of tokens
            in 4 bytes each. The server writes nothing to it. When the file changes, the server is restarted.
        type: path
      cpus:
        description:
          - The CPUs to compute on, as names of roles in the plan, places or numbers, such as V(draft,verify), V(node0)
            or V(8-15). Of a place, housekeeping CPUs are left out.
          - Without it, all but the housekeeping. Threads for HTTP run on the housekeeping CPUs.
        type: str
      threads:
        description: How many threads generate. Without it, one for each core.
        type: int
      threads_batch:
        description: How many threads read prompts and verify. Without it, one for each core.
        type: int
      draft_threads:
        description: How many threads draft.
        type: int
      l3_group:
        description: The resctrl group whose limits must hold for the threads. It is read, not created.
        type: str
      draft_l3_group:
        description: The same for the process of O(instances[].draft_placement=own_ccd).
        type: str
      nodes:
        description: The NUMA nodes for memory, as V(0) or V(0-3). Without it, those of O(instances[].cpus).
        type: str
      memory:
        description:
          - How memory lies on O(instances[].nodes). V(bind) takes no other node, V(interleave) spreads it evenly,
            V(distribute) has each thread read its own part of the weights first, and V(local) leaves it to the
            kernel.
          - V(rows) is V(distribute) with the parts put on the nodes of their threads before the start, also those that
            are in the page cache already, as after a download. It needs no second copy, and takes llama.cpp only.
          - A model file that two instances map is in memory once. Two that want it on different nodes are refused,
            unless one of them has the weights in memory of its own, by O(instances[].hugepages) or O(instances[].lock).
          - Without it, V(bind) for one of several nodes, V(interleave) for more, and V(local) where there is one.
        type: str
        choices: [bind, interleave, distribute, rows, local]
      hugepages:
        description:
          - How the weights come into huge pages. V(thp) has the kernel make them as it can, V(pool) takes those of a
            pool, and V(hugetlbfs) copies the file to a hugetlbfs.
        type: str
        choices: [none, thp, pool, hugetlbfs]
        default: none
      hugetlbfs:
        description: Where a hugetlbfs is mounted.
        type: path
        default: /dev/hugepages
      lock:
        description: Whether the weights are locked in memory.
        type: bool
        default: false
      direct_io:
        description:
          - Read the weights past the page cache, so that a model of nearly all memory is not in it twice while it is
            loaded. They are memory of the server's own then.
        type: bool
        default: false
      repack:
        description:
          - Whether weights in types such as Q4_0 or Q4_K are copied into an order that the instructions of the CPU
            like. It saves work for each token, and the copy is memory of the server's own, beside the mapped file.
            Without it, what the server does, which is V(true) in current builds where the file need not stay mapped.
        type: bool
      prompt_cache:
        description:
          - How much memory the server may keep prompts of earlier requests in, as V(2GiB), so that they need not be
            read again; V(0MiB) keeps none. It grows up to this, and all of it has to fit on O(instances[].nodes).
        type: str
        default: 8GiB
      checkpoints:
        description:
          - To how many earlier states of each slot the server can go back. Only models with sliding windows or with
            recurrent layers need them, and of some each takes hundreds of MiB; all of them have to fit.
        type: int
        default: 32
      bandwidth:
        description: The memory bandwidth of the host in GB/s, as measured. Without it, a share of what its SKU has.
        type: float
      user:
        description: The system user of the server. Without it, systemd makes one for the time that it runs.
        type: str
      extra_arguments:
        description: More arguments for the server. It is asked whether it takes them. What an option says, and secrets,
          are refused.
        type: list
        elements: str
        default: []
      extra_environment:
        description: More variables for its environment. What an option says, and secrets, are refused.
        type: dict
        default: {}
      unit_settings:
        description:
          - More settings for its unit, by their names in systemd, as a drop-in would have them, such as C(MemoryMax) or
            C(StateDirectory). A list is a line for each of its words, and an empty text takes back what stands before.
          - Settings that belong into the section C([Unit]), such as C(OnFailure), are put there, all others into
            C([Service]).
          - systemd itself reads the unit first, and what it does not understand is refused. So is what the plan or an
            option says.
          - The unit of O(instances[].draft_placement=own_ccd) does not have them.
        type: dict
        default: {}
      restart_seconds:
        description: How long systemd waits before it starts a server again that has failed.
        type: int
        default: 2
      restart_limit:
        description: How often it may fail in O(instances[].restart_limit_seconds) before systemd gives up.
        type: int
        default: 5
      restart_limit_seconds:
        description: The time for O(instances[].restart_limit), in seconds. Without it, as long as that many starts take
          that fail at the end of O(instances[].start_timeout). In a shorter one, a large model would be read for ever.
        type: int
      start_timeout:
        description: How many seconds the server may take to load the model. Without it, 300 and one for each 50 MB of
          the model, and more where its disk or network gives less than 100 MB/s. That is measured before a start.
        type: int
      drain_timeout:
        description: How many seconds requests in progress may take to end before the server is stopped.
        type: int
        default: 60
      stop_timeout:
        description: How many seconds the server may take to stop then.
        type: int
        default: 5
      watchdog:
        description:
          - After how many seconds without an answer the server is killed, so that its unit starts it anew. Without it,
            never.
          - What is asked for is C(/metrics), which a server answers between two batches. One batch of a prompt of a
            large model may take a minute, so take several minutes there.
        type: int
      update_order:
        description:
          - What happens when a change needs a restart. V(stop_first) stops what runs, and puts it back if the new one
            does not start.
          - V(start_first) first starts the new one beside it, at another port of the loopback. Only when that serves,
            it is ended, what runs is stopped, and the new one started in its place, with its file in memory already. It
            takes the memory and the CPUs of both. Where there is no room, a remark says so, and it is V(stop_first).
        type: str
        choices: [stop_first, start_first]
        default: stop_first
  binary:
    description: The llama-server of all instances that name no other with O(instances[].binary).
    type: path
  purge:
    description: Whether other instances that this module made are stopped and removed. It keeps all other files.
    type: bool
    default: false
notes:
  - Needs root, a host that was booted with systemd, and the host tool (M(sovereign.epyc.epyc_host_tool)), whose command
    waits for the server, drains it, and places its files.
  - Runs in the background of the host, since a large model is read for minutes. The controller shows what is being
    started, and goes on when the connection was lost in between. C(async) and C(poll) of a task are heeded too.
seealso:
  - module: sovereign.epyc.epyc_host_tool
  - module: sovereign.epyc.llama_build
  - module: sovereign.epyc.model_file
  - module: sovereign.epyc.service_placement_info
"""

EXAMPLES = r"""
- name: Serve a model that speculates on the text so far
  sovereign.epyc.llama_server:
    binary: /opt/llama.cpp/bin/llama-server
    instances:
      - name: chat
        model: /srv/models/model-Q4_K_M.gguf
        port: 8080
    intent: "{{ epyc.intent }}"
  register: served

- name: Prove that it is where it should be
  sovereign.epyc.service_placement_info:
    service: "{{ served.services.chat.unit }}"
    cpus: "{{ served.services.chat.expect.cpus }}"
    nodes: "{{ served.services.chat.expect.nodes }}"
    interleaved: "{{ served.services.chat.expect.interleaved }}"

- name: Serve a large model with a draft on one socket, a small one on the other, and nothing else
  sovereign.epyc.llama_server:
    binary: /opt/llama.cpp/bin/llama-server
    purge: true
    instances:
      - name: large
        model: /srv/models/70B-Q4_K_M.gguf
        draft_model: /srv/models/1B-Q4_K_M.gguf
        speculation: cascade
        hugepages: thp
        cpus: socket0
        port: 8081
      - name: small
        model: /srv/models/8B-Q4_K_M.gguf
        cpus: socket1
        port: 8082
        unit_settings:
          MemoryMax: 64G
          OnFailure: notify@%n.service
    intent: "{{ epyc.intent }}"
"""

RETURN = r"""
diff:
  description:
    - What differed. The address of a file has its text as value.
    - C(prepared) is the text that C(--diff) prints; C(changes) has all addresses with their values.
  returned: always
  type: dict
services:
  description: The plan of each instance by its name.
  returned: always
  type: dict
  contains:
    unit:
      description: The name of its unit.
      type: str
    cpus:
      description: The CPUs that it cannot leave.
      type: str
    busy_cpus:
      description: The CPUs that compute, in the order of the threads.
      type: str
    nodes:
      description: The nodes of its memory.
      type: str
    need:
      description:
        - The memory that it needs, in bytes, C(weights), C(kv_cache), C(compute), C(prompt_cache), C(checkpoints) and
          the C(total); that of a draft in a process of its own is in C(rpc).
      type: dict
    expect:
      description: Options of M(sovereign.epyc.service_placement_info) that prove all this of the running service.
      type: dict
remarks:
  description: What you should know although nothing failed.
  returned: always
  type: list
  elements: str
"""

from ansible_collections.sovereign.epyc.plugins.module_utils._knob_module import run_converging_module
from ansible_collections.sovereign.epyc.plugins.module_utils._serving.llama_cpp.engine import LlamaEngine
from ansible_collections.sovereign.epyc.plugins.module_utils._serving.options import options
from ansible_collections.sovereign.epyc.plugins.module_utils._serving.unit import instances

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from ansible_collections.sovereign.epyc.plugins.module_utils._host.host import Host
    from ansible_collections.sovereign.epyc.plugins.module_utils._knobs.protocol.knob import Knob
    from ansible_collections.sovereign.epyc.plugins.module_utils._knobs.protocol.ledger import Ledger


def build(params: Mapping[str, Any], host: Host, ledger: Ledger) -> list[Knob]:
    """Return the knobs of all instances."""
    asked = [{**one, "binary": one["binary"] or params["binary"]} for one in params["instances"]]
    return instances.build_knobs(LlamaEngine(), host, asked, instances.Purge(params["purge"]))


def main() -> None:
    spec = {
        "instances": dict(type="list", elements="dict", required=True, options=options.Options.argument_spec()),
        "binary": dict(type="path"),
        "purge": dict(type="bool", default=False),
        "intent": dict(type="dict"),
    }
    run_converging_module(spec, build)


if __name__ == "__main__":
    main()
