import re,sys,json
from pathlib import Path
import yaml
root=Path(sys.argv[1]) if len(sys.argv)>1 else Path("/work/main")
roles=[p.name for p in (root/"roles").iterdir() if p.is_dir()]
V={}
def add(n,w):
    if isinstance(n,str) and re.fullmatch(r"_{0,2}[a-z][a-z0-9_]*",n): V.setdefault(n,set()).add(w)
class L(yaml.SafeLoader): pass
L.add_multi_constructor("!",lambda l,s,n: None)
def walk(x,w):
    if isinstance(x,dict):
        for k,v in x.items():
            if k=="register": add(v,w)
            if k in("vars","ansible.builtin.set_fact") and isinstance(v,dict):
                for n in v: add(n,w)
            if k=="loop_control" and isinstance(v,dict) and "loop_var" in v: add(v["loop_var"],w)
            walk(v,w)
    elif isinstance(x,list):
        for y in x: walk(y,w)
for f in [*root.glob("roles/*/**/*.yml"),*root.glob("playbooks/**/*.yml"),*root.glob("extensions/**/*.yml")]:
    if ".collections" in str(f) or "/collections/" in str(f): continue
    d=yaml.load(f.read_text(),Loader=L)
    rel=f.relative_to(root)
    if rel.parts[0]=="roles":
        r=rel.parts[1]
        if rel.parts[2] in("defaults","vars"):
            for n in d or {}: add(n,"role:"+r)
        if rel.parts[2]=="meta" and rel.name=="argument_specs.yml":
            for e in d["argument_specs"].values():
                for n in e.get("options",{}): add(n,"spec:"+r)
    walk(d,str(rel))
# variables only read (| default)
for n in re.findall(r"`((?:%s)_[a-z_]+)`"%"|".join(roles+["site","tune","ask","ablation","benchmark","roll","drain","analyse","drift","recommend"]), "".join(p.read_text() for p in (root/"docs").glob("*.md"))): V.setdefault(n,set()).add("docs")
print(json.dumps({k:sorted(v) for k,v in sorted(V.items())},indent=0))
