#!/usr/bin/python
# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: llama_server
short_description: Run instances of llama-server as systemd units, placed on CPUs and NUMA nodes
version_added: 1.0.0
description:
  - Plans all instances for this host, writes, enables and starts their units, and waits until the servers answer.
  - The flags of a server binary are read from its C(--help), and the binary itself checks the planned arguments. Its
    version decides nothing.
  - An impossible request is refused before any unit is changed, for example a truncated model, a draft with another
    vocabulary, a port in use, too little memory for all instances, a binary for another CPU, a file that the server's
    user cannot read, or an empty file of API keys.
  - Trials of a binary run in the sandbox of its unit, as the user of the unit, and only for an instance that will be
    started.
  - Memory is counted as the server allocates it. This includes sliding windows, recurrent states, compressed keys, the
    prompt cache and checkpoints.
  - When a new unit does not start, the previous unit is restored and started.
  - An instance is restarted only when its unit, binary, model or API keys changed. Settings for the stop of a server,
    or for its next start, change without a restart.
  - Drop-ins of the unit are removed; use O(instances[].unit_settings) instead. A remark names each of them, and a copy
    stays in C(/var/lib/sovereign-epyc/removed-drop-ins).
author: The sovereign.epyc authors (@sovereign-epyc)
requirements:
  - llama-server
  - systemd
extends_documentation_fragment:
  - sovereign.epyc.attributes
  - sovereign.epyc.knob.intent
options:
  instances:
    description: The instances. Each instance has its own unit, and may have its own CPUs, nodes and L3 group.
    type: list
    elements: dict
    required: true
    suboptions:
      name:
        description: The name of the instance; its unit is C(llama-NAME.service).
        type: str
        required: true
      binary:
        description: The llama-server to run. The default is O(binary).
        type: path
      rpc_binary:
        description: The C(ggml-rpc-server) for O(instances[].draft_placement=own_ccd). The default is the program in
          the folder of O(instances[].binary).
        type: path
      engine:
        description: The required engine of O(instances[].binary). Without this option, either engine is accepted.
        type: str
        choices: [llama.cpp, ik_llama.cpp]
      model:
        description: The GGUF file of the model, or its first file. This option or O(instances[].models) is required.
        type: path
      models:
        description:
          - Several models behind one port, as names for clients and GGUF files. llama.cpp since about 2026 can do this,
            as a router that starts a server for each model. The other options hold for all models.
          - All models use the same CPUs, so two models that work at the same time slow each other down.
        type: dict
        default: {}
      models_loaded:
        description: How many of O(instances[].models) may be in memory at once. When a client requests another model,
          the server of the model that was idle for the longest time is ended. Memory for the largest models must be
          available. The default is all models.
        type: int
      draft_model:
        description: The GGUF file of the model that drafts. It must have the same vocabulary as the model.
        type: path
      projector:
        description:
          - The multimodal projector of O(instances[].model), a GGUF file that converts pictures or sounds for the
            model.
          - Such a server does not speculate, and a remark says so, because some builds end with an error when they
            guess tokens in a text with a picture.
        type: path
      adapters:
        description:
          - LoRA adapters for O(instances[].model), as paths of GGUF files and their scales; the usual scale is 1.
            Adapters change the answers of the model, and cost time for each token.
          - A client may request other scales with C(lora) in the body of its request. ik_llama.cpp is not known to
            support several adapters.
        type: dict
        default: {}
      chat_template:
        description: A file with a Jinja template that renders a conversation as one text. It replaces the template in
          the model file. The server is restarted when this file changes.
        type: path
      task:
        description: The task of the server. V(completion) continues texts, V(embedding) computes a vector for a text,
          and V(rerank) ranks texts by a question. The last two generate no tokens, so there is no speculation.
        type: str
        choices: [completion, embedding, rerank]
        default: completion
      pooling:
        description:
          - How the vectors of the tokens of a text become one vector, for O(instances[].task=embedding). By default,
            the header of the model decides. A model whose header says nothing, as of most generating models, is refused
            without this option, because the server would answer each request to C(/v1/embeddings) with an error.
          - V(rank) is for O(instances[].task=rerank) only, which has it without this option. A model without a head for
            scores is refused.
        type: str
        choices: [mean, cls, last, rank]
      alias:
        description: The name of the model for clients.
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
          - A file with an API key in each line. Clients must send one of the keys. systemd passes the file to the
            server, so the user of the server needs no access to the file. Lines that begin with C(#) are comments for
            builds that support comments.
          - A file without a key is refused, because the server would need no key. The server is restarted when the file
            changes, because it reads the keys only at its start.
        type: path
      clients:
        description:
          - The addresses and networks of those who use the server, such as the gateways and Prometheus. The unit then
            exchanges packets with these, with RPC workers and with this host only, so that no request makes the server
            call another address. Kernels without BPF for control groups do not enforce it.
          - A server at the loopback needs none.
        type: list
        elements: str
        default: []
      context:
        description:
          - The number of tokens in the context of all slots together. The default is 8192, or the product of
            O(instances[].slots) and O(instances[].context_per_slot).
          - With several slots, O(instances[].kv_unified) says whether a request may have all of these tokens, or its
            part.
        type: int
      context_per_slot:
        description:
          - The number of tokens that each request may have, its answer included, whatever the other requests have.
            O(instances[].context) is O(instances[].slots) times this number, and is left out.
          - Unless O(instances[].kv_unified=true), each slot has a KV cache of its own.
        type: int
      slots:
        description: The number of requests that the server works on at the same time.
        type: int
        default: 1
      kv_unified:
        description:
          - Whether all slots share one KV cache, so that a request may have the tokens of all of them. When the
            requests at a time need more than O(instances[].context) together, the server ends all of them with an
            error. With O(instances[].context_per_slot), each request is limited to that number, so that this cannot
            happen.
          - With V(false), O(instances[].context) is divided among the slots, and a longer request is refused.
          - The default is V(true) for several slots that generate text, unless O(instances[].context_per_slot) is set,
            the checkpoints of a model with sliding windows would need much more memory, or the model loses something by
            it; a remark says which holds. Builds of llama.cpp of 2025 and ik_llama.cpp cannot share a KV cache.
        type: bool
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
        description: Whether to use flash attention. By default, the server decides.
        type: str
        choices: ["on", "off", auto]
      batch:
        description: The logical size of a batch, in tokens. The default for the tasks V(embedding) and V(rerank) is
          O(instances[].ubatch).
        type: int
      ubatch:
        description: The physical size of a batch, in tokens. A server for the tasks V(embedding) and V(rerank) refuses
          a text that is longer, so that the default for these tasks is the context of a slot, as far as the model was
          trained for it.
        type: int
      experts:
        description: The number of experts for each token in a mixture of experts. It must be less than the model's own
          number, and makes the answers of the model worse.
        type: int
      sampling:
        description:
          - Default values for the choice of the next token, as numbers by name. V(temperature), V(top_k), V(top_p),
            V(min_p), V(repeat_penalty), V(presence_penalty) and V(frequency_penalty) have the meaning of the same names
            in a request, and V(max_tokens) is the greatest length of an answer.
          - The publisher of a model usually recommends values. Values in a request take precedence. The role
            P(sovereign.epyc.epyc_llama#role) sets the recommended values of a model of its catalogue where an instance
            has none.
        type: dict
        default: {}
      catalogue_model:
        description: What the catalogue says of the model, which the role P(sovereign.epyc.epyc_llama#role) sets so that
          the plan can tell of it. C(name) is the name of the model, C(fetched) is whether the collection has ever
          fetched it, and C(recommended_sampling) is whether O(instances[].sampling) comes from the catalogue.
        type: dict
        default: {}
      mla:
        description: The method, from 0 to 3, by which ik_llama.cpp computes with compressed keys (MLA). The default is
          that of the build. This option, O(instances[].attention_buffer) and O(instances[].fused_moe) are refused for
          llama.cpp, which has no such settings.
        type: int
      attention_buffer:
        description: The most MiB that ik_llama.cpp uses for attention scores of a model with compressed keys.
        type: int
      fused_moe:
        description: Whether ik_llama.cpp computes the matrices of experts together. The default is that of the build.
        type: bool
      repack_at_start:
        description:
          - Whether ik_llama.cpp, as it reads the weights into memory, puts the rows of each matrix side by side in
            groups, which its kernels read faster than single rows. The flag is C(--run-time-repack).
          - The file is then read and not mapped, so that a start takes longer, and instances do not share its pages.
            The memory for the weights is the same. Prompts may be read more slowly with it; measure both.
          - Refused for llama.cpp, whose own option for this is O(instances[].repack), and where the file must stay
            mapped, as with O(instances[].memory=distribute) and O(instances[].hugepages=hugetlbfs).
        type: bool
        default: false
      rpc_workers:
        description:
          - RPC workers (C(ggml-rpc-server)) on other hosts that hold a part of a model that is too large for this host.
            Each worker is written as V(ADDRESS:PORT), such as V(10.20.0.2:50052). The module
            M(sovereign.epyc.llama_rpc_worker) runs a worker; the role P(sovereign.epyc.epyc_group#role) sets up workers
            and server.
          - Experimental. Workers make room for a model, but no speed. Addresses of public networks and drafts are
            refused. When a worker ends, this server ends at the next request, waits for the worker without a limit, and
            starts again.
        type: list
        elements: str
        default: []
      rpc_layers:
        description: The number of layers on all O(instances[].rpc_workers) together. By default, each host has an equal
          number.
        type: int
      speculation:
        description:
          - The kinds of speculation, by which the server guesses tokens before the model verifies them. Several kinds
            are asked in turn until one guesses tokens; llama.cpp asks the kinds in the order of the choices.
          - V(ngram) looks up the last tokens in the text so far. V(ngram_map) does the same with a table. V(ngram_mod)
            has one table for all slots, so it also finds texts of other requests. V(suffix) has a tree of suffixes, and
            needs a build of ik_llama.cpp since August 2026. These kinds cost almost nothing when they find no match.
          - V(draft) uses O(instances[].draft_model). V(cascade) means V(ngram) and V(draft).
          - V(eagle3) and V(dflash) use a head that was made for this model; its file is O(instances[].draft_model).
            V(mtp) uses layers at the end of the model, which many files lack; a file with these layers may be
            O(instances[].draft_model). llama.cpp has these kinds since about May 2026, and ik_llama.cpp has V(mtp) and
            V(dflash). At most one of V(draft), V(eagle3), V(mtp) and V(dflash) is possible.
        type: list
        elements: str
        choices: [ngram, ngram_map, ngram_mod, suffix, draft, eagle3, mtp, dflash, none, cascade]
        default: [ngram]
      draft_max:
        description:
          - The greatest length of a draft in tokens. The default is estimated from the costs of both models on this
            host.
          - When the estimate is that the draft gains nothing, it is left out with a remark, unless this option is set.
        type: int
      draft_p_min:
        description: The least probability, from 0 to 1, of a drafted token. The default is estimated from the costs.
        type: float
      draft_cache_type_k:
        description: The type of the keys in the KV cache of the draft. The default is V(f16).
        type: str
        choices: *types
      draft_cache_type_v:
        description: The type of the values in the KV cache of the draft. The default is V(f16).
        type: str
        choices: *types
      draft_placement:
        description:
          - The CPUs of the draft. Drafting and verifying take turns, so with V(shared), both use all CPUs.
          - With V(first_ccd), the draft computes on one CCD, and verification on all CPUs including this CCD.
          - With V(own_ccd), the draft computes in its own process on one CCD, and verification on all other CPUs.
        type: str
        choices: [shared, first_ccd, own_ccd]
        default: shared
      draft_cpus:
        description:
          - The CPUs of the draft, written as O(instances[].cpus), such as V(socket1). The model has the other CPUs of
            the instance, and the memory of draft and model is on the nodes of their CPUs. The default is the role draft
            of the plan, or else one CCD.
          - Draft and model take turns, so one of two sockets is idle. A remark says when the model alone on all CPUs is
            estimated to be faster.
        type: str
      rpc_port:
        description: The port on the loopback address for O(instances[].draft_placement=own_ccd).
        type: int
      ngram_lookup:
        description: The number of last tokens that n-gram speculation looks up.
        type: int
        default: 6
      ngram_max:
        description: The greatest number of tokens that n-gram speculation guesses. The default is 8; it is 6 with
          V(distribute) and V(rows), which larger batches would have read across nodes.
        type: int
      ngram_min_hits:
        description: How often the looked up tokens must have occurred before n-gram speculation guesses.
        type: int
        default: 1
      suffix_corpus:
        description: A file with texts that V(suffix) speculation searches from the start on. A file whose name ends in
          C(.json) has a list of texts, or of objects with C(content) or C(messages). Any other file has numbers of
          tokens, in 4 bytes each. The server never writes to the file. The server is restarted when the file changes.
        type: path
      cpus:
        description:
          - The CPUs that compute, as roles of the plan, places or numbers, such as V(draft,verify), V(node0) or
            V(8-15). A place does not include its housekeeping CPUs.
          - The default is all CPUs of O(instances[].nodes), or of one socket, except for the housekeeping CPUs, on
            which threads for HTTP run.
          - The socket is that on which other instances compute least, then that with most free memory. A running
            instance stays on its socket. An instance only gets the CPUs of all sockets if the memory of one is too
            little, or with more threads than one has cores, or with V(distribute) and V(rows).
        type: str
      threads:
        description:
          - The number of threads that generate tokens, at most one for each core.
          - By default as many as keep the memory of the instance busy, a multiple of 8. All cores where they are fewer
            than 16, with memory policies that need equal threads, in virtual machines, and without OpenMP.
        type: int
      threads_batch:
        description: The number of threads that read prompts and verify drafts. The default is one for each core.
        type: int
      draft_threads:
        description: The number of threads that draft.
        type: int
      l3_group:
        description: The resctrl group whose limits must hold for the threads. The group is not created.
        type: str
      draft_l3_group:
        description: The resctrl group for the process of O(instances[].draft_placement=own_ccd).
        type: str
      nodes:
        description: The NUMA nodes for memory, as V(0) or V(0-3). The default is the nodes of O(instances[].cpus).
        type: str
      memory:
        description:
          - The memory policy on O(instances[].nodes). V(bind) uses no other nodes. V(interleave) spreads memory evenly.
            With V(distribute), each thread first reads its own part of the weights. V(local) leaves the choice to the
            kernel.
          - V(rows) is V(distribute), but the parts of the weights are moved to the nodes of their threads before the
            start, even parts that are in the page cache already, as after a download. It needs no second copy of the
            weights, and llama.cpp as engine.
          - With V(mirror), the server keeps a copy of the weights on each node of the host, and each thread reads the
            copy of its node. It needs memory for all copies, CPUs on each node, and a build whose C(--help) offers
            C(--numa mirror); no release of llama.cpp or ik_llama.cpp had it in November 2026.
          - A model file that two instances map is in memory once. Two instances that need this file on different nodes
            are refused, unless one of them has its own copy, by O(instances[].hugepages) or O(instances[].lock).
          - The default is V(local) on a host with one node, else V(bind) for one node and V(interleave) for several.
        type: str
        choices: [bind, interleave, distribute, rows, mirror, local]
      hugepages:
        description: The kind of huge pages for the weights. V(thp) means transparent huge pages, as far as the kernel
          can make them. V(pool) uses the pages of a pool, and V(hugetlbfs) copies the file to a hugetlbfs.
        type: str
        choices: [none, thp, pool, hugetlbfs]
        default: none
      hugetlbfs:
        description: The path of the hugetlbfs for O(instances[].hugepages=hugetlbfs).
        type: path
        default: /dev/hugepages
      lock:
        description: Whether the weights are locked in memory.
        type: bool
        default: false
      direct_io:
        description: Whether the server reads the weights into its own memory past the page cache. So a model that needs
          nearly all memory is never in memory twice.
        type: bool
        default: false
      repack:
        description: Whether the server copies weights of types such as Q4_0 or Q4_K into an order that suits the
          instructions of the CPU. The copy saves work for each token, and needs memory in addition to the mapped file.
          By default, the server decides; current builds repack where the file need not stay mapped. Refused for
          ik_llama.cpp, which has O(instances[].repack_at_start).
        type: bool
      prompt_cache:
        description:
          - The largest size of the cache for prompts of earlier requests, as V(2GiB), which saves reading these prompts
            again. V(0MiB) is no cache. Memory for the whole size must be available on O(instances[].nodes).
          - A conversation whose state is larger than the whole cache is not kept. A remark says from how many tokens
            on.
          - By default, the cache holds at least a full slot, and where memory is free, the tokens of all slots twice or
            8 GiB, whichever is more, up to an eighth of the memory of the nodes. With too little free memory it is
            smaller. The prompt cache of an installed instance stays as it is while it serves that purpose, because a
            change restarts the server.
        type: str
      slot_files:
        description:
          - The largest size on the disk, as V(40GiB), of the prompts that survive a restart. When the server stops, the
            prompt in each slot is saved, the last used first; when it serves again, the prompts are restored.
          - A prompt is restored only by a server with the same model, the same build and the same options that decide
            the content of the KV cache. The journal of the unit says which prompts are left out, and why.
          - The files are in C(/var/lib/llama-NAME), which only the server and root can read, and are not encrypted.
          - By default, nothing is saved. Refused with O(instances[].models), O(instances[].rpc_workers), a
            O(instances[].task) without prompts, speculation with a draft or a head, and ik_llama.cpp.
        type: str
      checkpoints:
        description: The number of checkpoints (earlier states) of each slot to which the server can return. Only models
          with sliding windows or recurrent layers need checkpoints, which may take hundreds of MiB each. Memory for all
          checkpoints must be available.
        type: int
        default: 32
      bandwidth:
        description: The GB/s of memory that decoding reaches on the nodes of the instance. By default a share of what
          was measured on the host, else of the data sheet.
        type: float
      user:
        description: The system user of the server. By default, systemd makes a dynamic user.
        type: str
      extra_arguments:
        description: Further arguments for the server, which must accept them. Arguments that an option sets, and
          secrets, are refused.
        type: list
        elements: str
        default: []
      extra_environment:
        description: Further environment variables of the server. Variables that an option sets, and secrets, are
          refused.
        type: dict
        default: {}
      unit_settings:
        description:
          - Further settings of systemd for the unit, as in a drop-in, such as C(MemoryMax) or C(StateDirectory). A list
            becomes a line for each of its words, and an empty text resets the setting.
          - Settings of the section C([Unit]), such as C(OnFailure), are written there, all other settings to
            C([Service]).
          - Settings that systemd does not understand, or that the plan or an option sets, are refused.
          - The unit of a draft with O(instances[].draft_placement=own_ccd) does not get these settings.
        type: dict
        default: {}
      restart_seconds:
        description: The seconds after which systemd starts a failed server again. With the default, and the default of
          O(instances[].restart_limit), a server that fails at once is started for more than a minute before systemd
          gives up.
        type: int
        default: 5
      restart_limit:
        description: The number of starts within O(instances[].restart_limit_seconds) after which systemd gives up.
        type: int
        default: 16
      restart_limit_seconds:
        description: The period for O(instances[].restart_limit) in seconds. By default, it is so long that even starts
          that fail after O(instances[].start_timeout) reach the limit, so systemd does not start a server for ever.
        type: int
      start_timeout:
        description: The seconds in which the server must load the model. The default is 300, and one more for each 50
          MB of the model, and more for a disk or network with less than 100 MB/s, as measured before the start.
        type: int
      drain_timeout:
        description: The seconds in which requests in progress may end before the server is stopped.
        type: int
        default: 60
      stop_timeout:
        description: The seconds that the server may take to stop after the requests have ended.
        type: int
        default: 5
      watchdog:
        description:
          - The seconds without an answer after which the server is killed, so that systemd starts it again. By default,
            there is no watchdog.
          - The watchdog requests C(/metrics), which a server answers between two batches. One batch of a prompt may
            take a minute with a large model, so use several minutes for such a model.
        type: int
      update_order:
        description:
          - The order of steps when a change needs a restart.
          - V(start_first) starts the new server next to the running one, at another port of O(instances[].host). A new
            server that does not serve stops nothing. With the program C(nft) (package nftables) on the host, new
            connections go to the new server until the unit of the instance has been replaced, and requests in progress
            end where they are, so that clients notice nothing. Without it, or where a firewall would drop the
            redirected connections, the running server is stopped after the trial.
          - V(start_first) needs the memory of both servers. Where that is missing, and for an instance of which only
            one can run, for example one with O(instances[].hugepages=hugetlbfs) or O(instances[].rpc_workers), the
            order is V(stop_first).
          - V(stop_first) stops the running server, starts the new one, and restores the previous server if the new one
            does not start.
          - The remarks say in check mode which of these it will be and for about how long nobody will be served, and
            after a run for how long nobody was.
        type: str
        choices: [start_first, stop_first]
        default: start_first
  binary:
    description: The llama-server of all instances without O(instances[].binary).
    type: path
  purge:
    description: Whether other instances that this module made are stopped and removed. Model files are not removed.
    type: bool
    default: false
notes:
  - Needs root, a host that was booted with systemd, and the host tool (M(sovereign.epyc.epyc_host_tool)), whose command
    waits for the server, drains it, and places its files.
  - The module runs in the background of the host, because a large model takes minutes to load. The controller shows
    the starting units, and continues after a lost connection. C(async) and C(poll) of a task work too.
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

- name: Prove that the server is on the planned CPUs and nodes
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
    - The differences. The value of a file's address is its text.
    - C(prepared) is the text that C(--diff) prints; C(changes) has all addresses with their values.
  returned: always
  type: dict
services:
  description: The plan of each instance by its name.
  returned: always
  type: dict
  contains:
    unit:
      description: The name of the unit.
      type: str
    cpus:
      description: The CPUs to which the unit is limited.
      type: str
    busy_cpus:
      description: The CPUs that compute, in the order of the threads.
      type: str
    nodes:
      description: The NUMA nodes of the memory.
      type: str
    need:
      description: The needed memory in bytes, as C(weights), C(kv_cache), C(compute), C(prompt_cache), C(checkpoints)
        and C(total). The memory of a draft in its own process is in C(rpc).
      type: dict
    expect:
      description: Options of M(sovereign.epyc.service_placement_info) that prove this placement of the running service.
      type: dict
    predicted_rate:
      description: The predicted decode rate of one user without speculation; null where it cannot be predicted.
      type: dict
      contains:
        tokens_per_second:
          description: The expected rate; C(low) and C(high) are its range, C(ceiling) is what bandwidth alone allows.
          type: float
        floor_ms:
          description: The milliseconds of operations, barriers and computing; C(memory_ms) are those of reading.
          type: float
        gbps:
          description: The bandwidth in GB/s, C(source) V(measured) or V(paper).
          type: float
        arithmetic:
          description: The numbers in a sentence.
          type: str
    default_choices:
      description: The values that no option sets and that the plan chose, such as fewer threads than cores. Each is one
        of the remarks too.
      type: list
      elements: dict
      contains:
        option:
          description: The option that would set the value.
          type: str
        value:
          description: The chosen value.
          type: raw
        reason:
          description: Why this value was chosen, with the short name of the source.
          type: str
        expected_gain:
          description: What the choice is predicted to gain; empty where nothing is known.
          type: str
        undo:
          description: The line of the inventory that undoes the choice.
          type: str
restarts:
  description: The restarts of running instances that the changes need.
  returned: always
  type: list
  elements: dict
  contains:
    unit:
      description: The name of the unit.
      type: str
    order:
      description: V(start_first) or V(stop_first).
      type: str
    announced_seconds:
      description: The estimated seconds in which nobody is served; 0 where nobody notices the restart.
      type: float
    outage_seconds:
      description: The measured seconds in which nobody was served; none in check mode, and where the address of the
        instance changed.
      type: float
    message:
      description: The same as a sentence, which is one of the remarks.
      type: str
remarks:
  description: Messages on facts that are no errors, but that an operator should know.
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


def build_instance_knobs(params: Mapping[str, Any], host: Host, ledger: Ledger) -> list[Knob]:
    """Return the knobs of all requested instances, and of instances to remove."""
    requests = [{**row, "binary": row["binary"] or params["binary"]} for row in params["instances"]]
    return instances.build_knobs(LlamaEngine(), host, requests, instances.Purge(params["purge"]))


def main() -> None:
    spec = {
        "instances": dict(type="list", elements="dict", required=True, options=options.Options.argument_spec()),
        "binary": dict(type="path"),
        "purge": dict(type="bool", default=False),
        "intent": dict(type="dict"),
    }
    run_converging_module(spec, build_instance_knobs)


if __name__ == "__main__":
    main()
