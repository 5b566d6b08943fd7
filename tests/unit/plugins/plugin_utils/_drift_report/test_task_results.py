# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from typing import Any

from ansible_collections.sovereign.epyc.plugins.module_utils._drift import findings as drift_findings
from ansible_collections.sovereign.epyc.plugins.plugin_utils._drift_report import task_results

SYSFS = "sovereign.epyc.sysfs_settings"
HIDDEN = {"_ansible_no_log": True, "changed": True, "censored": "the output has been hidden"}


def change(before: dict[str, Any], after: dict[str, Any]) -> dict[str, Any]:
    return {"changed": True, "diff": {"changes": {"before": before, "after": after}}}


def test_a_check_of_all_layers_returns_their_counts() -> None:
    module, counts = "sovereign.epyc.epyc_last_run", {"sysfs": {"ok": 4}}
    answer = {"changed": False, "holds": True, "coverage": counts}
    assert task_results.check_mode_result_to_findings("Look", "", module, answer) == ([], counts)
    assert task_results.check_mode_result_to_findings(
        "Look", "", module, {"changed": False, "holds": False, "reason": "why"}
    ) == ([], {})


def test_a_result_of_the_drift_module_is_used_unchanged() -> None:
    result: dict[str, Any] = {"findings": [{"what": "x"}], "coverage": {"msr": {"ok": 1}}}
    assert task_results.drift_result_to_findings(result) == (result["findings"], result["coverage"], None)
    assert task_results.drift_result_to_findings({**result, "map": {}}) == (result["findings"], result["coverage"], {})
    assert task_results.drift_result_to_findings({"msg": "/var/lib cannot be read"}) is None


def test_bios_settings_become_findings() -> None:
    row = {"option": "nps", "title": "nodes", "attribute": "Nps", "wanted": "4", "active": "1", "sentence": "Nps is 1."}
    verdicts = ["claimed by firmware", "wrong", "waits for a reboot", "not on this machine"]
    result = {"changed": False, "settings": [{**row, "verdict": verdict} for verdict in verdicts]}
    findings, counts = task_results.bios_result_to_findings("Ask", result)
    assert counts == {"bios": {"ok": 1, "unsupported": 1, "unknown": 0, "drift": 2}}
    wrong, waits, absent = findings
    assert (wrong["live"], wrong["persistent"], wrong["at_boot"], wrong["reason"]) == (
        "drift",
        "drift",
        "1",
        "Nps is 1",
    )
    assert (wrong["where"], wrong["variables"], wrong["repair"]) == (
        "Nps",
        ["epyc_bios_nps"],
        "sovereign.epyc.site --tags bios",
    )
    assert (waits["pending_reboot"], waits["persistent"], waits["at_boot"]) == (True, "ok", "4")
    assert waits["repair"] == "sovereign.epyc.reboot -e epyc_reboot_ok=true"
    assert (absent["status"], absent["live"]) == ("unsupported", "ok")
    assert task_results.check_mode_result_to_findings("Ask", "bios", "sovereign.epyc.epyc_bmc_bios", result) == (
        findings,
        counts,
    )
    (lost,), counts = task_results.bios_result_to_findings("Ask", {"msg": "The BMC b cannot be reached."})
    assert (lost["status"], lost["reason"], counts["bios"]["unknown"]) == ("unknown", "The BMC b cannot be reached.", 1)


def test_a_change_of_the_running_host() -> None:
    result = change({"sysfs:thp/enabled": "always"}, {"sysfs:thp/enabled": "madvise"})
    (one,), counts = task_results.check_mode_result_to_findings("Set it", "numa", SYSFS, result)
    assert (one["what"], one["found"], one["wanted"]) == ("transparent huge pages", "always", "madvise")
    assert (one["live"], one["persistent"], one["status"]) == ("drift", "unknown", "drift")
    assert (one["role"], one["variables"]) == ("numa", ["epyc_numa_thp"])
    assert one["repair"] == "", "the run without --check"
    assert counts == {"sysfs": {"ok": 0, "unsupported": 0, "unknown": 0, "drift": 1}}


def test_a_change_of_the_next_boot() -> None:
    result = change({"cmdline:nohz_full": None}, {"cmdline:nohz_full": "1-7"})
    (one,), dummy = task_results.check_mode_result_to_findings(
        "Set it", "grub_params", "sovereign.epyc.kernel_cmdline", result
    )
    assert (one["live"], one["persistent"], one["at_boot"]) == ("unknown", "drift", "nothing")


def test_a_change_of_what_is_stored() -> None:
    result = change({"desired:sysfs/numa": None}, {"desired:sysfs/numa": "{}"})
    (one,), counts = task_results.check_mode_result_to_findings("Set it", "numa", SYSFS, result)
    assert (one["layer"], one["found"], one["wanted"]) == ("boot", "nothing", "stored")
    assert counts["boot"]["drift"] == 1


def test_kernel_modules_for_registers_are_reported_as_changes() -> None:
    after = {"msr:module/cpuid": "loaded", "msr:module/msr": "loaded"}
    module = "sovereign.epyc.msr_bits"
    findings, counts = task_results.check_mode_result_to_findings(
        "Switch", "prefetch", module, change(dict.fromkeys(after), after)
    )
    assert [one["what"] for one in findings] == ["kernel module cpuid", "kernel module msr"]
    assert counts["msr"]["drift"] == 2


def test_an_unreadable_result_makes_its_layers_unknown() -> None:
    (one,), counts = task_results.unreadable_result_finding(
        "Switch", "prefetch", "sovereign.epyc.msr_bits", ValueError("no number")
    )
    assert (one["layer"], one["status"], one["repair"]) == ("msr", "unknown", "sovereign-epyc check")
    assert "cannot read what this task returned (ValueError: no number)" in one["reason"]
    assert counts == {"msr": {"ok": 0, "unsupported": 0, "unknown": 1, "drift": 0}}
    dummy, counts = task_results.unreadable_result_finding(
        "Check", "", "sovereign.epyc.epyc_drift_info", ValueError("no number")
    )
    assert counts == {layer: {"unknown": 1} for layer in drift_findings.LAYERS}, "it is about all of them"


def test_an_enabled_service_is_about_the_next_boot_and_its_run_about_now() -> None:
    before = {
        "host_tool:sovereign-epyc.service/enabled": "disabled",
        "host_tool:sovereign-epyc-watch.service/active": "failed",
    }
    after = dict(zip(before, ("enabled", "active")))
    one, two = task_results.check_mode_result_to_findings(
        "Install it", "base", "sovereign.epyc.epyc_host_tool", change(before, after)
    )[0]
    assert (one["what"], one["where"], one["wanted"]) == ("boot service", "sovereign-epyc.service", "enabled")
    assert (one["live"], one["persistent"], one["at_boot"]) == ("ok", "drift", "disabled")
    assert (two["what"], two["live"], two["found"]) == ("run of the watch service", "drift", "failed")


def test_a_kernel_module_is_about_now_and_its_file_about_the_next_boot() -> None:
    after = {"prerequisites:module/msr": "loaded", "prerequisites:/etc/modules-load.d/sovereign-epyc.conf": "9f86d081"}
    result = change(dict.fromkeys(after), after)
    module = "sovereign.epyc.epyc_prerequisites"
    driver, file = task_results.check_mode_result_to_findings("Load them", "prerequisites", module, result)[0]
    assert (driver["what"], driver["live"], driver["found"]) == ("kernel module msr", "drift", "nothing")
    assert (file["where"], file["live"], file["persistent"]) == (
        "/etc/modules-load.d/sovereign-epyc.conf",
        "unknown",
        "drift",
    )


def test_an_instance_that_differs_from_its_plan_is_drift() -> None:
    before = {
        "llama:/etc/systemd/system/llama-chat.service.d/nice.conf": "[Service]\nNice=5\n",
        "llama:llama-chat.service/active": "failed",
    }
    after = dict(zip(before, (None, "active")))
    one, two = task_results.check_mode_result_to_findings(
        "Run them", "llama", "sovereign.epyc.llama_server", change(before, after)
    )[0]
    assert (one["what"], one["found"], one["wanted"]) == (
        "drop-in nice.conf of instance chat",
        "a text of 2 lines",
        "nothing",
    )
    assert (two["what"], two["live"], two["found"]) == ("run of instance chat", "drift", "failed")
    assert {one["role"], two["role"]} == {"llama"}, "also of a file in the folder of units"


def test_an_undo_reports_the_values_it_restores() -> None:
    result = change({"sysfs:thp/enabled": "never"}, {"sysfs:thp/enabled": "always"})
    (one,), dummy = task_results.check_mode_result_to_findings("Put back", "", "sovereign.epyc.epyc_restore", result)
    assert (one["found"], one["wanted"], one["reason"]) == ("never", "always", task_results.PUT_BACK_REASON)


def test_a_change_of_a_read_only_module_is_no_drift() -> None:
    for action in ("sovereign.epyc.llama_benchmark", "ansible.builtin.group_by"):
        findings, counts = task_results.check_mode_result_to_findings("Measure", "", action, {"changed": True})
        assert findings == [] and counts == {"other": {"ok": 1, "unsupported": 0, "unknown": 0, "drift": 0}}


def test_a_repair_in_check_mode_reports_the_whole_host() -> None:
    kinds: dict[str, Any] = {name: [] for name in ("repaired", "given_up", "left", "left_alone")}
    counts = {"sysfs": {"ok": 1, "drift": 2}}
    result = {**kinds, "repaired": [{"what": "a"}], "left_alone": [{"what": "b"}], "coverage": counts}
    assert task_results.repair_result_to_findings(result) == ([{"what": "a"}, {"what": "b"}], counts, None)
    assert task_results.repair_result_to_findings({"msg": "desired.json cannot be read"}) is None


def test_unchanged_instances_count_as_a_setting_of_their_layer() -> None:
    counts = task_results.check_mode_result_to_findings(
        "Run", "llama", "sovereign.epyc.llama_server", {"changed": False}
    )[1]
    assert counts == {"llama": {"ok": 1, "unsupported": 0, "unknown": 0, "drift": 0}}


def test_an_unchanged_task_counts_as_a_setting() -> None:
    assert task_results.check_mode_result_to_findings(
        "Set it", "numa", SYSFS, {"changed": False, "diff": {"changes": {"before": {}, "after": {}}}}
    ) == (
        [],
        {"sysfs": {"ok": 1, "unsupported": 0, "unknown": 0, "drift": 0}},
    )


def test_a_task_that_check_mode_skips_is_unknown_unless_a_condition_skipped_it() -> None:
    left_out = {"changed": False, "msg": "Command would have run if not in check mode"}
    (one,), counts = task_results.check_mode_result_to_findings(
        "Do it", "", "ansible.builtin.command", left_out, skipped=True
    )
    assert (one["status"], one["what"], one["reason"]) == ("unknown", "Do it", left_out["msg"])
    assert counts["other"]["unknown"] == 1
    for key in ("skip_reason", "false_condition"):
        assert task_results.check_mode_result_to_findings(
            "Do it", "", "ansible.builtin.command", {key: "when"}, skipped=True
        ) == ([], {})


def test_a_foreign_module_is_reported_by_task_and_path() -> None:
    (one,), counts = task_results.check_mode_result_to_findings(
        "Write", "", "ansible.builtin.copy", {"changed": True, "dest": "/etc/x"}
    )
    assert (one["what"], one["where"], one["repair"], counts["other"]["drift"]) == ("Write", "/etc/x", "", 1)
    text = change({"a": "1"}, {"a": "2"})
    (one,), dummy = task_results.check_mode_result_to_findings("Write", "", "ansible.builtin.lineinfile", text)
    assert one["what"] == "Write", "its diff is not one of ours"


def test_each_item_of_a_loop_is_reported() -> None:
    result = {
        "changed": True,
        "results": [{"changed": True, "item": "a"}, {"changed": False, "item": "b"}, {"skip_reason": "when"}],
    }
    (one,), counts = task_results.check_mode_result_to_findings(
        "Write", "prerequisites", "ansible.builtin.copy", result
    )
    assert (one["where"], one["layer"], counts["other"]["ok"], counts["other"]["drift"]) == ("a", "other", 1, 1)


def test_no_log_is_honoured() -> None:
    for result in (HIDDEN, {**HIDDEN, "results": [HIDDEN]}):
        (one,), dummy = task_results.check_mode_result_to_findings("Secret", "", "ansible.builtin.copy", result)
        assert (one["what"], one["where"], one["reason"]) == ("Secret", "", "the task has no_log")
