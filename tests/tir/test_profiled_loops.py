"""What InstrumentProfileIntrinsics finds out of loops: how deep they are, and how high."""

from __future__ import annotations

from tvmagic.script import from_source
from tvmagic.tir.transform.loops.profile_loops import _Loops

PROGRAM = """
@T.prim_func
def main(A: T.Buffer((64,), "int32"), n: T.int32):
    for a in range(2):
        A[0] = 1
        A[1] = 2
    for b in range(2):
        for c in range(2):
            for d in range(2):
                A[0] = 1
        A[1] = 2
        for e in range(2):
            A[1] = 1
    for f in T.parallel(2):
        for g in T.parallel(2):
            for h in range(2):
                A[0] = 1
    for i in range(2):
        if n < 1:
            A[0] = 1
            A[1] = 2
        else:
            for j in range(2):
                A[0] = 1
    for k in range(2):
        with T.LetStmt(A[0] + n) as v:
            if n < 1:
                A[1] = v
                for l in range(2):
                    for m in range(2):
                        A[0] = v
    for o in range(2):
        if n < 1:
            for p in range(2):
                A[1] = 2
        else:
            A[0] = 1
"""
# the depth, the height, and what else is known
LOOPS = {
    "a": "0 0", "b": "0 2", "c": "1 1 siblings", "d": "2 0", "e": "1 1 siblings", "f": "0 2", "g": "1 1", "h": "2 0 parallel", "i": "0 1", "j": "1 0", "k": "0 2", "l": "1 1", "m": "2 0", "o": "0 1", "p": "1 0",
}  # fmt: skip


def test_depths_and_heights() -> None:
    """A loop counts as at least as high as those before it in a sequence; one that is parallel inside another is not looked into."""
    loops = _Loops()
    loops.visit(from_source(PROGRAM).body)
    found = {
        loop.loop_var.name: f"{about.depth} {about.height}{' siblings' * about.has_siblings}{' parallel' * about.in_parallel}"
        for loop, about in loops.found.items()
    }
    assert found == LOOPS
    numbers = [about.number for about in loops.found.values()]
    assert numbers == list(range(numbers[0], numbers[0] + len(numbers)))
