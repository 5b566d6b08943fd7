import re
from pathlib import Path
S=Path("plugins/module_utils/_serving")
PRIV={
"unit/dependents.py":{"_has":"_has_prefix","_expectations":"_list_expectations"},
"unit/drift.py":{"_shown":"_read_unit_states","_verdict":"_make_verdict","_of_unit":"_judge_unit","_file":"_judge_file","_drop_ins":"_judge_drop_ins","_loaded":"_judge_loaded_files","_state":"_judge_state"},
"unit/installed.py":{"_expected":"_expected_value","_name_of":"_instance_name"},
"unit/instance.py":{"_text":"_read_unit_text","_staging_folders":"_parse_staging_folders","_unit_of_file":"_unit_of_address"},
"unit/instances.py":{"_freed":"_memory_freed_by","_proof":"_make_proof","_loaded":"_read_loaded_files"},
"unit/planned.py":{"_share":"_release_shared_weights","_reserve":"_reserve_for","_held_by_unit":"_list_memory_of_unit"},
"unit/refusals.py":{"_placed":"_format_placement","_user":"_require_user"},
"unit/timing.py":{"_size":"_total_file_bytes"},
"unit/beside.py":{"_in_use":"_memory_mapped_by_running"},
"unit/check.py":{"_of_unit":"_message_about_unit"},
"unit/files.py":{"_server_unit":"_render_server_unit"},
"hooks/cli.py":{"_parse":"_parse_arguments","_await":"_await_server","_drain":"_drain_server","_engine":"_parse_engine","_key":"_read_key","_stage":"_stage_model","_place":"_place_model","_rows":"_spread_rows","_tell":"_print_line","_home":"_move_http_threads","_watch":"_watch_server","_reach":"_reach_workers","_seconds":"_parse_timeout","_main_process":"_main_process_id"},
"hooks/http.py":{"_ended":"_has_ended","_why":"_refusal_reason","_work_of":"_count_requests","_not_loaded":"_unloaded_model_message"},
"hooks/rows.py":{"_lacking":"_shortage_message","_read":"_read_all_nodes","_read_node":"_read_on_node"},
"hooks/stage.py":{"_fill":"_copy_contents","_stage":"_stage_file","_nodes":"_count_pages_by_node","_check_nodes":"_require_nodes","_check_space":"_require_space","_new_file":"_open_new_file"},
"verify/jitter.py":{"_cpus":"_read_cpus"},
"verify/trial.py":{"_count":"_count_guesses","_metrics":"_read_metrics","_speculative":"_can_speculate","_ask_for_rows":"_request_vectors"},
"verify/verify.py":{"_states":"_read_model_states","_tried":"_try_request","_failed":"_failed_trial","_watch":"_start_watch","_proof":"_finish_watch","_facts":"_measured_facts","_locality":"_compute_locality"},
"verify/metrics.py":{"_of_threads":"_add_thread_samples","_of_memory":"_add_memory_samples"},
"vllm/engine.py":{"_peers":"_allowed_peers","_environment":"_process_variables"},
"vllm/plan.py":{"_remarks":"_list_remarks"},
"vllm/probe.py":{"_run":"_run_program","_way_out":"_advice"},
}
tests={p:p.read_text() for p in Path("tests").rglob("*.py")}
changed=set()
for f,m in PRIV.items():
    p=S/f
    if not p.exists(): print("none",f); continue
    t=p.read_text()
    for a,b in m.items():
        if not re.search(rf"def {a}\(",t): print("NODEF",f,a); continue
        if re.search(rf"def {b}\(",t): print("EXISTS",f,b); continue
        t=re.sub(rf"(?<![\w\"']){a}(?=\(|\)|,|\}}| |$|\])(?!\w)",b,t,flags=re.M) if True else t
        mod=p.stem
        for q,x in tests.items():
            if "_serving" not in x: continue
            y=re.sub(rf"\b({mod}|planning|unit_text|refusals|verify|trials|server_http)\.{a}\b(?=\W)",rf"\1.{b}",x) if re.search(rf"import {mod}\b|import \w+ as|{mod}",x) else x
            y=re.sub(rf"(setattr\({mod}, )\"{a}\"",rf'\1"{b}"',y)
            if y!=x: tests[q]=y; changed.add(q)
    p.write_text(t)
for q in changed: q.write_text(tests[q]); print("test",q)
