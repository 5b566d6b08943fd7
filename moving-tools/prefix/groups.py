import re,subprocess,sys
from pathlib import Path
root=Path(sys.argv[1])
S=[(r"groups\['gateway'\]","groups['epyc_gateway']"),(r"groups\.gateway\b","groups.epyc_gateway"),
   (r"require_hosts', '(gateway|monitoring)'",r"require_hosts', 'epyc_\1'"),
   (r'"gateway": \{"hosts"','"epyc_gateway": {"hosts"'),
   (r'"-l", "gateway"\)','"-l", "epyc_gateway")'),
   (r'groups = \("gateway", "monitoring", ','groups = ("epyc_gateway", "epyc_monitoring", '),
   (r'for name in \("monitoring", "gateway"\)\}','for name in ("epyc_monitoring", "epyc_gateway")}'),
   (r'"children": \{"gateway": first, "monitoring": first\}','"children": {"epyc_gateway": first, "epyc_monitoring": first}'),
   (r'children: dict\[str, Any\] = \{"gateway"','children: dict[str, Any] = {"epyc_gateway"'),
   (r'"children": \{"gateway": \{"hosts": gateways\}\}','"children": {"epyc_gateway": {"hosts": gateways}}'),
]
for t in subprocess.run(["git","ls-files"],cwd=root,capture_output=True,text=True).stdout.split():
    p=root/t
    if not p.is_file() or p.is_symlink() or t.startswith("changelogs/"): continue
    try: s=p.read_text()
    except UnicodeDecodeError: continue
    n=s
    for a,b in S: n=re.sub(a,b,n)
    if n!=s: p.write_text(n)
for t,subs in {"docs/exit-codes.md":[("group `gateway`","group `epyc_gateway`"),("group `monitoring`","group `epyc_monitoring`")],
 "docs/monitoring.md":[("    monitoring:\n","    epyc_monitoring:\n"),("group `gateway`","group `epyc_gateway`")],
 "docs/gateway.md":[("    gateway:\n","    epyc_gateway:\n"),("group `gateway`","group `epyc_gateway`")],
 "roles/epyc_gateway/README.md":[("group `gateway`","group `epyc_gateway`")],"roles/epyc_reboot/README.md":[("group `gateway`","group `epyc_gateway`")],
 **{t:[("group gateway","group epyc_gateway"),("group monitoring","group epyc_monitoring")] for t in ["roles/epyc_gateway/tasks/drain.yml","playbooks/roll.yml","playbooks/tasks/gateways.yml","playbooks/reboot.yml","playbooks/monitoring.yml","playbooks/gateway.yml","plugins/plugin_utils/_gateway_pair.py","plugins/module_utils/_gateway/haproxy.py","plugins/modules/gateway_member.py"]}}.items():
    p=root/t
    if not p.exists(): print('NO',t); continue
    s=p.read_text()
    for a,b in subs: s=s.replace(a,b)
    p.write_text(s)
