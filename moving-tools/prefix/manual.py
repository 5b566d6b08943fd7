import re,sys
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
sub("roles/epyc_numa/tasks/main.yml",("{{ numa_balancing }}","{{ epyc_numa_balancing }}"))
sub("roles/epyc_numa/README.md",("`numa_balancing`","`epyc_numa_balancing`"))
sub("roles/epyc_numa/meta/argument_specs.yml",("      numa_balancing:","      epyc_numa_balancing:"))
sub("roles/epyc_numa/defaults/main.yml",("\nnuma_balancing:","\nepyc_numa_balancing:"))
sub("docs/recipe.yml",("variable: numa_balancing","variable: epyc_numa_balancing"))
sub("docs/risks.md",("`numa_balancing: false`","`epyc_numa_balancing: false`"))
sub("inventories/example/group_vars/all.yml",("\nnuma_balancing:","\nepyc_numa_balancing:"))
sub("tools/bench_llama.py",(", analyse_file=",", epyc_analyse_file="),(", analyse_page=",", epyc_analyse_page="))

for t in ("playbooks/repair.yml","playbooks/drift.yml"): sub(t,("asked: \"{{ asked }}\"","asked: \"{{ epyc_asked }}\""))
sub("playbooks/verify.yml",("\"{{ asked }}\"","\"{{ epyc_asked }}\""))
sub("playbooks/vars/asked.yml",("\nasked:","\nepyc_asked:"))
sub("plugins/plugin_utils/_gateway.py",("gateway_{key}","epyc_gateway_{key}"),("gateway_{other}","epyc_gateway_{other}"))
for t in ("tests/lab/test_bios_walk.py","tests/lab/test_bios_play.py"): sub(t,("bios_{name}","epyc_bios_{name}"))
sub("tests/unit/fakes/sized_hosts.py",("plan_{name}","epyc_plan_{name}"))
