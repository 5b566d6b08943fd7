import ast, re, subprocess, sys
from pathlib import Path
root=Path.cwd()
TOPS=[("plugins","ansible_collections.sovereign.epyc.plugins"),("lab/vepyc","vepyc"),("tests","ansible_collections.sovereign.epyc.tests"),("tools","tools")]
def modname(p):
    p=Path(p)
    for top,pre in TOPS:
        if p.is_relative_to(top):
            parts=p.relative_to(top).with_suffix("").parts
            parts=parts[:-1] if parts and parts[-1]=="__init__" else parts
            return ".".join([pre,*parts])
    return p.with_suffix("").as_posix().replace("/",".")
files=subprocess.run("git ls-files '*.py'",shell=True,capture_output=True,text=True).stdout.split()
area=re.compile(r"_bench|_ablation|_tuning|_run_page|_background|bench_documents|bench_runs|measured|simulated|bench_pages")
src={f:(root/f).read_text() for f in files}
src={f:s for f,s in src.items() if area.search(f) or area.search(s)}
trees={f:ast.parse(s) for f,s in src.items()}
mods={modname(f):f for f in src}
M={};C={}
for l in Path("/tmp/w/p4/D/ren.txt").read_text().splitlines():
    f,o,n=l.split()
    if "(" in o: continue
    if "." in o:
        c,a=o.split("."); C.setdefault(f,[]).append((c,a,n))
    else: M[(modname(f),o)]=n
attr_rules=[]  # (old,new,receiver regex,file regex)
for l in Path("/tmp/w/p4/D/attrs.txt").read_text().splitlines():
    l=l.split("#")[0].rstrip()
    if l: o,n,r,fr=l.split(); attr_rules.append((o,n,re.compile(r),re.compile(fr)))
# imports of a module: name -> ("mod",X) or ("obj",X,name)
def imports(f):
    me=modname(f); pkg=me if f.endswith("__init__.py") else me.rpartition(".")[0]
    out={}
    for n in ast.walk(trees[f]):
        if isinstance(n,ast.ImportFrom):
            if n.level:
                parts=pkg.split("."); parts=parts[:len(parts)-(n.level-1)]
                base=".".join([*parts,n.module] if n.module else parts)
            else: base=n.module or ""
            for a in n.names:
                full=f"{base}.{a.name}"
                out[a.asname or a.name]=("mod",full) if full in mods else ("obj",base,a.name)
        elif isinstance(n,ast.Import):
            for a in n.names:
                if a.asname and a.name in mods: out[a.asname]=("mod",a.name)
    return out
imps={f:imports(f) for f in src}
def resolve(f,e,shadow):
    if isinstance(e,ast.Name):
        if e.id in shadow: return None
        return imps[f].get(e.id)
    if isinstance(e,ast.Attribute):
        r=resolve(f,e.value,shadow)
        if r and r[0]=="mod" and r[1] in mods: return imps[mods[r[1]]].get(e.attr) or ("obj",r[1],e.attr)
    return None
def newname(modn,name):
    seen=0
    while seen<3:
        if (modn,name) in M: return M[(modn,name)]
        f=mods.get(modn); r=imps[f].get(name) if f else None
        if not r or r[0]!="obj": return None
        modn,name=r[1],r[2]; seen+=1
def run(f):
    lines=src[f].splitlines(keepends=True); me=modname(f); reps=set()
    def col(l,c): return len(lines[l].encode()[:c].decode())
    def put(l,c,old,new):
        i=lines[l].find(old,col(l,c)) if not lines[l][col(l,c):].startswith(old) else col(l,c)
        reps.add((l,i,old,new))
    mine={o:n for (m,o),n in M.items() if m==me}
    imported={a:newname(r[1],r[2]) for a,r in imps[f].items() if r[0]=="obj" and newname(r[1],r[2])}
    # without asname only
    keepalias=set()
    for n in ast.walk(trees[f]):
        if isinstance(n,ast.ImportFrom):
            for a in n.names:
                r=imps[f].get(a.asname or a.name)
                if r and r[0]=="obj" and r[2]==a.name and newname(r[1],r[2]):
                    put(a.lineno-1,a.col_offset,a.name,newname(r[1],r[2]))
                    if a.asname: keepalias.add(a.asname)
    local={**{a:n for a,n in imported.items() if a not in keepalias},**mine}
    def bound(fn):
        b=set(); g=set()
        a=fn.args
        for x in [*a.posonlyargs,*a.args,*a.kwonlyargs,*([a.vararg] if a.vararg else []),*([a.kwarg] if a.kwarg else [])]: b.add(x.arg)
        def w(n):
            for ch in ast.iter_child_nodes(n):
                if isinstance(ch,(ast.FunctionDef,ast.AsyncFunctionDef,ast.ClassDef)): b.add(ch.name); continue
                if isinstance(ch,ast.Lambda): continue
                if isinstance(ch,ast.Name) and isinstance(ch.ctx,(ast.Store,ast.Del)): b.add(ch.id)
                if isinstance(ch,ast.ExceptHandler) and ch.name: b.add(ch.name)
                if isinstance(ch,(ast.Import,ast.ImportFrom)): pass
                if isinstance(ch,ast.Global): g.update(ch.names)
                w(ch)
        if isinstance(fn.body,list):
            for s in fn.body:
                if isinstance(s,(ast.FunctionDef,ast.ClassDef)): b.add(s.name)
                else: w(ast.Module([s],[]))
        return b-g
    attrs=C.get(f,[])
    def visit(n,shadow,cls,depth):
        if isinstance(n,(ast.FunctionDef,ast.AsyncFunctionDef)):
            if depth==0 and n.name in mine: put(n.lineno-1,n.col_offset+4,n.name,mine[n.name])
            if cls:
                for c,a,new in attrs:
                    if c==cls and a==n.name: put(n.lineno-1,n.col_offset+4,n.name,new)
            for d in n.decorator_list: visit(d,shadow,cls,depth+1)
            a=n.args
            for x in [*a.defaults,*[k for k in a.kw_defaults if k]]: visit(x,shadow,cls,depth+1)
            for x in [*a.posonlyargs,*a.args,*a.kwonlyargs,*([a.vararg] if a.vararg else []),*([a.kwarg] if a.kwarg else [])]:
                if x.annotation: visit(x.annotation,shadow,cls,depth+1)
            if n.returns: visit(n.returns,shadow,cls,depth+1)
            s2=shadow|bound(n)
            for s in n.body: visit(s,s2,cls,depth+1)
            return
        if isinstance(n,ast.Lambda):
            s2=shadow|bound(n)
            for d in [*n.args.defaults]: visit(d,shadow,cls,depth+1)
            visit(n.body,s2,cls,depth+1); return
        if isinstance(n,ast.ClassDef):
            if n.name in mine and depth==0: put(n.lineno-1,n.col_offset+6,n.name,mine[n.name])
            for d in [*n.decorator_list,*n.bases,*[k.value for k in n.keywords]]: visit(d,shadow,cls,depth+1)
            for s in n.body:
                tg=[t for t in (s.targets if isinstance(s,ast.Assign) else [s.target] if isinstance(s,ast.AnnAssign) else []) if isinstance(t,ast.Name)]
                for t in tg:
                    for c,a,new in attrs:
                        if c==n.name and a==t.id: put(t.lineno-1,t.col_offset,a,new)
                    if t.id=="__slots__":
                        for k in ast.walk(s.value):
                            if isinstance(k,ast.Constant):
                                for c,a,new in attrs:
                                    if c==n.name and a==k.value: put(k.lineno-1,k.col_offset+1,a,new)
                visit(s,shadow|{t.id for t in tg},n.name,depth+1)
            return
        if isinstance(n,(ast.ListComp,ast.SetComp,ast.GeneratorExp,ast.DictComp)):
            b={x.id for g in n.generators for x in ast.walk(g.target) if isinstance(x,ast.Name)}
            visit(n.generators[0].iter,shadow,cls,depth+1)
            s2=shadow|b
            for i,g in enumerate(n.generators):
                if i: visit(g.iter,s2,cls,depth+1)
                for x in g.ifs: visit(x,s2,cls,depth+1)
            for x in ([n.key,n.value] if isinstance(n,ast.DictComp) else [n.elt]): visit(x,s2,cls,depth+1)
            return
        if isinstance(n,ast.Name):
            if n.id in local and n.id not in shadow: put(n.lineno-1,n.col_offset,n.id,local[n.id])
            return
        if isinstance(n,ast.Attribute):
            r=resolve(f,n.value,shadow); new=None
            if r and r[0]=="mod": new=newname(r[1],n.attr)
            if not new and cls and isinstance(n.value,ast.Name) and n.value.id in("self","cls"):
                for c,a,nn in attrs:
                    if c==cls and a==n.attr: new=nn
            if not new and not(r and r[0]=="mod"):
                rec=ast.unparse(n.value)
                for o,nn,rr,fr in attr_rules:
                    if o==n.attr and rr.search(rec) and fr.search(f): new=nn; break
                else:
                    if n.attr in seenattr and n.attr not in quiet: print("?",f,n.lineno,rec[-50:]+"."+n.attr)
            if new:
                l=n.end_lineno-1; c=len(lines[l].encode()[:n.end_col_offset].decode())-len(n.attr); reps.add((l,c,n.attr,new))
            visit(n.value,shadow,cls,depth+1); return
        if isinstance(n,ast.Call):
            fn=n.func; nm=fn.attr if isinstance(fn,ast.Attribute) else getattr(fn,"id","")
            if nm in("setattr","delattr","getattr","hasattr","object") and len(n.args)>1 and isinstance(n.args[1],ast.Constant) and isinstance(n.args[1].value,str):
                r=resolve(f,n.args[0],shadow); k=n.args[1]
                if r and r[0]=="mod" and newname(r[1],k.value): put(k.lineno-1,k.col_offset+1,k.value,newname(r[1],k.value))
                elif r is None or r[0]!="mod":
                    if k.value in seenattr: print("STR",f,k.lineno,ast.unparse(n)[:90])
        if isinstance(n,ast.Constant) and isinstance(n.value,str) and n.value in seenstr: pass
        for ch in ast.iter_child_nodes(n): visit(ch,shadow,cls,depth+(not isinstance(n,(ast.Module,ast.If,ast.Try,ast.With))))
    visit(trees[f],frozenset(),None,0)
    for l,c,o,nw in sorted(reps,reverse=True):
        assert lines[l][c:c+len(o)]==o,(f,l+1,o,lines[l])
        lines[l]=lines[l][:c]+nw+lines[l][c+len(o):]
    return "".join(lines),len(reps)
seenattr={a for v in C.values() for c,a,n in v if not a.startswith("_")}
seenstr=set(); quiet=set(sys.argv[2:])
tot=0; res={}
for f in src:
    res[f],k=run(f); tot+=k
print(tot,"places")
if "--write" in sys.argv[1:2]:
    for f,t in res.items():
        if t!=src[f]: ast.parse(t); (root/f).write_text(t)
