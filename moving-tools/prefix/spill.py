"""spill.py ROOT: break lines over 120 columns of YAML files and of comments and text in Python."""
import re, subprocess, sys, tokenize, io
from pathlib import Path
root = Path(sys.argv[1]); MAX = 120
def text_lines(src):
    """lines of Python that are inside of triple-quoted strings"""
    ok = set()
    for t in tokenize.generate_tokens(io.StringIO(src).readline):
        if t.type == tokenize.STRING and t.start[0] != t.end[0]: ok |= set(range(t.start[0], t.end[0]+1))
        if t.type == tokenize.COMMENT: ok.add(t.start[0])
    return ok
def cut(line, cont):
    i = line.rfind(" ", 0, MAX + 1)
    if i <= len(cont) + 10: return None
    return line[:i].rstrip(), line[i+1:]
left = []
for t in subprocess.run(["git","diff","HEAD","--name-only","--no-renames","--diff-filter=AM"],cwd=root,capture_output=True,text=True).stdout.split():
    p = root/t
    if not t.endswith((".yml",".py")) or not p.is_file() or p.is_symlink() or t.startswith("changelogs/"): continue
    src = p.read_text(); lines = src.split("\n")
    if not any(len(l) > MAX for l in lines): continue
    i = 0
    while i < len(lines):
        l = lines[i]
        if len(l) > MAX and "# type: ignore" not in l and "noqa" not in l:
            py = t.endswith(".py")
            lit = re.match(r'^(\s*)(f?)"(.*)"(,?)$', l)
            if py and i + 1 not in text_lines("\n".join(lines)) and lit and '"' not in re.sub(r"\\{[^}]*\\}", "", lit[3]):
                j = MAX - 3
                while j > 60 and not (l[j] == " " and l[:j].count("{") == l[:j].count("}")): j -= 1
                lines[i:i+1] = [l[:j+1] + '"', lit[1] + (lit[2] if "{" in l[j+1:] else "") + '"' + l[j+1:]]
                if lit[2] and "{" not in lines[i]: lines[i] = lines[i].replace('f"', '"', 1)
                nx = re.match(r'^(\s*)(f?)"(.*)$', lines[i+2]) if not lit[4] else None
                if nx and nx[1] == lit[1]:  # one literal with the rest of the text
                    f = "f" if lines[i+1].lstrip().startswith("f") or nx[2] else ""
                    joined = lit[1] + f + '"' + lines[i+1].lstrip().lstrip("f")[1:-1] + nx[3]
                    if len(joined) <= MAX: lines[i+1:i+3] = [joined]
                i += 1; continue
            if py and i + 1 not in text_lines("\n".join(lines)): left.append(f"{t}:{i+1}"); i += 1; continue
            m = re.match(r"^(\s*#:? ?)", l)
            key = re.match(r"^(\s*)(- )?[\w.]+: (?=\S)", l)
            item = re.match(r"^(\s*)- ", l)
            ind = re.match(r"^\s*", l)[0]
            if m: cont, merge = m[1], True
            elif py and i + 1 in text_lines("\n".join(lines)) and not key and not item: cont, merge = ind, True
            elif key: cont, merge = key[1] + "  " + ("  " if key[2] else ""), False
            elif item: cont, merge = item[1] + "  ", True
            else: cont, merge = ind, True
            c = cut(l, cont)
            if not c: left.append(f"{t}:{i+1}"); i += 1; continue
            lines[i] = c[0]
            nxt = lines[i+1] if i + 1 < len(lines) else ""
            nm = re.match(r"^(\s*#:? ?)", nxt)
            ok = merge and nxt.strip() and nxt.startswith(cont) and not nxt[len(cont):].startswith((" ", "- ")) and (not m or (nm and nm[1] == m[1])) and (m or not nm) and not re.match(r"^\s*[\w.]+:( |$)", nxt) and not nxt.strip().startswith(('"""', "'''", "{%"))
            if merge and key is None and not ok and nxt.startswith(cont + "  ") and not m: left.append(f"LOOK {t}:{i+1}")
            if ok: lines[i+1] = cont + c[1] + " " + nxt[len(cont):]
            else: lines.insert(i+1, cont + c[1])
        i += 1
    p.write_text("\n".join(lines))
print("\n".join(left))
