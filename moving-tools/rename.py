#!/usr/bin/env python3
"""Rename functions, methods, classes, parameters, attributes and module variables by their types (pyright), in a whole clone.

usage: rename.py LIST [--root FOLDER-OF-CLONE] [--dry]
LIST has a rename a line:   FILE  OLD  NEW     (blanks between; '#' comments)
OLD is  function | Class | Class.method | CONSTANT | Class.attribute | function(param) | Class.method(param) | function:local
All renames are looked up before any is applied. A method that subclasses override must be listed for each class that
defines it (the tool warns about classes that it sees define the same name). Strings (getattr, monkeypatch, docs) are
not touched: leftovers of names are printed as a grep at the end.
"""
import ast, json, os, subprocess, sys, threading, time, re
from pathlib import Path

args = sys.argv[1:]
dry = "--dry" in args
root = Path(args[args.index("--root") + 1] if "--root" in args else os.getcwd()).resolve()
lst = next(a for i, a in enumerate(args) if not a.startswith("--") and (i == 0 or args[i-1] != "--root"))
work = root
while work.name != "ansible_collections": work = work.parent
work = work.parent
cfg = work / "pyrightconfig.json"
rel = root.relative_to(work)
cfg.write_text(json.dumps({"include": [str(rel / p) for p in ("plugins", "lab", "tests", "tools", "conftest.py", "extensions")],
  "exclude": [str(rel / ".collections"), str(rel / "collections"), str(rel / "playbooks"), "**/__pycache__", "**/ansible_test_tree"],
  "extraPaths": [".", str(rel / "lab"), str(rel)], "typeCheckingMode": "off", "useLibraryCodeForTypes": True,
  "venvPath": str(Path("/work/main/.venv").resolve().parent), "venv": Path("/work/main/.venv").resolve().name}))

def position(path, old):
    text = path.read_text(); tree = ast.parse(text)
    param = local = None
    if "(" in old: old, param = old.rstrip(")").split("(")
    if ":" in old: old, local = old.split(":")
    lines = text.splitlines()
    def find(body, name):
        out = []
        for n in body:
            if isinstance(n, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)) and n.name == name: out.append(n)
            elif isinstance(n, ast.Assign):
                for t in n.targets:
                    if isinstance(t, ast.Name) and t.id == name: out.append(t)
            elif isinstance(n, ast.AnnAssign) and isinstance(n.target, ast.Name) and n.target.id == name: out.append(n.target)
            elif isinstance(n, (ast.If, ast.Try, ast.With)):
                out += find(n.body, name) + find(getattr(n, "orelse", []) or [], name)
        return out
    scope, node = tree, None
    parts = old.split(".")
    for i, p in enumerate(parts):
        hits = find(scope.body, p)
        if not hits and isinstance(scope, ast.ClassDef):
            for n in ast.walk(scope):   # self.attr = ...
                if isinstance(n, ast.Attribute) and n.attr == p and isinstance(n.value, ast.Name) and n.value.id == "self":
                    line = n.end_lineno - 1; col = len(lines[line].encode()[:n.end_col_offset].decode()) - len(p)
                    return line, col, p
        if not hits: raise LookupError(f"{path}: no {p} in {old}")
        node = scope = hits[0]
    def name_pos(n):
        if isinstance(n, ast.Name): return n.lineno - 1, n.col_offset, n.id
        kw = "class " if isinstance(n, ast.ClassDef) else "def "
        ln = n.lineno - 1
        col = lines[ln].index(kw + n.name) + len(kw)
        return ln, col, n.name
    if param:
        a = node.args
        for x in [*a.posonlyargs, *a.args, *a.kwonlyargs, *( [a.vararg] if a.vararg else []), *([a.kwarg] if a.kwarg else [])]:
            if x.arg == param: return x.lineno - 1, x.col_offset, param
        raise LookupError(f"{path}: no parameter {param} in {old}")
    if local:
        for n in ast.walk(node):
            if isinstance(n, ast.Name) and n.id == local and isinstance(n.ctx, ast.Store):
                return n.lineno - 1, len(lines[n.lineno-1].encode()[:n.col_offset].decode()), local
        raise LookupError(f"{path}: no local {local} in {old}")
    return name_pos(node)

renames = []
bad = 0
for n, line in enumerate(Path(lst).read_text().splitlines(), 1):
    line = line.split("#")[0].strip()
    if not line: continue
    try:
        f, old, new = line.split()
        renames.append((root / f, old, new, *position(root / f, old)))
    except (LookupError, ValueError, FileNotFoundError, SyntaxError) as e:
        print(f"line {n}: {e}", file=sys.stderr); bad += 1
# Subclasses that override a renamed method follow.
classes = {}
for top in ("plugins", "lab", "tests", "tools"):
    for f in (root / top).rglob("*.py"):
        try: tree = ast.parse(f.read_text())
        except (SyntaxError, UnicodeDecodeError): continue
        for n in ast.walk(tree):
            if isinstance(n, ast.ClassDef):
                bases = {(b.value if isinstance(b, ast.Subscript) else b) for b in n.bases}
                classes.setdefault(n.name, []).append((f, {getattr(b, "id", getattr(b, "attr", "")) for b in bases}, {m.name for m in n.body if isinstance(m, ast.FunctionDef)} | {m.target.id for m in n.body if isinstance(m, ast.AnnAssign) and isinstance(m.target, ast.Name)}, n in tree.body))
def below(name):
    out, new = set(), {name}
    while new:
        new = {c for c, ds in classes.items() for d in ds if d[1] & new} - out - {name}
        out |= new
    return out
listed = {(f, o.split("(")[0]) for f, o, *_ in renames}
for f, old, new, *_ in list(renames):
    m = re.fullmatch(r"(\w+)\.(\w+)(\(\w+\))?", old)
    if not m: continue
    for c in below(m[1]):
        for d in classes[c]:
            o = f"{c}.{m[2]}{m[3] or ''}"
            if m[2] in d[2] and d[3] and (d[0], o) not in [(x[0], x[1]) for x in renames]:
                try: renames.append((d[0], o, new, *position(d[0], o)))
                except LookupError as e: print(e, file=sys.stderr)
            elif m[2] in d[2] and not d[3]: print(f"override inside of a function, do by hand: {d[0]} {o}", file=sys.stderr)
if bad: print(f"{bad} lines cannot be used; they are left out", file=sys.stderr)

env = dict(os.environ, NODE_OPTIONS="--max-old-space-size=3000")
p = subprocess.Popen(["chrt", "-i", "0", "/tmp/w/lsp/bin/basedpyright-langserver", "--stdio"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=env)
found = threading.Event(); lock = threading.Lock(); answers = {}; cond = threading.Condition()
def send(m):
    b = json.dumps(m).encode()
    with lock:
        p.stdin.write(b"Content-Length: %d\r\n\r\n" % len(b) + b); p.stdin.flush()
def reader():
    while True:
        n = 0
        while True:
            l = p.stdout.readline()
            if not l: return
            if l == b"\r\n": break
            if l.lower().startswith(b"content-length"): n = int(l.split(b":")[1])
        m = json.loads(p.stdout.read(n))
        if "method" in m and "id" in m:
            r = None
            if m["method"] == "workspace/configuration":
                r = [{"analysis": {"diagnosticMode": "openFilesOnly", "typeCheckingMode": "off", "indexing": False}} for _ in m["params"]["items"]]
            send({"jsonrpc": "2.0", "id": m["id"], "result": r})
        elif m.get("method") == "window/logMessage":
            if os.environ.get("LSPLOG"): print(m["params"]["message"], file=sys.stderr)
            if "source file" in m["params"]["message"]: found.set()
        elif "id" in m:
            with cond: answers[m["id"]] = m; cond.notify_all()
threading.Thread(target=reader, daemon=True).start()
ids = iter(range(1, 10**6))
def ask(method, params, wait=600):
    i = next(ids); send({"jsonrpc": "2.0", "id": i, "method": method, "params": params})
    with cond:
        if not cond.wait_for(lambda: i in answers, wait): raise SystemExit(f"no answer to {method}")
    return answers.pop(i)
uri = work.as_uri()
ask("initialize", {"processId": os.getpid(), "rootUri": uri, "workspaceFolders": [{"uri": uri, "name": "w"}],
    "capabilities": {"workspace": {"configuration": True, "workspaceEdit": {"documentChanges": True}, "workspaceFolders": True}, "textDocument": {"rename": {"prepareSupport": True}}}})
send({"jsonrpc": "2.0", "method": "initialized", "params": {}})
if not found.wait(300): raise SystemExit("pyright found no files")
edits = {}; opened = set()
t0 = time.time()
for path, old, new, ln, col, name in renames:
    u = path.as_uri()
    if u not in opened:
        opened.add(u)
        send({"jsonrpc": "2.0", "method": "textDocument/didOpen", "params": {"textDocument": {"uri": u, "languageId": "python", "version": 1, "text": path.read_text()}}})
    a = ask("textDocument/rename", {"textDocument": {"uri": u}, "position": {"line": ln, "character": col}, "newName": new})
    r = a.get("result")
    if not r: print(f"NOT RENAMED {path.relative_to(root)} {old}: {a.get('error')}", file=sys.stderr); continue
    changes = r.get("changes") or {}
    for dc in r.get("documentChanges") or []:
        if "edits" in dc: changes.setdefault(dc["textDocument"]["uri"], []).extend(dc["edits"])
    count = 0
    for cu, es in changes.items():
        f = Path(re.sub(r"^file://", "", __import__("urllib.parse").parse.unquote(cu)))
        for e in es:
            s, en = e["range"]["start"], e["range"]["end"]
            edits.setdefault(f, {})[(s["line"], s["character"], en["character"])] = (e["newText"], name); count += 1
    print(f"{time.time()-t0:6.1f} s  {old} -> {new}: {count} places in {len(changes)} files", flush=True)
p.kill()
others = {}
if not dry:
    for f, es in edits.items():
        lines = f.read_text().split("\n")
        for (l, s, e), (new, name) in sorted(es.items(), reverse=True):
            row = lines[l]
            lines[l] = row[:s] + new + row[e:]
        f.write_text("\n".join(lines))
# monkeypatch.setattr(THING, "old", ...): followed where THING is the module, or the class, that had the name.
if not dry:
    for path, old, new, ln, col, name in renames:
        if "(" in old or ":" in old: continue
        owner = old.split(".")[0] if "." in old else path.stem
        pat = re.compile(r'((?:setattr|delattr|patch\.object|getattr|hasattr)\(\s*([\w.]+),\s*)"' + re.escape(name) + '"')
        for top in ("tests", "lab", "tools", "plugins"):
            for f in (root / top).rglob("*.py"):
                try: text = f.read_text()
                except UnicodeDecodeError: continue
                if f'"{name}"' not in text: continue
                def put(m):
                    last = m[2].split(".")[-1]
                    imported = re.search(r"import (?:\(\s*)?(?:[\w, \n]*\b)?" + re.escape(path.stem) + r" as " + re.escape(last) + r"\b", text)
                    if last == owner or imported or ("." not in old and f == path): return m[1] + f'"{new}"'
                    print(f"LOOK {f.relative_to(root)}: {m[0]} (renamed {old} -> {new} in {path.relative_to(root)})")
                    return m[0]
                after = pat.sub(put, text)
                if after != text: f.write_text(after)
names = sorted({(n, new) for _, _, new, _, _, n in renames if len(n) > 3 and "_" in n or len(n) > 6})
for n, new in names:
    hits = subprocess.run(["grep", "-rnwI", "--include=*.py", "--include=*.yml", "--include=*.md", "--include=*.j2", "-l", n, *[x for x in ("plugins", "tests", "lab", "tools", "docs", "roles", "playbooks", "CONTRIBUTING.md") if (root/x).exists()]], cwd=root, capture_output=True, text=True).stdout.split()
    if hits: print(f"still seen as text: {n} (now {new}): {' '.join(hits[:6])}")
