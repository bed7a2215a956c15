"""Names that code written for TVM uses are at the same places."""

import importlib
import pathlib
import re
from typing import Any

NAMES = pathlib.Path(__file__).parent / "golden" / "tvm_names.txt"
# sections whose names are of objects and frames, tested where those are
ELSEWHERE = {"methods", "attrs"}
MISSING: dict[str, str] = {
    "T.op": "a tensor called T, no name of TVMScript",
    "T.op.axis": "a tensor called T",
    "tvm.script.tir": "the place of the section T",
    "tir.transform.MakePackedAPI": "TVM's calling convention: compiled functions here take the arrays themselves",
    "tir.transform.LowerTVMBuiltin": "as above",
}


def names() -> list[str]:
    found, section = [], ""
    for line in NAMES.read_text().splitlines():
        header = re.fullmatch(r"\[(.+)\]", line)
        if header:
            section = header[1]
        elif section not in ELSEWHERE and not line.startswith("#"):
            found += [name for name, _ in re.findall(r"([\w.]+) (\d+)", line)]
    return found


def resolved(name: str) -> Any:
    place = {"T": "script.tir", "I": "script.ir"}
    first, _, rest = name.partition(".")
    path = f"tvmagic.{place.get(first, first)}" + (f".{rest}" if rest else "")
    parts = path.split(".")
    value = importlib.import_module("tvmagic")
    for part in parts[1:]:
        value = getattr(value, part)
    return value


def test_names_are_where_tvm_has_them() -> None:
    missing = []
    for name in names():
        try:
            resolved(name)
        except (AttributeError, ImportError):
            missing.append(name)
    assert len(names()) > 500 and sorted(missing) == sorted(MISSING)
