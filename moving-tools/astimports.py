import ast, subprocess, re
from pathlib import Path
files=[f for f in subprocess.run(["git","ls-files","*.py"],capture_output=True,text=True).stdout.split() if Path(f).exists()]
TOPS=[("lab/vepyc","vepyc"),("tests","tests"),("tools","tools"),("plugins","plugins"),("lab/tests","lab.tests")]
def modname(p):
    p=Path(p)
    for top,pre in sorted(TOPS,key=lambda t:-len(t[0])):
        if p.is_relative_to(top):
            parts=p.relative_to(top).with_suffix("").parts
            return ".".join([pre,*(parts[:-1] if parts and parts[-1]=="__init__" else parts)])
    return ""
names={}; trees={}; pk={}
def top(body,out):
    for n in body:
        if isinstance(n,(ast.FunctionDef,ast.ClassDef,ast.AsyncFunctionDef)): out.add(n.name)
        elif isinstance(n,(ast.Assign,ast.AnnAssign)):
            for t in (n.targets if isinstance(n,ast.Assign) else [n.target]):
                for x in ast.walk(t):
                    if isinstance(x,ast.Name): out.add(x.id)
        elif isinstance(n,(ast.Import,ast.ImportFrom)):
            for a in n.names: out.add((a.asname or a.name).split(".")[0])
        elif isinstance(n,(ast.If,ast.Try,ast.With,ast.For)):
            top(n.body,out); top(getattr(n,"orelse",[]),out)
            for h in getattr(n,"handlers",[]): top(h.body,out)
for f in files:
    m=modname(f)
    try: trees[f]=ast.parse(Path(f).read_text())
    except SyntaxError as e: print("SYNTAX",f,e); continue
    if m: s=names.setdefault(m,set()); top(trees[f].body,s); pk[m]=f.endswith("__init__.py")
for m in list(names):
    while "." in m:
        m,_,c=m.rpartition("."); names.setdefault(m,set()).add(c)
for f,t in trees.items():
    m=modname(f); pkg=m if f.endswith("__init__.py") else m.rpartition(".")[0]
    alias={}
    for n in ast.walk(t):
        if isinstance(n,ast.ImportFrom):
            base=n.module or ""
            if n.level:
                parts=pkg.split("."); parts=parts[:len(parts)-(n.level-1)]; base=".".join([*parts,*([n.module] if n.module else [])])
            base=re.sub(r"^ansible_collections\.sovereign\.epyc\.","",base)
            if base.split(".")[0] not in ("vepyc","tests","tools","plugins","lab"): continue
            if base not in names: print(f"{f}:{n.lineno} no module {base}"); continue
            for a in n.names:
                if a.name not in names[base]: print(f"{f}:{n.lineno} {base} has no {a.name}")
                if f"{base}.{a.name}" in names: alias[a.asname or a.name]=f"{base}.{a.name}"
    stores={x.id for x in ast.walk(t) if isinstance(x,ast.Name) and not isinstance(x.ctx,ast.Load)}|{x.arg for x in ast.walk(t) if isinstance(x,ast.arg)}
    for n in ast.walk(t):
        if isinstance(n,ast.Attribute) and isinstance(n.value,ast.Name) and n.value.id in alias and n.value.id not in stores and n.attr not in names[alias[n.value.id]] and not n.attr.startswith("__"): print(f"{f}:{n.lineno} {alias[n.value.id]} has no attribute {n.attr}")
