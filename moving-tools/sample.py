"""sample.py ROOT OUT SEED: 100 functions and 100 comments of the product, lab and tools"""
import ast, io, random, sys, tokenize
from pathlib import Path
root, out, seed = Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3])
funcs, comments = [], []
for top in ("plugins", "lab/vepyc", "tools"):
    for f in sorted((root/top).rglob("*.py")):
        src = f.read_text(); tree = ast.parse(src); lines = src.splitlines()
        def walk(n, cls):
            for c in ast.iter_child_nodes(n):
                if isinstance(c, ast.ClassDef): walk(c, c.name)
                elif isinstance(c, (ast.FunctionDef, ast.AsyncFunctionDef)):
                    d = ast.get_docstring(c)
                    if not (c.name.startswith("__") or c.name == "main"):
                        funcs.append((str(f.relative_to(root)), (cls + "." if cls else "") + c.name, ast.unparse(c.args), d or "", ast.get_source_segment(src, c)))
                    walk(c, None)
                else: walk(c, cls)
        walk(tree, None)
        toks = [t for t in tokenize.generate_tokens(io.StringIO(src).readline) if t.type == tokenize.COMMENT and t.start[0] > 4]
        blocks, last = [], -9
        for t in toks:
            if t.start[0] == last + 1: blocks[-1][1] = t.start[0]
            else: blocks.append([t.start[0], t.start[0]])
            last = t.start[0]
        for a, b in blocks: comments.append((str(f.relative_to(root)), a, b, "\n".join(lines[max(0,a-11):b+10])))
        for n in ast.walk(tree):
            if isinstance(n, (ast.FunctionDef, ast.ClassDef)) and ast.get_docstring(n):
                s = n.body[0]; comments.append((str(f.relative_to(root)), s.lineno, s.end_lineno, "\n".join(lines[max(0,s.lineno-11):s.end_lineno+10])))
r = random.Random(seed)
fs = r.sample([x for x in funcs if x[3]], 100)
cs = r.sample(comments, 100)
out.mkdir(parents=True, exist_ok=True)
(out/"names.txt").write_text("\n".join(f"{i+1}. {p}: {n}({a})" for i,(p,n,a,_,_) in enumerate(fs)))
(out/"names_answers.txt").write_text("\n\n".join(f"{i+1}. {p}: {n}({a})\n{d}\n--- code\n{c}" for i,(p,n,a,d,c) in enumerate(fs)))
(out/"comments.txt").write_text("\n\n".join(f"##### {i+1}. {p} lines {a}-{b}\n{t}" for i,(p,a,b,t) in enumerate(cs)))
print(len(funcs), len(comments))
