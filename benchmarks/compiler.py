"""How long the compiler itself takes: import, a walk, lowering and building the matmul, a step of the stepper.

Each is the least of several times, in processes of their own. With another folder that has a `tvmagic`, such as an older
version, both are measured by turns, and a ratio above 1 says how many times longer the other one takes.

usage: python benchmarks/compiler.py [FOLDER]
"""

from __future__ import annotations

import argparse
import json
import os
import pathlib
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

ROUNDS = 3
STATEMENTS = 5_000
SIZE = 512


def least(run: Callable[[], Any], times: int = 7) -> float:
    """The least milliseconds of some runs, the first of which only warms up."""
    run()
    found = []
    for _ in range(times):
        start = time.process_time()
        run()
        found.append((time.process_time() - start) * 1e3)
    return min(found)


def matmul() -> tuple[Any, list[Any]]:
    """A schedule of the product of two square matrices, and its arguments."""
    from tvmagic import te

    a, b = te.placeholder((SIZE, SIZE), name="A"), te.placeholder((SIZE, SIZE), name="B")
    k = te.reduce_axis((0, SIZE), "k")
    c = te.compute((SIZE, SIZE), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k), name="C")
    s = te.create_schedule(c.op)
    outer_i, outer_j, inner_i, inner_j = s[c].tile(*c.op.axis, 32, 32)
    outer_k, inner_k = s[c].split(k, 4)
    s[c].reorder(outer_i, outer_j, outer_k, inner_i, inner_k, inner_j)
    s[c].vectorize(inner_j)
    s[c].unroll(inner_k)
    s[c].parallel(outer_i)
    return s, [a, b, c]


def measured() -> dict[str, float]:
    """Milliseconds of each task, in this process."""
    start = time.process_time()
    import tvmagic

    found = {"import tvmagic": (time.process_time() - start) * 1e3}
    from tvmagic import ir
    from tvmagic.codegen.llvm.cache import clear_cache
    from tvmagic.notebook.view import make_view
    from tvmagic.passes import recording

    def build() -> None:
        clear_cache()
        tvmagic.build(*matmul())

    def steps() -> None:
        with recording() as record:
            tvmagic.lower(*matmul())
        for step in make_view(record).steps:
            assert step.changed in (True, False)

    buffer = ir.decl_buffer((STATEMENTS,), "float32", name="A")
    stores = [ir.BufferStore(buffer, buffer[n] + 1.0, [n]) for n in range(STATEMENTS)]
    program = ir.SeqStmt(stores)
    found[f"a walk over {STATEMENTS} statements"] = least(lambda: ir.post_order_visit(program, lambda node: None))
    found["lowering the matmul"] = least(lambda: tvmagic.lower(*matmul()))
    found["lowering and building it"] = least(build)
    found["lowering it, with all steps described"] = least(steps)
    return found


def of_tree(folder: pathlib.Path) -> dict[str, float]:
    """The times of the `tvmagic` in a folder, in a process of its own."""
    env = {
        **os.environ,
        "PYTHONPATH": str(folder),
        "PYTHONDONTWRITEBYTECODE": "",
    }  # the import is that of compiled modules
    command = [sys.executable, __file__, "--here"]
    done = subprocess.run(command, env=env, cwd=folder, stdout=subprocess.PIPE, text=True, check=True)
    return json.loads(done.stdout.splitlines()[-1])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("other", nargs="?", type=pathlib.Path, help="a folder with another tvmagic")
    parser.add_argument("--here", action="store_true", help="measure in this process, and print JSON")
    options = parser.parse_args()
    if options.here:
        print(json.dumps(measured()))
        return
    trees = [pathlib.Path(__file__).resolve().parent.parent, *([options.other.resolve()] if options.other else [])]
    best: list[dict[str, float]] = [{} for _ in trees]
    for _ in range(ROUNDS):
        for known, tree in zip(best, trees):
            known.update({task: min(ms, known.get(task, ms)) for task, ms in of_tree(tree).items()})
    for task, ms in best[0].items():
        ratio = f"  {best[1][task] / ms:.2f}" if options.other else ""
        print(f"{task:40s} {ms:8.1f} ms{ratio}")


if __name__ == "__main__":
    main()
