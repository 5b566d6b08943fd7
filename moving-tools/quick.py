"""quick.py LIST: rename module-level names. Lines: MODULE(dotted vepyc.x or path) OLD NEW. Name nodes of importing files by AST, no types."""
import ast, re, subprocess, sys
from pathlib import Path
files = subprocess.run(["git","ls-files","*.py"],capture_output=True,text=True).stdout.split()
TOPS=[("lab/vepyc","vepyc"),("tests","tests"),("tools","tools"),("lab/tests","lab.tests")]
def modname(p):
    p=Path(p)
    for top,pre in sorted(TOPS,key=lambda t:-len(t[0])):
        if p.is_relative_to(top):
            parts=p.relative_to(top).with_suffix("").parts
            return ".".join([pre,*(parts[:-1] if parts and parts[-1]=="__init__" else parts)])
    return p.with_suffix("").as_posix().replace("/",".")
ren={}
for l in Path(sys.argv[1]).read_text().splitlines():
    l=l.split("#")[0].split()
    if l: ren[(l[0] if not l[0].endswith(".py") else modname(l[0]), l[1])]=l[2]
mods={m for m,_ in ren}
for f in files:
    if not Path(f).exists(): continue
    src=Path(f).read_text()
    try: tree=ast.parse(src)
    except SyntaxError: continue
    me=modname(f); pkg=me if f.endswith("__init__.py") else me.rpartition(".")[0]
    local={}; modalias={}; reps=[]
    lines=src.splitlines(keepends=True)
    def rep(ln,col,old,new):
        c=len(lines[ln-1].encode()[:col].decode()); reps.append((ln-1,c,old,new))
    if me in mods:
        for (m,o),n in ren.items():
            if m==me: local[o]=n
    for n in ast.walk(tree):
        if isinstance(n,ast.ImportFrom):
            base=n.module or ""
            if n.level:
                parts=pkg.split("."); parts=parts[:len(parts)-(n.level-1)]; base=".".join([*parts,*( [n.module] if n.module else [])])
            base=re.sub(r"^ansible_collections\.sovereign\.epyc\.","",base)
            for a in n.names:
                if (base,a.name) in ren:
                    rep(a.lineno,a.col_offset,a.name,ren[(base,a.name)])
                    if not a.asname: local[a.name]=ren[(base,a.name)]
                if f"{base}.{a.name}" in mods: modalias[a.asname or a.name]=f"{base}.{a.name}"
    if not local and not modalias: continue
    skip=set()
    for fn in ast.walk(tree):
        if isinstance(fn,(ast.FunctionDef,ast.Lambda)):
            st={x.id for x in ast.walk(fn) if isinstance(x,ast.Name) and not isinstance(x.ctx,ast.Load)}|{x.arg for x in ast.walk(fn) if isinstance(x,ast.arg)}
            skip|={id(x) for x in ast.walk(fn) if isinstance(x,ast.Name) and x.id in st}
    for n in ast.walk(tree):
        if isinstance(n,ast.Name) and n.id in local and id(n) not in skip: rep(n.lineno,n.col_offset,n.id,local[n.id])
        elif isinstance(n,ast.Attribute) and isinstance(n.value,ast.Name) and n.value.id in modalias and (modalias[n.value.id],n.attr) in ren:
            rep(n.end_lineno,n.end_col_offset-len(n.attr),n.attr,ren[(modalias[n.value.id],n.attr)])
        elif isinstance(n,(ast.FunctionDef,ast.ClassDef)) and n in tree.body and me in mods and n.name in local:
            kw="class " if isinstance(n,ast.ClassDef) else "def "
            c=lines[n.lineno-1].index(kw+n.name)+len(kw); reps.append((n.lineno-1,c,n.name,local[n.name]))
        elif isinstance(n,ast.arg) and n.arg in local: print("LOOK param",f,n.lineno,n.arg)
        elif isinstance(n,ast.FunctionDef) and n not in tree.body and n.name in local: print("LOOK inner def",f,n.lineno,n.name)
    for ln,c,o,nw in sorted(set(reps),reverse=True):
        assert lines[ln][c:c+len(o)]==o,(f,ln,lines[ln])
        lines[ln]=lines[ln][:c]+nw+lines[ln][c+len(o):]
    Path(f).write_text("".join(lines))
for (m,o),n in ren.items():
    h=subprocess.run(["grep","-rnE","--include=*.py",rf"[\"']{o}[\"']|\.{m.rpartition('.')[2]}\.{o}\b","lab","tests","tools","extensions"],capture_output=True,text=True).stdout
    for line in h.splitlines():
        if "setattr" in line or "vepyc" in line: print("TEXT",line[:150])
