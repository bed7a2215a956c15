"""Hold every pass text of a file of pipeline cases against what `lower` records.

    python tests/tir/pipeline_cases.py FILE [--show N] [--name PASS]

prints for each pass how many of its texts are the same, and the first differences.
"""

from __future__ import annotations

import argparse
import collections
import difflib
import json
import pathlib
from collections.abc import Iterator
from typing import Any

import tvmagic
from tvmagic import te, tir
from tvmagic.passes import Record, recording
from tvmagic.script import from_source
from tvmagic.tir.transform import PassContext  # noqa: F401  (registers the options)

HEAD = "# from tvm.script import tir as T\n"


def script(func: Any) -> str:
    lines = func.script(show_meta=False).split("\n")
    return "\n".join(line for line in lines if not line.startswith("# from tvm")).strip()


def record_of(case: dict[str, Any]) -> Record:
    """The record of lowering a case; if it fails, up to the failure."""
    with recording() as record:
        try:
            if case["kind"] == "te":
                scope: dict[str, Any] = {"te": te, "tir": tir}
                exec(case["source"], scope)
                tvmagic.lower(scope["s"], scope["args"], simple_mode=False)
            else:
                tvmagic.lower(from_source(HEAD + case["source"]), simple_mode=False)
        except tvmagic.TVMagicError as error:
            print(case["id"], error)
    return record


def compare(case: dict[str, Any]) -> Iterator[tuple[str, str, str]]:
    """For each pass that changed something in TVM its name, our text and TVM's."""
    steps = [s for s in record_of(case) if s.name.startswith("tir.") and s.after is not None]
    place, text = 0, ""
    for name, wanted in case["passes"]:
        got = ""
        for index in range(place, len(steps)):
            if steps[index].name == name:
                now = script(steps[index].after["main"])
                if now != text:
                    got, text, place = now, now, index + 1
                    break
        yield name, got, wanted.strip()


def lowered(cases: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The cases that TVM lowered."""
    return [c for c in cases if c.get("passes") and "lower" not in c]


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("file", type=pathlib.Path)
    parser.add_argument("--show", type=int, default=0)
    parser.add_argument("--name")
    options = parser.parse_args()
    total: collections.Counter[str] = collections.Counter()
    same: collections.Counter[str] = collections.Counter()
    for case in lowered([json.loads(line) for line in options.file.read_text().splitlines()]):
        for name, got, wanted in compare(case):
            total[name] += 1
            same[name] += got == wanted
            if got != wanted and options.show and options.name in (None, name):
                options.show -= 1
                print("==", case["id"], name)
                print("\n".join(difflib.unified_diff(got.split("\n"), wanted.split("\n"), "got", "want", lineterm="")))
    for name, count in total.items():
        print(f"{name:46s} {same[name]}/{count}")
    print(f"all {sum(same.values())}/{sum(total.values())}")


if __name__ == "__main__":
    main()
