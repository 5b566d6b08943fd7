# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The commands of the host tool: its usage text, from which the manual page is made, and the words to complete.

It imports nothing, because the module that installs the host tool reads it too.
"""

from __future__ import annotations

USAGE = """usage: sovereign-epyc [COMMAND] [--json] [--textfile FILE]

  plan      show which CPUs each role gets on this host under the stored intent
  check     compare every stored setting with the running kernel, and what site.yml was asked for with what is there;
            changes nothing
  apply     apply every stored setting; the boot service runs this
  repair    put back what has drifted, repair [ROLE,ROLE], unless somebody else sets it again and again, and say what
            it leaves alone
  watch     move new interrupts to the CPUs that the stored settings name, until it is stopped; a service runs this
  settle    put the stored settings back where an ablation or a tuning has left others; it ends one that goes on
  restore   put back everything that was ever changed, and forget the stored settings, or only those of some layers of
            site.yml, restore [LAYER,LAYER]
  show      draw the host as a map of who works where, and list the versions of the collection, the stored requests and
            the originals that restore would put back; the map has colours on a terminal, unless NO_COLOR is set
  history   list the runs that changed this host: when, by whom, from where, and what; history --forget drops them
  agent     show what gateways are told of the instances, and why, agent [INSTANCE]; agent --help lists its options
  bench     measure what an instance does, bench [INSTANCE]; bench --stop ends the run that measures on this host, and
            puts everything back; bench --help lists its options
  llama     what the units of llama.cpp servers call; alone, it lists its commands
  group     run the programs of a group of hosts as one, as its units call it; alone, it lists its commands

Without a command it shows the state of the host on one screen: tuned since when and by whom, what waits for a reboot,
who serves and at which speed, what is wrong, and the next step. It changes nothing, and its exit code is that of check.
apply --retry tries again, three times, where something failed that may be there later.
restore --without-originals takes back what bears our mark where the record of originals is lost, and says what it
cannot know.
--version shows the version of the collection that this command is of.
--textfile makes check also write its findings as Prometheus metrics, for the textfile collector of node_exporter.
"""
#: Command -> its options. The commands bench, agent, llama and group parse their words themselves.
OPTIONS = {
    "plan": ("--json",),
    "check": ("--json", "--textfile"),
    "apply": ("--json", "--retry"),
    "repair": ("--json",),
    "watch": ("--json",),
    "settle": ("--json",),
    "restore": ("--json", "--without-originals"),
    "show": ("--json",),
    "history": ("--json", "--forget"),
    "agent": ("--help", "--join", "--leave"),
    "bench": (
        "--baseline",
        "--compare",
        "--csv",
        "--depths",
        "--help",
        "--json",
        "--kinds",
        "--memory",
        "--no-second-turn",
        "--output",
        "--prompts",
        "--rate",
        "--rounds",
        "--slo",
        "--stop",
        "--streams",
        "--timeout",
        "--tokens",
    ),
    "llama": (),
    "group": (),
}
#: Exit code -> what it means, for the commands that look at or change settings.
EXIT_CODES = {
    0: "everything is as configured, or was done",
    1: "a failure, or words that are no command",
    2: "a check found drift or an unknown value, a repair left a setting wrong, or a run proves nothing",
}
