# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
MAKEFLAGS += --no-print-directory
.DEFAULT_GOAL := help

# The virtual machine to tune: one of the SKUs that `lab/bin/vepyc` knows.
SKU ?= epyc9754
# Its kernel: 6.12 of Debian 13, 6.1 of Debian 12, backports, the newest one that Debian 13 offers, or forky, that of
# the Debian in the making, with its systemd and Python.
KERNEL ?= 6.12
# The inventory and the hosts of `make drift`; without them those of ansible.cfg, and all.
INVENTORY ?=
LIMIT ?=
# What `make ask` asks.
PROMPT ?= What is a NUMA node?
export PROMPT
# What to hand to pytest, for instance ARGS="-k irq -x".
ARGS ?=
# For `make test-all`: some of its tiers, for instance TIER="gates unit", and whether it goes on where it was cut.
TIER ?=
RESUME ?=
# The addresses in the metadata of a release. This project has none that is public.
REPOSITORY ?=
HOMEPAGE ?=
DOCUMENTATION ?=
ISSUES ?=
export REPOSITORY HOMEPAGE DOCUMENTATION ISSUES
# Which bugs `make mutants` plants, and how many.
SEED ?= 1
COUNT ?= 30

RUN := tools/run.sh
# Two workers; a file of tests shares its machines, so one worker has it whole.
PYTEST := $(RUN) pytest -n 2 --dist loadscope --no-loadscope-reorder

help:  ## List the targets
	@sed -nE 's/^([a-z-]+):.*## (.*)/\1\t\2/p' Makefile | expand -t 12

setup:  ## Install what the lab and the tests need; quick when nothing is missing
	@tools/setup.sh

small-setup:
	@tools/setup.sh --site

# What the first command takes counts from its begin, with all that it sets up.
site:  ## Boot a virtual EPYC (SKU=epyc9754, KERNEL=6.12), tune it, reboot it, prove it, and ask the model that it serves
	@begun=$$(date +%s.%N); tools/setup.sh --site --image $(KERNEL); PYTHONPATH=lab $(RUN) tools/site.py $(SKU) --kernel $(KERNEL) --begun "$$begun"

stop: small-setup  ## Switch off the virtual EPYC that `make site` left running, and keep its disk
	@$(RUN) lab/bin/vepyc stop $(SKU)

up: small-setup  ## Boot the virtual EPYC that was switched off, also by the end of this computer, tuned as it was
	@PYTHONPATH=lab $(RUN) tools/site.py $(SKU) --up

ask: small-setup  ## Ask the virtual EPYC that `make site` left running (PROMPT=)
	@PYTHONPATH=lab $(RUN) tools/site.py $(SKU) --ask "$$PROMPT"

watch: setup  ## Show what an operator sees, live: two hosts that serve, a gateway, Prometheus, and their page
	@PYTHONPATH=lab $(RUN) tools/watch.py $(ARGS)

# make itself ends with 2 when a command fails. It ends with 1 only when -q finds something to do, so the play runs while
# this file is read, and its exit code decides on -q: 0 clean, 2 drift, 1 for whatever went wrong.
ifneq ($(filter drift,$(MAKECMDGOALS)),)
$(shell tools/drift.sh $(if $(INVENTORY),-i $(INVENTORY)) $(if $(LIMIT),-l $(LIMIT)) >&2)
MAKEFLAGS += $(if $(filter-out 0 2,$(.SHELLSTATUS)),-q)
DRIFT := $(.SHELLSTATUS)
endif
drift:  ## Report the drift of a fleet (INVENTORY=, LIMIT=) here and as .drift/report.html
	@exit $(DRIFT)

caches: setup  ## Build what `make test` keeps from run to run: images, machines, llama.cpp; seconds when it is there
	PYTHONPATH=lab $(RUN) python -m vepyc.caches everyday

test: caches  ## Run what to run before each push: all gates and unit tests but the slow ones, and a few of each tier
	$(PYTEST) --everyday $(ARGS)

test-all: setup  ## Run every test, for a release (TIER="lab site": some tiers; RESUME=1: what has not passed on this commit)
	PYTHONPATH=lab $(RUN) python -m vepyc.caches all
	$(PYTEST) --all $(if $(TIER),--tier "$(TIER)") $(if $(RESUME),--resume) $(ARGS)

lint: setup  ## Run the gates only: linters, types, headers, ansible-test
	$(RUN) pytest tests/gates $(ARGS)

unit: setup  ## Run the unit tests only
	$(RUN) pytest tests/unit $(ARGS)

lab-test: setup  ## Run only the tests that boot virtual EPYCs
	$(RUN) pytest lab/tests tests/lab $(ARGS)

service-test: setup  ## Run only the tests of services, in containers
	$(RUN) pytest tests/service $(ARGS)

kernels: setup  ## Print how the conformance tests of each knob ended on each kernel of the lab, on these sources
	@PYTHONPATH=lab:. $(RUN) tools/kernels.py

molecule: setup  ## Run only the Molecule scenarios
	$(RUN) pytest tests/molecule $(ARGS)

bench: setup  ## Measure the modules on the virtual 9754 against shell loops and Ansible's ping, as ratios
	PYTHONPATH=.collections:lab:. $(RUN) tools/bench/modules.py

bench-report: setup  ## Measure the reports: folding 5,000 hosts, opening the drift page and the page of plans of 1,000
	PYTHONPATH=.collections:lab:. $(RUN) tools/bench/report.py

bench-fleet: setup  ## Measure a drift check of 1, 10 and 50 hosts against Ansible's ping, as ratios
	PYTHONPATH=.collections:lab:. $(RUN) tools/bench/fleet.py $(ARGS)

bench-llama: setup  ## Have the product measure what it gains on a real small model against a plain llama-server
	PYTHONPATH=.collections:lab:. $(RUN) tools/bench/llama.py $(ARGS)

bench-measuring: setup  ## Show how often ablations and tunings find in their time what they should, on simulated servers
	PYTHONPATH=.collections:lab:. $(RUN) tools/bench/measuring.py $(ARGS)

bench-gateway: setup  ## Measure the gateway before two real llama-servers: its queue, conversations, a failure, reloads
	PYTHONPATH=.collections:lab:. $(RUN) tools/bench/gateway.py $(ARGS)

bench-rows: setup  ## Show where the weights lie with each memory option, on four nodes and on two sockets
	PYTHONPATH=.collections:lab:. $(RUN) tools/bench/rows.py

bench-draft: setup  ## Show how long a draft should be, by temperature with a real model, by size and host as computed
	PYTHONPATH=.collections:lab:. $(RUN) tools/bench/draft.py

bench-prediction: setup  ## Hold predicted decode rates against those that others published for EPYC servers; seconds
	PYTHONPATH=.collections:lab:. $(RUN) tools/prediction.py

bench-driver: setup  ## Hold the load driver of our benchmark against AIPerf, on a real llama-server; 1.2 GB of packages
	PYTHONPATH=.collections:lab:. $(RUN) tools/bench/driver.py $(ARGS)

coverage: setup  ## Run the unit tests, report what of the library they reach, and fail below 95 percent
	$(RUN) coverage run -m pytest tests/unit $(ARGS)
	$(RUN) coverage report

mutants: setup  ## Plant 30 bugs in the library, one at a time, and say which of them the unit tests see (SEED=, COUNT=)
	PYTHONPATH=lab $(RUN) tools/mutants.py --seed $(SEED) --count $(COUNT)

examples: setup  ## Hold every example of the documents and modules against what it speaks of
	PYTHONPATH=.collections:lab:. $(RUN) python -m tools.examples

interface: setup  ## Hold docs/interface.md and the last release against the sources; ARGS=--write renews the page
	PYTHONPATH=.collections:. $(RUN) python -m tools.interface $(ARGS)

docs: setup  ## Build the documents as a site, build/docs/html; asks no network
	$(RUN) tools/docs.py

release: docs  ## Build archive, documents and checksums (REPOSITORY=https://..., where users find the sources)
	$(RUN) tools/release.sh

record: setup  ## Run `make site`, and put what it says into README.md
	@PYTHONPATH=lab $(RUN) tools/site.py $(SKU) --record README.md

day-two: setup  ## Run the procedures of docs/day-two.md on real parts, and put what they print into it; 30 minutes
	@PYTHONPATH=.collections:lab:. $(RUN) python -m tools.day_two $(ARGS)

plans: setup  ## Print what is chosen on seventeen machines for six models; ARGS=--write renews what the test expects
	PYTHONPATH=.collections:lab:. $(RUN) tools/plans.py $(ARGS)

generations: setup  ## Print what each table knows of each generation of EPYC; ARGS=--write renews docs/generations.md
	PYTHONPATH=.collections:lab:. $(RUN) tools/generations.py $(ARGS)

pictures: setup  ## Make the pictures of drift, plans, runs, capacity and what is served in docs anew
	PYTHONPATH=.collections:lab:. $(RUN) tools/pictures/drift.py
	PYTHONPATH=.collections:lab:. $(RUN) tools/pictures/plans.py
	PYTHONPATH=.collections:lab:. $(RUN) tools/pictures/serving.py
	PYTHONPATH=.collections:lab:. $(RUN) tools/pictures/runs.py
	PYTHONPATH=.collections:lab:. $(RUN) tools/pictures/capacity.py

bench-lab: setup  ## Measure the lab
	PYTHONPATH=lab $(RUN) python -m vepyc.bench

clean: setup  ## Shut all virtual EPYCs down
	$(RUN) lab/bin/vepyc down --all

.PHONY: help setup small-setup site stop up ask watch drift caches test test-all lint unit lab-test service-test molecule kernels
.PHONY: bench bench-report bench-fleet bench-llama bench-measuring bench-gateway bench-rows bench-draft bench-driver bench-prediction coverage mutants examples
.PHONY: docs interface release record day-two plans generations pictures bench-lab clean
