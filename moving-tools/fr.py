"""Fast renamer: module-level names by imports, methods of class trees by class, rest by mypy errors.
LIST lines: FILE OLD NEW; OLD: name | Class.method | func(param)
usage: fr.py LIST ; then run mypy and fr.py --errors
"""
import ast,re,sys,subprocess,io,tokenize
from pathlib import Path
from importlib.util import resolve_name
ROOT=Path.cwd(); C="ansible_collections.sovereign.epyc."
files=[Path(p) for p in subprocess.run(["git","ls-files","*.py"],capture_output=True,text=True).stdout.split() if not p.startswith(("playbooks/","collections"))]
files=[p for p in files if p.is_file() and not p.is_symlink()]
def modname(p):
    parts=list(p.with_suffix("").parts)
    if parts[-1]=="__init__": parts=parts[:-1]
    return C+".".join(parts)
texts={p:p.read_text() for p in files}; trees={p:ast.parse(t) for p,t in texts.items()}
mods={modname(p):p for p in files}
edits={}  # path -> set of (line,col,old,new)
def add(p,line,col,old,new):
    edits.setdefault(p,set()).add((line,col,old,new))
lines={p:t.splitlines(keepends=True) for p,t in texts.items()}
def charcol(p,line,bcol): return len(lines[p][line-1].encode()[:bcol].decode())
def namecol_def(p,n):
    kw="class " if isinstance(n,ast.ClassDef) else "def "
    l=n.lineno; s=lines[p][l-1]; i=s.index(kw+n.name)+len(kw); return l,i
def bases(n): return [b.id if isinstance(b,ast.Name) else b.attr if isinstance(b,ast.Attribute) else "" for b in n.bases]
classes=[(p,n) for p,t in trees.items() for n in ast.walk(t) if isinstance(n,ast.ClassDef)]
def closure(name):
    # classes are matched by name; homonyms in other files are told apart by import only roughly
    out={name}; grown=True
    while grown:
        grown=False
        for p,n in classes:
            if n.name not in out and set(bases(n))&out: out.add(n.name); grown=True
    return out
def rename_method(path,cls,old,new):
    names=closure(cls)
    homonyms={}
    for p,n in classes:
        if n.name in names and (n.name!=cls or p==path):
            # a subclass must have a base in names (or be cls itself)
            if n.name!=cls and not (set(bases(n))&names): continue
            for m in n.body:
                if isinstance(m,(ast.FunctionDef,)) and m.name==old: add(p,*namecol_def(p,m),old,new)
                if isinstance(m,ast.AnnAssign) and isinstance(m.target,ast.Name) and m.target.id==old: add(p,m.target.lineno,charcol(p,m.target.lineno,m.target.col_offset),old,new)
                if isinstance(m,ast.Assign):
                    for t in m.targets:
                        for e in (t.elts if isinstance(t,ast.Tuple) else [t]):
                            if isinstance(e,ast.Name) and e.id==old: add(p,e.lineno,charcol(p,e.lineno,e.col_offset),old,new)
                    if any(isinstance(t,ast.Name) and t.id=="__slots__" for t in m.targets):
                        for e in ast.walk(m.value):
                            if isinstance(e,ast.Constant) and e.value==old: add(p,e.lineno,charcol(p,e.lineno,e.col_offset)+1,old,new)
            for a in ast.walk(n):
                if isinstance(a,ast.Attribute) and a.attr==old:
                    v=a.value
                    if (isinstance(v,ast.Name) and v.id in("self","cls",cls,n.name)) or (isinstance(v,ast.Call) and isinstance(v.func,ast.Name) and v.func.id=="super"):
                        l=a.end_lineno; add(p,l,charcol(p,l,a.end_col_offset)-len(old),old,new)
        if True:
            pass
def rename_global(path,old,new):
    m=modname(path)
    for p,t in trees.items():
        aliases=set(); local=None; froms=False
        pkg=modname(p) if p.name=="__init__.py" else modname(p).rpartition(".")[0]
        for n in ast.walk(t):
            if isinstance(n,ast.ImportFrom):
                base=resolve_name("."*n.level+(n.module or ""),pkg) if n.level else n.module or ""
                for a in n.names:
                    if base==m and a.name==old:
                        l=a.lineno; add(p,l,charcol(p,l,a.col_offset),old,new)
                        if not a.asname: froms=True
                    if f"{base}.{a.name}"==m: aliases.add(a.asname or a.name)
        own=p==path
        if own: froms=True
        if not (aliases or froms): continue
        # modules reached through other modules (mod.sub.name): attribute chain ending
        shadow=set()
        def visit(n,shadowed):
            if isinstance(n,(ast.FunctionDef,ast.Lambda)):
                args=n.args; names={a.arg for a in [*args.args,*args.kwonlyargs,*args.posonlyargs]}
                inner=shadowed
                body=n.body if isinstance(n.body,list) else [n.body]
                stored={x.id for b in body for x in ast.walk(b) if isinstance(x,ast.Name) and isinstance(x.ctx,ast.Store)}
                inner=shadowed or old in names or (old in stored)
                for d in [*args.defaults,*args.kw_defaults,*(getattr(n,"decorator_list",[])),*[a.annotation for a in args.args+args.kwonlyargs],getattr(n,"returns",None)]:
                    if d is not None: visit(d,shadowed)
                for b in body: visit(b,inner)
                if inner and not shadowed:
                    print(f"shadow: {p}:{n.lineno} {old}")
                return
            if isinstance(n,ast.Name) and n.id==old and froms and not shadowed:
                add(p,n.lineno,charcol(p,n.lineno,n.col_offset),old,new)
            if isinstance(n,ast.Attribute) and n.attr==old and isinstance(n.value,ast.Name) and n.value.id in aliases:
                add(p,n.end_lineno,charcol(p,n.end_lineno,n.end_col_offset)-len(old),old,new)
            if isinstance(n,ast.Attribute) and n.attr==old and isinstance(n.value,ast.Attribute) and n.value.attr==m.rpartition(".")[2]:
                add(p,n.end_lineno,charcol(p,n.end_lineno,n.end_col_offset)-len(old),old,new)
            if isinstance(n,ast.Call) and isinstance(n.func,(ast.Attribute,ast.Name)) and getattr(n.func,"attr",getattr(n.func,"id",""))=="setattr" and len(n.args)>1 and isinstance(n.args[1],ast.Constant) and n.args[1].value==old:
                v=n.args[0]
                if isinstance(v,ast.Name) and v.id in aliases or isinstance(v,ast.Attribute) and v.attr==m.rpartition(".")[2]:
                    add(p,n.args[1].lineno,charcol(p,n.args[1].lineno,n.args[1].col_offset)+1,old,new)
            for c in ast.iter_child_nodes(n): visit(c,shadowed)
        visit(t,False)
        if own:
            for n in t.body:
                todo=[n]
                while todo:
                    x=todo.pop()
                    if isinstance(x,(ast.If,ast.Try)): todo+=x.body+x.orelse
                    if isinstance(x,(ast.FunctionDef,ast.ClassDef)) and x.name==old: add(p,*namecol_def(p,x),old,new)
def find_def(path,dotted):
    scope=trees[path]
    for part in dotted.split("."):
        scope=next(n for n in ast.walk(scope) if isinstance(n,(ast.FunctionDef,ast.ClassDef)) and n.name==part)
    return scope
def rename_param(path,func,old,new):
    f=find_def(path,func)
    for a in [*f.args.args,*f.args.kwonlyargs,*f.args.posonlyargs]:
        if a.arg==old: add(path,a.lineno,charcol(path,a.lineno,a.col_offset),old,new)
    for n in ast.walk(f):
        if isinstance(n,ast.Name) and n.id==old: add(path,n.lineno,charcol(path,n.lineno,n.col_offset),old,new)
    last=func.split(".")[-1]; callee=func.split(".")[-2] if last=="__init__" else last
    subs=closure(callee) if last=="__init__" else {callee}
    for p,t in trees.items():
        for n in ast.walk(t):
            if isinstance(n,ast.Call):
                nm=n.func.id if isinstance(n.func,ast.Name) else n.func.attr if isinstance(n.func,ast.Attribute) else ""
                if nm in subs:
                    for k in n.keywords:
                        if k.arg==old: add(p,k.lineno,charcol(p,k.lineno,k.col_offset),old,new)
def rename_local(path,func,old,new):
    f=find_def(path,func)
    for n in ast.walk(f):
        if isinstance(n,ast.Name) and n.id==old: add(path,n.lineno,charcol(path,n.lineno,n.col_offset),old,new)
        if isinstance(n,ast.arg) and n.arg==old: add(path,n.lineno,charcol(path,n.lineno,n.col_offset),old,new)
def apply():
    cnt=0
    for p,es in edits.items():
        ls=lines[p]
        by={}
        for l,c,o,n in es: by.setdefault(l,{})[c]=(o,n)
        for l,row in by.items():
            s=ls[l-1]
            for c in sorted(row,reverse=True):
                o,n=row[c]
                if s[c:c+len(o)]!=o: print("MISMATCH",p,l,c,o,repr(s)); continue
                s=s[:c]+n+s[c+len(o):]; cnt+=1
            ls[l-1]=s
        p.write_text("".join(ls))
    print(cnt,"edits in",len(edits),"files")
LST=[l.split("#")[0].split() for l in Path(sys.argv[1]).read_text().splitlines() if l.split("#")[0].strip()]
if "--errors" in sys.argv:
    members={}
    for f,o,n in LST:
        if "(" in o or ":" in o: continue
        k=o.split(".")[-1]; cr={b:c for _,b,c in LST if "." not in b}; members.setdefault(k,{})[cr.get(o.split(".")[0],o.split(".")[0]) if "." in o else ""]=n
    tops={k:{c:closure(c) for c in v if c} for k,v in members.items()}
    for row in Path(sys.argv[sys.argv.index("--errors")+1]).read_text().splitlines():
        m=re.match(r'\.collections/ansible_collections/sovereign/epyc/(\S+?):(\d+):(\d+): error: (.*)',row) or re.match(r'(\S+?):(\d+):(\d+): error: (.*)',row)
        if not m: continue
        p,l,c,msg=Path(m[1]),int(m[2]),int(m[3]),m[4]
        u=re.search(r'Name "(\w+)" is not defined',msg)
        if u and p in trees:
            nw=[n for f,o,n in LST if o==u[1]]
            if nw and charcol(p,l,0)==0 and lines[p][l-1][c-1:c-1+len(u[1])]==u[1]: add(p,l,c-1,u[1],nw[0])
            continue
        a=re.search(r'(?:Item )?"([^"]+)"(?: of "[^"]*")? has no attribute "(\w+)"',msg) or re.search(r'(Module) ".*" has no attribute "(\w+)"',msg)
        if not a or a[2] not in members or p not in trees: continue
        old=a[2]; cls=re.sub(r"(type\[|\[.*)","",a[1]).rstrip("]"); cands=members[old]
        new=None
        for top,new_ in cands.items():
            if top and (cls in tops[old][top]): new=new_
        if new is None:
            print("?",row); continue
        # attribute position: mypy gives the start of the expression; find Attribute node with that start
        hit=False
        for n in ast.walk(trees[p]):
            if isinstance(n,ast.Attribute) and n.attr==old and n.lineno==l and charcol(p,l,n.col_offset)==c-1:
                add(p,n.end_lineno,charcol(p,n.end_lineno,n.end_col_offset)-len(old),old,new); hit=True
        if not hit: print("nopos",row)
else:
    for f,o,n in LST:
        path=Path(f)
        try:
            if "(" in o: fn,pa=o.rstrip(")").split("("); rename_param(path,fn,pa,n)
            elif ":" in o: fn,lo=o.split(":"); rename_local(path,fn,lo,n)
            elif "." in o: rename_method(path,*o.split("."),n)
            else: rename_global(path,o,n)
        except Exception as e: print("ERR",f,o,repr(e))
apply()
