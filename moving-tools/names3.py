import re
from pathlib import Path
S="plugins/module_utils/_serving/hooks/"
PUB={
("cache",S+"cache.py"):{"place":"place_file","look":"sample_file","sample":"sample_pages","drop":"drop_file","mapped_by":"list_programs_that_map"},
("rows",S+"rows.py"):{"spread":"spread_rows"},
("stage",S+"stage.py"):{"stage":"stage_model","missing":"shortage_message"},
("workers",S+"workers.py"):{"reach":"wait_for_workers"},
("watchdog",S+"watchdog.py"):{"watch":"watch_server"},
("http_threads",S+"http_threads.py"):{"unpinned":"list_unpinned_threads","move":"move_unpinned_threads"},
("keys",S+"keys.py"):{"key_of":"read_key_of_unit","loaded_key":"read_loaded_key"},
("stream",S+"stream.py"):{"events":"request_events","parsed":"parse_json","told":"error_text","numbers":"numeric_values"},
}
files=[p for d in ("plugins","tests","lab","tools") for p in Path(d).rglob("*.py")]
txt={p:p.read_text() for p in files}
for (mod,f),m in PUB.items():
    fp=Path(f); t=txt[fp]
    for a,b in m.items():
        if not re.search(rf"^def {a}\(",t,re.M): print("NODEF",f,a); continue
        t=re.sub(rf"^def {a}\(",f"def {b}(",t,flags=re.M)
        t=re.sub(rf"(?<![\w.\"'`]){a}\((?!self)",f"{b}(",t)
    txt[fp]=t
    for p,x in txt.items():
        if p==fp: continue
        local = "hooks" in x or "hooks" in str(p) or "_serving" in x
        if not local: continue
        imports = re.search(rf"hooks import [^\n]*\b{mod}\b|hooks\.{mod} import|from \. import [^\n]*\b{mod}\b|from \.{mod} import|hooks import \(|import {mod}\b",x) or (mod=="stream" and re.search(r"\bstream\.",x) and "hooks" in x) or re.search(rf"\.{mod}\b",x)
        if not imports: continue
        y=x
        for a,b in m.items():
            y=re.sub(rf"(?<![\w]){mod}\.{a}\b(?!\w)",f"{mod}.{b}",y)
            y=re.sub(rf"((?:setattr|patch|put)\((?:\w+\.)*{mod}, )\"{a}\"",rf'\1"{b}"',y)
            if re.search(rf"from \S*\b{mod} import [^\n]*\b{a}\b",y):
                y=re.sub(rf"(from \S*\b{mod} import [^\n]*)\b{a}\b",rf"\1{b}",y)
                y=re.sub(rf"(?<![\w.\"'`]){a}\(",f"{b}(",y)
                y=re.sub(rf"(setattr\(\w+, )\"{a}\"",rf'\1"{b}"',y)
        txt[p]=y
for p,x in txt.items():
    if x!=p.read_text(): p.write_text(x); print(p)
