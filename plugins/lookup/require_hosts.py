# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
name: require_hosts
short_description: The hosts of a play, or a refusal of a run that would do nothing
version_added: 1.0.0
author: The sovereign.epyc authors (@sovereign-epyc)
description:
  - Returns a pattern of hosts for the keyword C(hosts) of a play. Fails where no host of the inventory matches the
    pattern and the limit of the command line, because Ansible would end such a run with the exit code 0.
  - Without a term, it is the pattern of the playbooks of this collection, the value of the variable C(epyc_hosts) or
    else the group C(epyc_servers). Ansible has only extra variables and those of the play where it reads C(hosts), so
    C(epyc_hosts) in the inventory has no effect there.
  - The variables C(epyc_gateway_group_name), C(epyc_monitoring_group_name) and C(epyc_llama_group_name) name another
    group where the term is C(epyc_gateway), C(epyc_monitoring) or C(epyc_llama_group).
  - Also fails where the command line chooses tags that the play does not have, or begins at a task that this collection
    does not have. Ansible would run no task then, and end with the exit code 0.
  - Checks nothing for C(--syntax-check), C(--list-hosts), C(--list-tasks) and C(--list-tags).
options:
  _terms:
    description: One pattern of hosts, or none.
  tags:
    description: The tags that a user may choose for this play. A play without tags has none.
    type: list
    elements: str
    default: []
seealso:
  - plugin: sovereign.epyc.group_hosts
    plugin_type: lookup
"""

EXAMPLES = r"""
- name: Greet the servers, and fail where there are none
  hosts: "{{ query('sovereign.epyc.require_hosts') }}"
  gather_facts: false
  tasks:
    - name: Print the name of the host
      ansible.builtin.debug:
        msg: "{{ inventory_hostname }} is there."

- name: Greet the hosts of another group, and fail where it is empty
  hosts: "{{ query('sovereign.epyc.require_hosts', 'epyc_gateway') }}"
  gather_facts: false
  tasks:
    - name: Print the name of the host
      ansible.builtin.debug:
        msg: "{{ inventory_hostname }} is there."
"""

RETURN = r"""
_raw:
  description: The pattern.
  type: list
  elements: str
"""

import fnmatch
import os
import re
from typing import TYPE_CHECKING, Any

from ansible import constants, context
from ansible.errors import AnsibleError
from ansible.plugins.lookup import LookupBase

from ansible_collections.sovereign.epyc.plugins.module_utils._notation.suggestions import similar_or_known_words_message
from ansible_collections.sovereign.epyc.plugins.plugin_utils._inventory_names import groups as inventory_groups

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

ROOT = os.path.realpath(os.path.join(os.path.dirname(__file__), "..", ".."))
#: Options of ansible-playbook that only list or check, so that no task runs.
LISTING_OPTIONS = ("syntax", "listhosts", "listtasks", "listtags")
#: A tag that no task has. Users skip this tag so that site.yml runs all tasks, even if the last run still holds.
TAG_OF_NO_TASK = "never"
#: Molecule skips these tags in all runs, so a playbook does not need to have them.
TAGS_SKIPPED_BY_MOLECULE = ("molecule-notest", "notest")
#: The lines of an inventory in YAML that put a host into a group.
EXAMPLE_OF_GROUP = "\n\n{}:\n  hosts:\n    NAME-OF-THE-HOST:\n\n"
TASK_NAME = re.compile(r"^ *(?:- )?name: *[\"']?(.+?)[\"']? *$", re.MULTILINE)


class LookupModule(LookupBase):  # type: ignore[misc]  # ansible-core has no annotations
    def run(self, terms: list[Any], variables: Any = None, **kwargs: Any) -> list[str]:
        """Return the pattern of hosts. Raises AnsibleError, with reason and remedy, where the run would do nothing."""
        self.set_options(var_options=variables, direct=kwargs)
        if len(terms) > 1 or not all(isinstance(term, str) for term in terms):
            raise AnsibleError("require_hosts takes one pattern of hosts, or none.")
        group = terms[0] if terms else inventory_groups.SERVERS
        pattern = inventory_groups.choose_group_pattern(group, variables, self._templar.template)
        command_line = context.CLIARGS
        if not any(command_line.get(option) for option in LISTING_OPTIONS):
            refusal = (
                wrong_tags_reason(self.get_option("tags"), variables)
                or unknown_start_task_reason(command_line.get("start_at_task"))
                or missing_hosts_reason(pattern, variables)
            )
            if refusal:
                raise AnsibleError(f"{refusal} Nothing was changed.")
        return [pattern]


def wrong_tags_reason(tags: Sequence[str], variables: Mapping[str, Any]) -> str:
    """Return why the tags of the command line are wrong for a play with these ``tags``; "" if they are right."""
    everything = ("all", "tagged" if tags else "untagged")
    chosen = [tag for tag in variables["ansible_run_tags"] if tag not in (*everything, *tags)]
    harmless = (TAG_OF_NO_TASK, *TAGS_SKIPPED_BY_MOLECULE, *tags)
    skipped = [tag for tag in variables["ansible_skip_tags"] if tag not in harmless]
    if not chosen and not skipped:
        return ""
    option, unknown = ("--tags", chosen) if chosen else ("--skip-tags", skipped)
    remedy = (
        similar_or_known_words_message(unknown[0], tags, "its tags are")
        if tags
        else f"it has none, so leave out {option}."
    )
    return f"{option} names {', '.join(unknown)}, which is no tag of this playbook; {remedy}"


def unknown_start_task_reason(pattern: str | None) -> str:
    """Return the sentence that no task has the name of ``--start-at-task``; "" if a task has it."""
    if not pattern:
        return ""
    # Ansible shows the name of a role's task after the name of the role.
    short = pattern.rpartition(" : ")[2]
    if any(name in (pattern, short) or fnmatch.fnmatch(name, short) for name in read_task_names(ROOT)):
        return ""
    return f"--start-at-task names {pattern!r}, and no task of this collection has that name."


def read_task_names(root: str) -> Iterator[str]:
    """Yield the names of all tasks of the collection's playbooks and roles."""
    for folder in ("playbooks", "roles"):
        for place, dummy, names in os.walk(os.path.join(root, folder)):
            for name in names:
                if name.endswith(".yml"):
                    with open(os.path.join(place, name), encoding="utf-8") as file:
                        yield from TASK_NAME.findall(file.read())


def missing_hosts_reason(pattern: str, variables: Mapping[str, Any]) -> str:
    """Return why no host of the inventory matches the pattern and the limit; "" if a host does."""
    groups, limit = variables["groups"], variables.get("ansible_limit") or ""
    # Ansible would warn of a missing group beside the refusal.
    is_empty_group = pattern in inventory_groups.GROUP_VARIABLES and not groups.get(pattern)
    if not is_empty_group and inventory_groups.list_hosts_of_pattern(pattern, groups, limit):
        return ""
    source = format_inventory_sources(variables.get("ansible_inventory_sources") or [])
    # The implicit localhost is in no group, so localhost matches in an empty inventory too.
    if not groups["all"] and pattern not in constants.LOCALHOST:
        return f"No host was reached, because {source} names none. Say with -i which inventory to read."
    if is_empty_group:
        others = f"name a group of yours with -e {inventory_groups.GROUP_VARIABLES[pattern]}=GROUP"
        if pattern == inventory_groups.SERVERS:
            others += ", or every host with -e epyc_hosts=all"
        return (
            f"No host was reached: of {len(groups['all'])} in {source}, none is in the group {pattern}. Put a host "
            f"there, in YAML as{EXAMPLE_OF_GROUP.format(pattern)}or {others}."
        )
    reason = f"No host was reached: of {len(groups['all'])} in {source}, none matches {pattern!r}"
    if limit:
        return f"{reason} and the limit {limit!r}. Choose other hosts with -l, or leave it out."
    return f"{reason}. Put a host there, or say with -i which inventory to read."


def format_inventory_sources(sources: Sequence[str]) -> str:
    """Return the inventories as a part of a sentence, with a note for each path that does not exist."""
    texts = [
        str(source) if "," in source or os.path.exists(source) else f"{source} (which does not exist)"
        for source in sources
    ]
    return f"the inventory {' and '.join(texts) or 'of this run'}"
