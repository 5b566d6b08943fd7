import sys
from pathlib import Path
root=Path(sys.argv[1])
def sub(t,*pairs):
    import subprocess
    for a,b in pairs:
        p=root/t
        ps=[p] if p.exists() and a in p.read_text() else []
        if not ps:
            base=t.rsplit("/",1)[-1]
            for q in subprocess.run(["git","ls-files","--cached","--others","--exclude-standard"],cwd=root,capture_output=True,text=True).stdout.split():
                q=root/q
                if q.is_file() and not q.is_symlink() and q.suffix in (".py",".yml",".md") and "changelogs" not in str(q):
                    if a in q.read_text(): ps.append(q)
        if not ps: print("NOT FOUND",t,repr(a[:90]))
        for p in ps: p.write_text(p.read_text().replace(a,b))
sub("plugins/plugin_utils/_preflight.py",('f"__grub_params_{name}"','f"__epyc_grub_params_{name}"'))
sub("tests/unit/plugins/plugin_utils/test_run_request.py",('("plan_verfy", "epyc_plan_verify")','("epyc_plan_verfy", "epyc_plan_verify")'),('("llama_instnaces"','("epyc_llama_instnaces"'),('("numa_tph"','("epyc_numa_tph"'),('("site_host"','("epyc_site_host"'))
sub("tests/unit/plugins/plugin_utils/test_preflight.py",('ROLES / layer / file / "main.yml"','ROLES / f"epyc_{layer}" / file / "main.yml"'),('"role", sorted({path.parents[1].name for path','"layer", sorted({path.parents[1].name.removeprefix("epyc_") for path'),('refused_nowhere(role: str)','refused_nowhere(layer: str)'),('ask(role).refusals','ask(layer).refusals'))
sub("tests/unit/plugins/module_utils/_drift/test_origin.py",('= tasks.parts[-3]','= tasks.parts[-3].removeprefix("epyc_")'),('"sysfs:numa_balancing", "numa_balancing")','"sysfs:numa_balancing", "epyc_numa_balancing")'))
sub("tests/unit/plugins/action/test_epyc_last_run.py",('{"numa_new"','{"epyc_numa_new"'),("numa_password=","epyc_numa_password="),("numa_x=","epyc_numa_x="),('"numa_x has','"epyc_numa_x has'))
sub("plugins/module_utils/_knobs/catalogue.py",('"numa_balancing": "numa_balancing"','"numa_balancing": "epyc_numa_balancing"'))
sub("plugins/module_utils/_serving/recommend/host_variables.py",('            "numa_balancing",\n','            "epyc_numa_balancing",\n'))
sub("tests/unit/plugins/plugin_utils/test_run_request.py",('["plan_verfy", "numa_x"], ["numa_x"]','["epyc_plan_verfy", "epyc_numa_x"], ["epyc_numa_x"]'))
sub("tests/lab/test_site.py",('{"plan_verfy"','{"epyc_plan_verfy"'),('no variable plan_verfy;','no variable epyc_plan_verfy;'))
sub("tests/gates/test_playbooks.py",('"plan_verfy"','"epyc_plan_verfy"'),('no variable plan_verfy;','no variable epyc_plan_verfy;'))
sub("tests/gates/test_docs.py",('numa_tph: never\\n```": "numa_tph"','epyc_numa_tph: never\\n```": "epyc_numa_tph"'))
