# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Facts of architectures and tensor types, read from the C++ source of llama.cpp and of ik_llama.cpp.

A source is a dictionary of texts by path. What a parser does not find raises, so that a gate is red when upstream
writes a fact in another form.
"""

from __future__ import annotations

import re
import tarfile
from pathlib import Path

Source = dict[str, str]

#: The files that the parsers read.
READ = re.compile(
    r".*?(?:llama\.cpp|ik_llama\.cpp)/(src/(?:llama-(?:arch|model|hparams)\.(?:cpp|h)|models/[\w-]+\.(?:cpp|h))"
    r"|src/llama-kv-cache-dsv4\.cpp|include/llama\.h|ggml/include/ggml\.h|ggml/src/ggml\.c|ggml/src/ggml-common\.h)\Z"
)
#: The sizes of the types of C that blocks consist of.
SIZES = {"float": 4, "double": 8, "ggml_half": 2, "ggml_fp16_t": 2, "ggml_bf16_t": 2}
SIZES.update({f"{sign}int{bits}_t": bits // 8 for sign in ("", "u") for bits in (8, 16, 32, 64)})


def read_source(archive: Path) -> Source:
    """Return the texts of the files in a source archive that the parsers read."""
    with tarfile.open(archive) as content:
        found = ((READ.match(member.name), member) for member in content if member.isfile())
        return {match[1]: content.extractfile(member).read().decode() for match, member in found if match}  # type: ignore[union-attr]


def parse_names(source: Source) -> dict[str, str]:
    """Return the name of each architecture in a header, by its constant such as LLM_ARCH_LLAMA."""
    table = _between(source["src/llama-arch.cpp"], "LLM_ARCH_NAMES = {", "};")
    names = dict(re.findall(r'\{\s*(LLM_ARCH_\w+),\s*"([^"]+)"\s*\}', table))
    names.pop("LLM_ARCH_UNKNOWN")
    return names


def parse_switch(source: Source, path: str, function: str, end: str) -> set[str]:
    """Return the names of the architectures whose labels stand between the head of a function and ``end``."""
    names = parse_names(source)
    return {names[label] for label in re.findall(r"case (LLM_ARCH_\w+):", _between(source[path], function, end))}


def parse_special_memories(source: Source) -> set[str]:
    """Return the architectures that have a memory of their own kind in create_memory()."""
    path, body = "src/llama-model.cpp", "llama_memory_i * llama_model::create_memory"
    return parse_switch(source, path, body, "default:") - parse_switch(source, path, body, "res = nullptr;")


def parse_header_functions(source: Source) -> dict[str, str]:
    """Return the text of load_arch_hparams() of each architecture, by the name of the architecture."""
    bodies = {}
    for path, text in source.items():
        for name in re.findall(r"void llama_model_(\w+)::load_arch_hparams\(", text) if "/models/" in path else ():
            body = _between(text, f"void llama_model_{name}::load_arch_hparams(", "\n}\n")
            bodies[name] = re.sub(r"//[^\n]*", "", body)
    parents = dict(re.findall(r"struct llama_model_(\w+) : public llama_model_(\w+)", source["src/models/models.h"]))
    functions, names = {}, parse_names(source)
    pattern = r"((?:case LLM_ARCH_\w+:\s*)+)return new llama_model_(\w+)\("
    for labels, model in re.findall(pattern, source["src/llama-model.cpp"]):
        while model not in bodies:
            model = parents[model]
        for label in re.findall(r"LLM_ARCH_\w+", labels):
            functions[names[label]] = bodies[model]
    return functions


def parse_window(body: str) -> tuple[int, bool, int, int] | None:
    """Return what load_arch_hparams() says of sliding windows; None where no layer has one.

    The result is the length of a group of layers of which one sees all tokens (0: no layer does), whether this is the
    first one, the default window, and the window that the server sets whatever the header states.
    """
    if not re.search(r"swa_type\s*=\s*LLAMA_SWA_TYPE_(STANDARD|CHUNKED|SYMMETRIC)", body):
        return None
    read = body.find("get_key(LLM_KV_ATTENTION_SLIDING_WINDOW,")
    constant = re.search(r"hparams\.n_swa\s*=\s*([1-9]\d*);", body)
    window = int(constant[1]) if constant else 0
    is_fixed = bool(constant) and 0 <= read < constant.start()  # type: ignore[union-attr]
    default = window if not is_fixed or "found_swa && hparams.n_swa == 0" in body else 0
    group, first = _parse_group(body)
    return group, first, default, window if is_fixed else 0


def _parse_group(body: str) -> tuple[int, bool]:
    called = re.search(r"(?:load_swa_pattern\(ml, |set_swa_pattern\()(\d+)(?:, (?:/\*dense_first=\*/)?(\w+))?\)", body)
    if called:
        return int(called[1]), called[2] == "true"
    if "ml.get_arr(LLM_KV_ATTENTION_SLIDING_WINDOW_PATTERN, hparams.is_swa_impl)" in body:
        return 1, False
    if "hparams.is_swa_impl[il] = !hparams.is_recr_impl[il];" in body:
        return 0, False
    raise ValueError(f"the layers with a window are stated in a new way: {body}")


def parse_number(text: str, name: str) -> int | None:
    """Return the number that is assigned to a name; None where nothing is."""
    found = re.search(rf"\b{name}\s*=\s*(\d+);", text)
    return int(found[1]) if found else None


def parse_indexers_of_glm(source: Source) -> list[int]:
    """Return for each layer of GLM 5.2 whether it has an indexer."""
    table = _between(source["src/models/glm-dsa.cpp"], "GLM_5_2_DEFAULT_INDEXER_TYPES = {", "};")
    return [int(number) for number in re.findall(r"\d", table)]


def parse_type_numbers(source: Source) -> dict[int, str]:
    """Return the name of each tensor type by its number; removed types stand in comments and are left out."""
    body = re.sub(r"//[^\n]*", "", _between(source["ggml/include/ggml.h"], "enum ggml_type {", "};"))
    found = re.findall(r"GGML_TYPE_(\w+)\s*=\s*(\d+)", body)
    return {int(number): name for name, number in found if name != "COUNT"}


def parse_file_types(source: Source) -> dict[int, str]:
    """Return the names of the quantizations by their numbers in general.file_type."""
    body = re.sub(r"//[^\n]*", "", _between(source["include/llama.h"], "enum llama_ftype {", "};"))
    return {int(number): name for name, number in re.findall(r"LLAMA_FTYPE_(?:ALL|MOSTLY)_(\w+)\s*=\s*(\d+)", body)}


def parse_blocks(source: Source) -> dict[str, tuple[int, int]]:
    """Return the number of elements in a block and its bytes for each tensor type, by its name."""
    common = source["ggml/src/ggml-common.h"]
    values: dict[str, int] = dict(SIZES)
    for name, text in re.findall(r"^#define (QK\w*|K_SCALE_SIZE|IQ3S_N_SCALE) +([\w/ ]+?)\s*(?://.*)?$", common, re.M):
        values[name] = _evaluate(text, values)
    for block, text in re.findall(r"static_assert\(sizeof\((block_\w+)\) == (.+?), \"", common):
        values[block] = _evaluate(text, values)
    entry = r"\[GGML_TYPE_(\w+)\] = \{[^{}]*?\.blck_size\s*=\s*(\w+),\s*\.type_size\s*=\s*(sizeof\(\w+\)),"
    found = re.findall(entry, source["ggml/src/ggml.c"])
    return {name: (_evaluate(length, values), _evaluate(size, values)) for name, length, size in found}


def _evaluate(text: str, values: dict[str, int]) -> int:
    """Return the value of an expression of numbers, defined names and sizes of types, whose values are given."""
    text = re.sub(r"sizeof\((\w+)\)", lambda match: str(values[match[1]]), text)
    text = re.sub(r"[A-Z]\w*", lambda match: str(values[match[0]]), text)
    if not re.fullmatch(r"[\d +*/()-]+", text):
        raise ValueError(f"this is no expression of numbers: {text}")
    return int(eval(text.replace("/", "//")))


def _between(text: str, start: str, end: str) -> str:
    """Return the text after the first ``start`` up to the next ``end``; raises ValueError where one is missing."""
    begin = text.index(start) + len(start)
    return text[begin : text.index(end, begin)]
