"""AnnotateLoops and StripMineForInterrupt: unrolling, interleaving and polls for interrupts."""

from __future__ import annotations

import pytest
from late_passes import HASWELL, SKYLAKE, late, loops, parsed

from tvmagic.codegen.late.annotate_loops import annotate_loops
from tvmagic.codegen.late.strip_mine_for_interrupt import strip_mine_for_interrupt
from tvmagic.codegen.late.work_estimate import Work
from tvmagic.eval.integers import evaluate
from tvmagic.ir import PrimFunc

HEAD = '@T.prim_func\ndef main(X: T.Buffer((4096,), "float32"), Y: T.Buffer((4096,), "float32"), D: T.Buffer((64,), "int32"), n: T.int32):\n'
SUM = "Y[0] = Y[0] + X[{}]"


def function(body: str) -> PrimFunc:
    return parsed(HEAD + "".join(f"    {line}\n" for line in body.splitlines()))


def wishes(body: str, target: str = HASWELL, **options: bool) -> dict[str, dict[str, str]]:
    """The annotations that loops have afterwards, by their variables."""
    made = late(annotate_loops, function(body), target, **options)
    found = {} if made is None else {loop.loop_var.name: loop.annotations for loop in loops(made.body)}
    return {name: {k: str(v).strip('"') for k, v in given.items()} for name, given in found.items() if given}


VECTORS = "for i in range({}):\n    Y[i * 8:i * 8 + 8] = X[i * 8:i * 8 + 8]"


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("for i in T.unroll(8):\n    Y[i] = X[i]", {"llvm.unroll": "full"}),
        ("for i in T.unroll(4000):\n    Y[i] = X[i] * X[i] + X[i]", {}),
        ("for i in T.unroll(n):\n    Y[i] = X[i]", {}),
        (VECTORS.format(7), {}),
        (VECTORS.format(8), {"llvm.unroll": "4"}),
        (VECTORS.format(9), {}),
        (VECTORS.format(128), {"llvm.unroll": "4"}),
        (VECTORS.format(132), {}),
        (VECTORS.format(8) + "".join(f"\n    Y[i + {k}:i + {k + 8}] = X[0:8]" for k in range(8)), {}),
        ("with T.attr(0, 'pragma_any_order', 1):\n    for i in range(100):\n        " + SUM.format("i"), {"llvm.unroll": "disable", "llvm.interleave": "4"}),
        ("with T.attr(0, 'pragma_any_order', 1):\n    for i in range(256):\n        " + SUM.format("i"), {"llvm.unroll": "disable", "llvm.interleave": "8"}),
        ("for i in range(40):\n    D[i] = i // n", {"llvm.interleave": "1"}),
        ("for i in range(40):\n    D[i] = i // 3", {}),
        ("for i in range(40):\n    Y[i] = X[i]", {}),
    ],
)  # fmt: skip
def test_unrolling_and_interleaving(body: str, expected: dict[str, str]) -> None:
    assert wishes(body) == ({"i": expected} if expected else {})
    checked = wishes(body, check_bounds=True).get("i", {})
    assert "llvm.unroll" not in checked, "a checked access leaves its loop"


def test_loops_of_elements_are_not_unrolled_where_llvm_would_scatter() -> None:
    body = "for i in range(40):\n    for j in range({}):\n        Y[i * 64 + j] = X[i]"
    assert wishes(body.format(16), SKYLAKE) == {"j": {"llvm.unroll": "disable"}}
    assert wishes(body.format(15), SKYLAKE) == wishes(body.format(65), SKYLAKE) == wishes(body.format(16)) == {}


def test_given_annotations_win() -> None:
    func = function("for i in T.unroll(8):\n    Y[i] = X[i]")
    given = {"llvm.unroll": "disable"}
    assert late(annotate_loops, func.with_body(func.body.replace(annotations=given))) is None


# ---------------------------------------------------------------------------- polls

POLL = 1 << 20
NEST = "for i in range({}):\n    for j in range({}):\n        " + SUM.format("(i + j) % 4096")


@pytest.mark.parametrize("inner", [64, 65, 200, 1000, 5000, 30000, POLL // 40, POLL // 8])
def test_a_loop_polls_after_a_power_of_two_of_iterations(inner: int) -> None:
    """Together they are worth one poll, and not twice as many as that; a shorter loop does not poll."""
    func = function(NEST.format(1 << 30, inner))
    work = Work(func.body).bodies[loops(func.body)[-1]]
    assert 256 <= work
    every = int(wishes(NEST.format(1 << 30, inner))["i"]["late.poll"])
    assert every & (every - 1) == 0 and (every == 1 if work >= POLL else POLL // work < every <= 2 * (POLL // work))
    for extent in (every - 1, every):
        polls = "late.poll" in wishes(NEST.format(extent, inner)).get("i", {})
        assert polls == (extent == every and every > 0) or work >= POLL


def test_short_bodies_innermost_loops_and_targets_without_threads_never_poll() -> None:
    for body in (NEST.format(1 << 30, 2), "for i in range(1073741824):\n    " + SUM.format("i % 7")):
        assert not any("late.poll" in given for given in wishes(body).values())
    assert wishes(NEST.format(1 << 30, 1000), "llvm -mtriple=wasm32-unknown-unknown") == {}


@pytest.mark.parametrize(("kind", "extent"), [("serial", 1 << 29), ("serial", 1 << 30), ("serial", 10**9 + 7), ("serial", 1 << 20), ("parallel", 1 << 30), ("unroll", 1 << 30)])  # fmt: skip
@pytest.mark.parametrize("first", [0, 5])
def test_a_loop_of_seconds_is_strip_mined(kind: str, extent: int, first: int) -> None:
    """Strips cover its iterations once, in order; each takes some tens of milliseconds and ends with a poll."""
    func = function(f"for i in T.{kind}({first}, {first + extent}):\n    " + SUM.format("i % 7"))
    work = Work(func.body).bodies[func.body]
    made = late(strip_mine_for_interrupt, func)
    assert (made is not None) == (kind == "serial" and work * extent >= 1 << 31)
    assert late(strip_mine_for_interrupt, func, "llvm -mtriple=wasm32-unknown-unknown") is None
    if made is None:
        return
    inner, strips = loops(made.body)
    assert int(strips.annotations["late.poll"]) == 1
    size, last, end = (1 << 26) // work, evaluate(strips.extent, {}) - 1, 0
    for number in (0, 1, last):
        at = {strips.loop_var: number}
        begin, count = evaluate(inner.min, at), evaluate(inner.extent, at)
        assert begin == first + number * size and 0 < count <= size
        end = begin + count
    assert end == first + extent
