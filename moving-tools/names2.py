import re
from pathlib import Path
S="plugins/module_utils/_serving/"
PUB={
("walls",S+"unit/walls.py"):{"user":"user_lines","network":"loopback_lines","members":"peer_lines","environment":"environment_lines","of_trial":"trial_settings"},
("timing",S+"unit/timing.py"):{"rate":"choose_read_rate","rate_of":"rate_of_unit","interval":"restart_window","remarks":"start_remarks"},
("disk",S+"unit/disk.py"):{"speed":"measure_read_speed"},
("beside",S+"unit/beside.py"):{"planned":"plan_twin","name_of":"twin_name","prove":"prove_twin"},
("verify",S+"verify/verify.py"):{"of_instance":"check_instance","of_router":"check_router","serving":"serving_item","speculation":"speculation_item","speed":"speed_item","placement":"placement_item","loaded":"with_replaced_files","with_its_model":"with_missing_model"},
("jitter",S+"verify/jitter.py"):{"item":"jitter_item"},
}
files=[p for d in ("plugins","tests/unit","tests/gates","lab") for p in Path(d).rglob("*.py")]
txt={p:p.read_text() for p in files}
for (mod,f),m in PUB.items():
    fp=Path(f)
    t=txt[fp]
    for a,b in m.items():
        assert re.search(rf"^def {a}\(",t,re.M),(f,a)
        t=re.sub(rf"^def {a}\(",f"def {b}(",t,flags=re.M)
        t=re.sub(rf"(?<![\w.\"'`]){a}\(",f"{b}(",t)
    txt[fp]=t
    for p,x in txt.items():
        if p==fp or "_serving" not in x and "/_serving/" not in str(p): continue
        y=x
        for a,b in m.items():
            y=re.sub(rf"(?<![\w]){mod}\.{a}\b(?!\w)",f"{mod}.{b}",y)
            y=re.sub(rf"(setattr\((?:\w+\.)*{mod}, )\"{a}\"",rf'\1"{b}"',y)
            y=re.sub(rf"((?:patch|put)\((?:\w+\.)*{mod}, )\"{a}\"",rf'\1"{b}"',y)
            y=re.sub(rf"(from \S*\b{mod} import [^\n]*)\b{a}\b",rf"\1{b}",y)
        txt[p]=y
for p,x in txt.items():
    if x!=p.read_text(): p.write_text(x); print(p)
