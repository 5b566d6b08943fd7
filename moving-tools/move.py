#!/usr/bin/env python3
"""Move Python modules or packages of a clone: git mv, imports (absolute and relative), uses of a renamed module's name, dotted names and paths in text.

usage: move.py LIST [--root CLONE]
LIST has a move a line:  OLDPATH NEWPATH   files (a/b.py c/d.py) or folders (packages: all below moves with it).
The unit-test mirror (tests/unit/plugins/module_utils/..., test_NAME.py) is NOT moved by itself: list it too.
Missing __init__.py of new packages are not made. Run `ruff check --fix` and `ruff format` afterwards.
"""
import ast, os, re, subprocess, sys
from pathlib import Path
args = sys.argv[1:]
root = Path(args[args.index("--root") + 1] if "--root" in args else os.getcwd()).resolve()
lst = args[0]
TOPS = [("plugins", "ansible_collections.sovereign.epyc.plugins"), ("lab/vepyc", "vepyc"), ("tests", "tests"), ("tools", "tools"), ("lab/tests", "tests_of_lab")]
def modname(path):
    path = Path(path)
    for top, pre in TOPS:
        if path.is_relative_to(top):
            parts = path.relative_to(top).with_suffix("").parts
            parts = parts[:-1] if parts and parts[-1] == "__init__" else parts
            return ".".join([pre, *parts])
    return path.with_suffix("").as_posix().replace("/", ".")
moves = []
for line in Path(lst).read_text().splitlines():
    line = line.split("#")[0].strip()
    if line: moves.append(tuple(line.split()))
tracked = subprocess.run(["git", "ls-files"], cwd=root, capture_output=True, text=True).stdout.split()
newpath = {}
for old, new in moves:
    old, new = old.rstrip("/"), new.rstrip("/")
    hit = False
    for t in tracked:
        if t == old: newpath[t] = new; hit = True
        elif t.startswith(old + "/"): newpath[t] = new + t[len(old):]; hit = True
    if not hit: sys.exit(f"no {old}")
mods = {modname(o): modname(n) for o, n in newpath.items() if o.endswith(".py")}
mods = {o: n for o, n in mods.items() if o != n}
mods |= {"ansible_collections.sovereign.epyc." + o: "ansible_collections.sovereign.epyc." + n for o, n in mods.items() if o.startswith(("tests.", "tools."))}
# a folder that goes wholly: the package itself
for old, new in moves:
    if not old.endswith(".py") and modname(old) != modname(new): mods.setdefault(modname(old.rstrip("/")), modname(new.rstrip("/")))
def resolve(base, level, pkg):
    if not level: return base or ""
    parts = pkg.split(".")
    parts = parts[: len(parts) - (level - 1)]
    return ".".join([*parts, base]) if base else ".".join(parts)
def relative(target, pkg):
    t, p = target.split("."), pkg.split(".")
    i = 0
    while i < len(t) and i < len(p) and t[i] == p[i]: i += 1
    return "." * (len(p) - i + 1) + ".".join(t[i:])
warn = []
texts = {}
for f in tracked:
    if not f.endswith(".py"): continue
    src = (root / f).read_text()
    if not src: continue
    me, me2 = modname(f), modname(newpath.get(f, f))
    init = f.endswith("__init__.py")
    pkg, pkg2 = (me if init else me.rpartition(".")[0]), (me2 if init else me2.rpartition(".")[0])
    tree = ast.parse(src)
    lines = src.splitlines(keepends=True)
    reps = []  # (line0, col0, line1, col1, text)
    renamed = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            base = resolve(node.module, node.level, pkg)
            groups, changed = {}, False
            for a in node.names:
                full = f"{base}.{a.name}"
                if full in mods:
                    nb, _, nn = mods[full].rpartition("."); changed = True
                    if nn != a.name and not a.asname: renamed[a.name] = nn
                    asname = a.asname
                elif base in mods: nb, nn, asname = mods[base], a.name, a.asname; changed = True
                else: nb, nn, asname = base, a.name, a.asname
                groups.setdefault(nb, []).append(nn + (f" as {asname}" if asname and asname != nn else f" as {asname}" if asname else ""))
            if not changed and not (node.level and pkg != pkg2): continue
            ind = " " * node.col_offset
            out = []
            for b, names in groups.items():
                b2 = relative(b, pkg2) if node.level else b
                out.append(f"from {b2} import {', '.join(names)}")
            if "#" in "".join(lines[node.lineno-1:node.end_lineno]): warn.append(f"{f}:{node.lineno}: a comment in an import may be lost")
            tail = lines[node.end_lineno-1][node.end_col_offset:].strip()
            reps.append((node.lineno-1, node.col_offset, node.end_lineno-1, node.end_col_offset, ("\n" + ind).join(out)))
        elif isinstance(node, ast.Import):
            for a in node.names:
                if a.name in mods: reps.append((a.lineno-1, a.col_offset, a.end_lineno-1, a.end_col_offset, mods[a.name] + (f" as {a.asname}" if a.asname else "")))
    if renamed:
        taken = {n.id for n in ast.walk(tree) if isinstance(n, ast.Name)} | {n.arg for n in ast.walk(tree) if isinstance(n, ast.arg)}
        for o, n in renamed.items():
            if n in taken: warn.append(f"{f}: the name {n} (for module {o}) is taken by a local; look")
        for node in ast.walk(tree):
            if isinstance(node, ast.arg) and node.arg in renamed: warn.append(f"{f}:{node.lineno}: parameter {node.arg} shadows the module")
            if isinstance(node, ast.Name) and node.id in renamed:
                line = lines[node.lineno-1]
                c = len(line.encode()[:node.col_offset].decode())
                reps.append((node.lineno-1, c, node.lineno-1, c + len(node.id), renamed[node.id]))
                if isinstance(node.ctx, ast.Store): warn.append(f"{f}:{node.lineno}: {node.id} is assigned; look")
    for l0, c0, l1, c1, new in sorted(set(reps), reverse=True):
        head, rest = lines[l0][:c0], lines[l1][c1:]
        lines[l0:l1+1] = [head + new + rest]
    texts[f] = "".join(lines)
# text: dotted names and paths
pats = []
for o, n in sorted(mods.items(), key=lambda p: -len(p[0])):
    pats.append((re.compile(rf"(?<![\w.]){re.escape(o)}(?!\w)"), n))
    pre = "ansible_collections.sovereign.epyc.plugins.module_utils."
    if o.startswith(pre) and n.startswith(pre): pats.append((re.compile(rf"(?<![\w.]){re.escape(o[len(pre):])}(?!\w)"), n[len(pre):]))
for o, n in sorted(newpath.items(), key=lambda p: -len(p[0])):
    pats.append((re.compile(rf"(?<![\w/]){re.escape(o)}(?!\w)"), n))
    for lead in ("plugins/module_utils/", "plugins/", "lab/", "lab/vepyc/"):
        if o.startswith(lead) and n.startswith(lead) and "/" in o[len(lead):]: pats.append((re.compile(rf"(?<![\w/]){re.escape(o[len(lead):])}(?!\w)"), n[len(lead):]))
for f in tracked:
    p = root / f
    if p.is_symlink() or p.suffix in (".png", ".svg", ".gz") or not p.exists() or f.startswith("changelogs/"): continue
    try: src = texts.get(f, p.read_text())
    except UnicodeDecodeError: continue
    new = src
    for pat, n in pats: new = pat.sub(n, new)
    if new != p.read_text(): texts[f] = new
for f, t in texts.items():
    if t != (root / f).read_text(): (root / f).write_text(t)
for o, n in newpath.items():
    (root / n).parent.mkdir(parents=True, exist_ok=True)
    subprocess.run(["git", "mv", o, n], cwd=root, check=True)
for o in newpath:
    d = (root / o).parent
    while d != root and d.exists() and not [x for x in d.iterdir() if x.name != "__pycache__"]:
        for x in d.iterdir(): subprocess.run(["rm", "-r", x])
        d.rmdir(); d = d.parent
print(f"{len(newpath)} files moved, {len(texts)} looked at")
for w in warn: print("LOOK", w)
