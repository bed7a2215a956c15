"""The examples of TVM's description of the InferBound pass, and what its phases find in each."""

from __future__ import annotations

from typing import Any

import pytest

import tvmagic.tir.transform as transform
from tvmagic import te
from tvmagic.arith import Analyzer
from tvmagic.driver import schedule_to_module
from tvmagic.ir import For, IntImm, Mul, ProducerLoad, ProducerRealize, ProducerStore, SeqStmt
from tvmagic.passes import PassContext, Record, recording, run_step
from tvmagic.script import classic


def two_stages() -> tuple[Any, Any, Any]:
    C = te.compute((5, 16), lambda i, j: te.const(5, "int32"), name="C")
    D = te.compute((5, 16), lambda i, j: C[i, j] * 2, name="D")
    return te.create_schedule(D.op), C, D


def three_stages() -> tuple[Any, Any, Any, Any]:
    C = te.compute((5, 16), lambda ci, cj: te.const(5, "int32"), name="C")
    D = te.compute((5, 16), lambda di, dj: C[di, dj] * 2, name="D")
    E = te.compute((5, 16), lambda ei, ej: D[ei, ej] * 4, name="E")
    return te.create_schedule(E.op), C, D, E


def inferred(s: Any) -> tuple[Any, dict[Any, Any], Record]:
    """The normalized schedule, its bounds, and the record of InferBound."""
    n = s.normalize()
    with recording() as record:
        bounds = run_step("te.InferBound", lambda: te.schedule.InferBound(n), before=n)
    return n, bounds, record


def scheduled(s: Any, keep_trivial: bool = False) -> Any:
    n, bounds, _ = inferred(s)
    return te.schedule.ScheduleOps(n, bounds, keep_trivial)


class Sketch:
    """Writes a statement as the description does: regions count from their start, single places are left out."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.regions: dict[Any, Any] = {}

    def place(self, node: Any) -> str:
        kept = []
        for index, r in zip(node.indices, self.regions[node.producer]):
            if not (isinstance(r.extent, IntImm) and r.extent.value == 1):
                kept.append(str(Analyzer().simplify(index - r.min)).replace(" * ", "*"))
        return f"{node.producer.name}[{', '.join(kept) or '0'}]"

    def value(self, node: Any) -> str:
        if isinstance(node, Mul):
            return f"{self.value(node.a)}*{self.value(node.b)}"
        return self.place(node) if isinstance(node, ProducerLoad) else str(node)

    def stmt(self, node: Any, depth: int = 0) -> None:
        if isinstance(node, ProducerRealize):
            self.regions[node.producer] = node.bounds
            self.stmt(node.body, depth)
        elif isinstance(node, SeqStmt):
            for part in node.seq:
                self.stmt(part, depth)
        elif isinstance(node, For):
            self.lines.append("  " * depth + f"for {node.loop_var.name.replace('.', '_')} 0, {node.extent}")
            self.stmt(node.body, depth + 1)
        else:
            assert isinstance(node, ProducerStore)
            self.lines.append("  " * depth + f"{self.place(node)} = {self.value(node.value)}")


def sketch(s: Any) -> str:
    writer = Sketch()
    writer.stmt(scheduled(s))
    return "\n".join(writer.lines)


def path_of(s: Any, tensor: Any) -> list[str]:
    n = s.normalize()
    return [iv.var.name.replace(".", "_") for iv in te.schedule.CreateAttachPath(n)[n[tensor].op]]


# ---------------------------------------------------------------------------- examples 1 to 3 and 5


def test_example_1_everything_at_the_root() -> None:
    s, C, _ = two_stages()
    assert sketch(s) == (
        "for i 0, 5\n  for j 0, 16\n    C[i, j] = 5\nfor i 0, 5\n  for j 0, 16\n    D[i, j] = C[i, j]*2"
    )
    assert path_of(s, C) == []
    _, bounds, record = inferred(s)
    assert [n.facts["case"] for n in record.notes("infer_bound.leaf")] == [3, 3]
    assert [str(bounds[iv].extent) for iv in C.op.axis] == ["5", "16"]


def test_example_2_computed_at_the_inner_loop() -> None:
    s, C, D = two_stages()
    s[C].compute_at(s[D], D.op.axis[1])
    assert sketch(s) == "for i 0, 5\n  for j 0, 16\n    C[0] = 5\n    D[i, j] = C[0]*2"
    assert path_of(s, C) == ["j", "i"]
    _, _, record = inferred(s)
    leaves = {n.facts["leaf"]: n.facts for n in record.notes("infer_bound.leaf")}
    assert {k: v["case"] for k, v in leaves.items()} == {"j": 2, "i": 2}
    assert leaves["j"]["set"] == ("j", "j")


def test_example_3_computed_at_the_outer_loop() -> None:
    s, C, D = two_stages()
    s[C].compute_at(s[D], D.op.axis[0])
    assert sketch(s) == "for i 0, 5\n  for j 0, 16\n    C[j] = 5\n  for j 0, 16\n    D[i, j] = C[j]*2"
    assert path_of(s, C) == ["i"]
    _, _, record = inferred(s)
    assert {n.facts["leaf"]: n.facts["case"] for n in record.notes("infer_bound.leaf")} == {"i": 2, "j": 3}
    up = record.notes("infer_bound.up")[0].facts["dom_map"]
    assert up == {"i": ("i", "i"), "j": ("0", "15")}
    request = record.notes("infer_bound.request")[0].facts
    assert (request["consumer"], request["tensor"]) == ("D", "C")
    assert request["dom"] == [[("i", "i")], [("0", "15")]]
    gathered = {n.facts["axis"]: (n.facts["min"], n.facts["extent"]) for n in record.notes("infer_bound.gather")}
    assert gathered == {"i": ("i", "1"), "j": ("0", "16")}
    down = {n.facts["stage"]: n.facts["ranges"] for n in record.notes("infer_bound.down")}
    assert down["D"] == {"i": ("0", "5"), "j": ("0", "16")}
    assert down["C"] == {"i": ("0", "1"), "j": ("0", "16")}
    assert record.notes("infer_bound.attach_path")[0].facts == {"stage": "C", "path": ["i"]}


def test_example_5_after_a_split() -> None:
    s, C, D = two_stages()
    _, d_i = s[D].split(D.op.axis[1], factor=8)
    s[C].compute_at(s[D], d_i)
    assert sketch(s) == (
        "for i 0, 5\n  for j_outer 0, 2\n    for j_inner 0, 8\n      C[0] = 5\n      D[i, j_outer*8 + j_inner] = C[0]*2"
    )
    assert path_of(s, C) == ["j_inner", "j_outer", "i"]
    _, _, record = inferred(s)
    split = record.notes("infer_bound.up")[0].facts["relations"]
    assert split[0]["relation"] == "rebase(i -> i)"
    assert split[1]["case"].startswith("case 2")
    assert split[1]["sets"]["j"] == ("j_outer * 8 + j_inner", "j_outer * 8 + j_inner")


# ---------------------------------------------------------------------------- example 4

EXAMPLE_4 = """
realize D([0, 4], [0, 5], [0, 16]) {
  produce D {
    for (di, 0, 4) {
      for (dj, 0, 5) {
        for (dk, 0, 16) {
          realize C([dj, 1], [dk, 1]) {
            produce C {
              for (i, 0, 1) {
                for (j, 0, 1) {
                  C((i + dj), (j + dk)) =5
                }
              }
            }
            D(di, dj, dk) =(C(dj, dk)*2)
          }
        }
      }
    }
  }
}
"""


def test_example_4_a_loop_that_is_not_used() -> None:
    C = te.compute((5, 16), lambda i, j: te.const(5, "int32"), name="C")
    D = te.compute((4, 5, 16), lambda di, dj, dk: C[dj, dk] * 2, name="D")
    s = te.create_schedule(D.op)
    s[C].compute_at(s[D], D.op.axis[2])
    assert classic(scheduled(s, keep_trivial=True)).strip() == EXAMPLE_4.strip()
    assert path_of(s, C) == ["dk", "dj", "di"]


# ---------------------------------------------------------------------------- chains of attached stages

CHAIN = """
// attr [D] storage_scope = "global"
allocate D[int32 * 1]
// attr [C] storage_scope = "global"
allocate C[int32 * 1]
produce E {
  for (ei, 0, 5) {
    for (ej, 0, 16) {
      produce D {
        for (di, 0, 1) {
          for (dj, 0, 1) {
            produce C {
              for (ci, 0, 1) {
                for (cj, 0, 1) {
                  C[(ci + cj)] = 5
                }
              }
            }
            D[(di + dj)] = (C[(di + dj)]*2)
          }
        }
      }
      E[((ei*16) + ej)] = (D[0]*4)
    }
  }
}
"""


def test_attached_to_an_attached_stage() -> None:
    s, C, D, E = three_stages()
    s[C].compute_at(s[D], D.op.axis[1])
    s[D].compute_at(s[E], E.op.axis[1])
    assert path_of(s, C) == ["dj", "di", "ej", "ei"]
    assert path_of(s, D) == ["ej", "ei"]
    with PassContext(config={"tir.debug_keep_trivial_loop": True}):
        mod = schedule_to_module(s, [E])
    mod = transform.StorageRewrite()(transform.StorageFlatten(64, False)(mod))
    assert classic(mod["main"].body).strip() == CHAIN.strip()


def test_the_consumers_own_loops_are_relaxed() -> None:
    s, C, D, E = three_stages()
    s[D].compute_at(s[E], E.op.axis[1])
    assert sketch(s) == (
        "for ci 0, 5\n  for cj 0, 16\n    C[ci, cj] = 5\n"
        "for ei 0, 5\n  for ej 0, 16\n    D[0] = C[ei, ej]*2\n    E[ei, ej] = D[0]*4"
    )
    assert path_of(s, C) == []
    assert path_of(s, D) == ["ej", "ei"]
    _, bounds, record = inferred(s)
    up = next(n.facts for n in record.notes("infer_bound.up") if n.facts["consumer"] == "D")
    assert up["dom_map"] == {"di": ("0", "4"), "dj": ("0", "15")}
    assert [str(bounds[iv].extent) for iv in C.op.axis] == ["5", "16"]


# ---------------------------------------------------------------------------- what the text says besides


def test_split_that_does_not_divide() -> None:
    A = te.placeholder((20,), name="A")
    B = te.compute((20,), lambda i: A[i] + 1.0, name="B")
    s = te.create_schedule(B.op)
    outer, inner = s[B].split(B.op.axis[0], factor=16)
    _, bounds, _ = inferred(s)
    assert (int(bounds[outer].extent), int(bounds[inner].extent)) == (2, 16)


def test_fuse_multiplies_the_extents() -> None:
    s, _, D = two_stages()
    fused = s[D].fuse(*D.op.axis)
    _, bounds, _ = inferred(s)
    assert int(bounds[fused].extent) == 80


def test_requests_of_two_consumers_are_joined_axis_by_axis() -> None:
    T = te.compute((4, 4), lambda i, j: te.const(1.0), name="T")
    A = te.compute((2, 2), lambda i, j: T[i, j] * 2.0, name="A")
    B = te.compute((2, 2), lambda i, j: T[i + 2, j + 2] + A[i, j], name="B")
    s = te.create_schedule(B.op)
    _, bounds, record = inferred(s)
    assert [str(bounds[iv].extent) for iv in T.op.axis] == ["4", "4"]
    wanted = [n.facts for n in record.notes("infer_bound.request") if n.facts["tensor"] == "T"]
    assert {f["consumer"]: f["dom"] for f in wanted} == {
        "A": [[("0", "1")], [("0", "1")]],
        "B": [[("2", "3")], [("2", "3")]],
    }


def test_iteration_variables_keep_their_domain() -> None:
    s, C, D = two_stages()
    s[C].compute_at(s[D], D.op.axis[1])
    before = [iv.dom for iv in C.op.axis]
    inferred(s)
    assert all(iv.dom is dom for iv, dom in zip(C.op.axis, before))


def test_no_notes_without_a_record() -> None:
    s, _, _ = two_stages()
    with recording() as record:
        te.schedule.InferBound(s.normalize())
    assert record.notes() == []


def test_placeholders_and_outputs_take_their_domain() -> None:
    s, _, D = two_stages()
    _, bounds, _ = inferred(s)
    assert [(int(bounds[iv].min), int(bounds[iv].extent)) for iv in D.op.axis] == [(0, 5), (0, 16)]


@pytest.mark.parametrize("factor", [1, 3, 5, 16, 100])
def test_inner_extent_is_no_more_than_the_parents(factor: int) -> None:
    s, _, D = two_stages()
    outer, inner = s[D].split(D.op.axis[1], factor=factor)
    _, bounds, _ = inferred(s)
    assert int(bounds[inner].extent) == min(factor, 16)
    assert int(bounds[outer].extent) == -(-16 // factor)
