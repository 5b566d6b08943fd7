"""apply.py ROOT: roles and variables get the prefix epyc_, groups gateway and monitoring become epyc_gateway and epyc_monitoring."""
import json, re, subprocess, sys
from pathlib import Path
root = Path(sys.argv[1]).resolve()
ROLES = "base bios bios_check cat cpufreq cpuidle gateway group grub_params irq llama monitoring numa plan prefetch prerequisites reboot verify vllm".split()
PLAYS = "site tune ask ablation benchmark roll drain analyse drift recommend restore repair ready".split()
seen = json.loads(subprocess.run([sys.executable, str(Path(__file__).with_name("vars.py")), str(root)], capture_output=True, text=True, check=True).stdout)
NOT = {"bios_check", "gateway_member", "llama_server", "group_vars", "plan_verfy", "batches_option", "drain_timeout", "llama_build", "inventory", "model", "python", "root", "scenario", "here", "numa_balancing"}
EXTRA = "asked_steps asked_default asked_roles asked_unknown asked_silent text_instances text_of_one_model text_instance_names analyse_file analyse_page reboot_command ask_prompt ask_instance ask_model ask_tokens ask_timeout ask_guesses recommend_folder llama_group roll_batches plan_verify plan_draft".split()
public = {n for n in [*seen, *EXTRA] if not n.startswith(("__", "epyc_")) and n.split("_")[0] in {x.split("_")[0] for x in [*ROLES, *PLAYS, "asked", "text"]}} - NOT
private = {n for n in seen if n.startswith("__") and not n.startswith("__epyc_")}
r = "|".join(sorted(ROLES, key=len, reverse=True))
tracked = [t for t in subprocess.run(["git", "ls-files"], cwd=root, capture_output=True, text=True).stdout.split() if (root/t).is_file() and not (root/t).is_symlink()]
words = re.compile(r"(?:(?<![\w$/-])|(?<=\\n))(?<!epyc\.)(?<!--)(" + "|".join(sorted(public, key=len, reverse=True)) + r")(?![\w(-]|\.yml|\.py|\.md|\.service|/)")
pwords = re.compile(r"(?:(?<!\w)|(?<=\\n))__(" + "|".join(sorted((n[2:] for n in private), key=len, reverse=True)) + r")(?!\w)")
fq = [
    (re.compile(rf"sovereign\.epyc\.({r})#role"), r"sovereign.epyc.epyc_\1#role"),
    (re.compile(rf"(role: |name: |TASK \[|TASK \[\]? ?|the role `?|roles?: \[(?:[\w.\" ,]*, )?\"?|ansible-doc -t role )(sovereign\.epyc\.)({r})\b(?!\.|_)"), r"\1\2epyc_\3"),
    (re.compile(rf"^(\s*- )(sovereign\.epyc\.)({r})( *#.*)?$", re.M), r"\1\2epyc_\3\4"),
    (re.compile(rf"(Written by the role )(sovereign\.epyc\.)({r})"), r"\1\2epyc_\3"),
    (re.compile(rf"(?<![\w])roles/({r})(?![\w])"), r"roles/epyc_\1"),
]
for t in tracked:
    if t.startswith(("changelogs/", "LICENSE")) : continue
    p = root / t
    try: s = p.read_text()
    except UnicodeDecodeError: continue
    n = s
    for pat, rep in fq: n = pat.sub(rep, n)
    if t.endswith(".py"):
        import ast
        rows = n.splitlines(keepends=True)
        kws = [k for c in ast.walk(ast.parse(n)) if isinstance(c, ast.Call) for k in c.keywords if k.arg in public]
        for k in sorted(kws, key=lambda k: (k.lineno, k.col_offset), reverse=True):
            if not t.startswith("tests/"): print("keyword left", t, k.arg); continue
            row = rows[k.lineno-1]; c = len(row.encode()[:k.col_offset].decode())
            rows[k.lineno-1] = row[:c] + "epyc_" + row[c:]
        n = "".join(rows)
        # only inside of strings, comments and docstrings: tokens
        import io, tokenize
        out = n.splitlines(keepends=True)
        edits = []
        try:
            for tok in tokenize.generate_tokens(io.StringIO(n).readline):
                if tok.type in (tokenize.STRING, tokenize.COMMENT, getattr(tokenize, "FSTRING_MIDDLE", -1)): edits.append(tok)
        except tokenize.TokenError as e: print(t, e)
        for tok in reversed(edits):
            (l0, c0), (l1, c1) = tok.start, tok.end
            text = "".join(out[l0-1:l1]); 
            pre, post = out[l0-1][:c0], out[l1-1][c1:]
            mid = text[c0: len(text) - len(post)]
            new = pwords.sub(r"__epyc_\1", words.sub(r"epyc_\1", mid))
            if new != mid: out[l0-1:l1] = (pre + new + post).splitlines(keepends=True)
        n = "".join(out)
    else:
        n = pwords.sub(r"__epyc_\1", words.sub(r"epyc_\1", n))
    if n != s: p.write_text(n)
for role in ROLES:
    if (root/"roles"/role).is_dir(): subprocess.run(["git", "mv", f"roles/{role}", f"roles/epyc_{role}"], cwd=root, check=True)
print(len(public), len(private))
