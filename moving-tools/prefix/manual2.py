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
sub("plugins/module_utils/_bench/tuning.py",("as ``epyc_llama_tuned`` has it; nothing where the default stays.","as ``epyc_llama_tuned`` has it; none where the default stays."))
sub("tests/service/test_gateway.py",("so a roll refuses it unless epyc_gateway_drain_last accepts a time without it.","so a roll refuses it unless epyc_gateway_drain_last accepts a gap."))
sub("tests/unit/plugins/filter/test_model_filters.py",("what the catalogue has, what epyc_llama_models and instances make of it, and what is refused.","what the catalogue has, what epyc_llama_models and instances make of it, and refusals."))
sub("playbooks/site.yml",("    epyc_site_layers: [prerequisites, base, bios, bios_check, numa, grub_params, irq, cat, cpufreq, cpuidle, prefetch,\n      llama]\n","    epyc_site_layers:\n      [prerequisites, base, bios, bios_check, numa, grub_params, irq, cat, cpufreq, cpuidle, prefetch, llama]\n"))
sub("roles/epyc_gateway/tasks/keepalived.yml",(".content is\n      defined\n",".content\n         is defined\n"))
sub("roles/epyc_group/vars/main.yml",("== 'source' else\n  '')\n","== 'source'\n                               else '')\n"))
sub("roles/epyc_llama/vars/main.yml",("__epyc_llama_made |\n  default({})]\n","__epyc_llama_made\n      | default({})]\n"))
sub("roles/epyc_prefetch/vars/main.yml",("__epyc_prefetch_cpus.draft\n  else [])\n","__epyc_prefetch_cpus.draft\n      else [])\n"))
sub("plugins/module_utils/_bench/tuning.py",("Return what is to be stored of a proven gain, as ``epyc_llama_tuned`` has it; none where the default stays.","Return what to store of a proven gain, as ``epyc_llama_tuned`` has it; none where the default stays."))
sub("plugins/module_utils/_knobs/layers.py",('variable.startswith(f"{layer}_")','variable.startswith(f"epyc_{layer}_")'))
sub("plugins/action/epyc_last_run.py",('f"{layer}_" for','f"epyc_{layer}_" for'),('values.get(f"{layer}_persistent"','values.get(f"epyc_{layer}_persistent"'),('f"{layer}_persistent is','f"epyc_{layer}_persistent is'))
sub("tests/gates/test_asked.py",('f"roles/{layer}/','f"roles/epyc_{layer}/'),('defaults[f"{layer}_','defaults[f"epyc_{layer}_'),('defaults.get(f"{layer}_','defaults.get(f"epyc_{layer}_'))
sub("extensions/molecule/tasks/said.yml",("sovereign.epyc.{{ scenario }}","sovereign.epyc.epyc_{{ scenario }}"))
for t in ("repaired","side_effect","converge"): sub(f"extensions/molecule/tasks/{t}.yml",("sovereign.epyc.{{ item }}","sovereign.epyc.epyc_{{ item }}"))
