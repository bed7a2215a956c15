"""The origins of statements, loops and loads: when they appear, and what keeps, joins and copies them."""

from __future__ import annotations

import pickle
import threading
from typing import Any

from tvmagic import ir
from tvmagic.ir.origins import origins_by_statement
from tvmagic.passes import prim_func_pass, recording
from tvmagic.script import tir as T

A, B = ir.decl_buffer((8,), "float32", name="A"), ir.decl_buffer((8,), "float32", name="B")


def loop(count: int = 4, kind: ir.ForKind = ir.ForKind.SERIAL) -> ir.For:
    i = ir.Var("i", "int32")
    return ir.For(i, 0, count, kind, ir.BufferStore(A, B[i] + 1.0, [i]))


def function(body: ir.Stmt) -> ir.IRModule:
    return ir.IRModule.from_expr(ir.PrimFunc([A.data, B.data], body))


def origin(node: Any) -> int:
    return node.span.origin


def test_statements_and_loads_get_different_origins() -> None:
    made = loop()
    load = made.body.value.a
    assert len({origin(made), origin(made.body), origin(load)}) == 3
    assert made.body.value.span is None, "an operation is not a line"
    assert not made.span.known and not made.span


def test_a_location_given_to_several_nodes_makes_as_many_origins() -> None:
    place = ir.Span("cell", 3)
    first, second = (ir.Evaluate(1, place) for _ in range(2))
    assert first.span == second.span == place and origin(first) != origin(second)
    assert ir.Evaluate(1, first.span).span is first.span, "and a span with an origin keeps it"


def test_equality_hash_text_and_json_ignore_origins() -> None:
    i = ir.Var("i", "int32")
    first, second = (ir.BufferStore(A, B[i], [i]) for _ in range(2))
    assert origin(first) != origin(second) and str(first) == str(second)
    assert ir.structural_equal(first, second) and ir.structural_hash(first) == ir.structural_hash(second)
    place = ir.Span("cell", 3)
    assert place.born() == place and hash(place.born()) == hash(place) and repr(place.born()) == repr(place)
    assert ir.save_json(first.replace(span=None)) == ir.save_json(first)


def test_pickles_hold_no_origins() -> None:
    made = loop()
    again = pickle.loads(pickle.dumps(made))
    assert origin(again) > origin(made) and ir.structural_equal(again, made)
    assert origin(again) != origin(again.body)


def test_programs_that_are_loaded_get_origins_of_their_own() -> None:
    made = loop()
    again = ir.load_json(ir.save_json(made))
    assert (
        origin(again) > origin(made) and origin(again.body) > origin(made) and origin(again.body.value.a) > origin(made)
    )
    placed = ir.make_node("tir.Evaluate", value=ir.IntImm("int32", 1), span=ir.Span("cell", 2))
    assert placed.span.known and origin(placed)


def test_copies_of_a_node_keep_its_origin() -> None:
    made = loop()
    assert (
        origin(made.replace(extent=ir.IntImm("int32", 2)))
        == origin(made.with_(kind=ir.ForKind.PARALLEL))
        == origin(made)
    )
    moved = ir.substitute(made.body, {made.loop_var: ir.IntImm("int32", 1)})
    assert moved is not made.body and origin(moved) == origin(made.body)
    assert origin(moved.value.a) == origin(made.body.value.a)


def test_threads_never_share_an_origin() -> None:
    found: list[list[int]] = [[] for _ in range(4)]

    def build(into: list[int]) -> None:
        into += [origin(ir.Evaluate(n)) for n in range(2000)]

    threads = [threading.Thread(target=build, args=(into,)) for into in found]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({n for into in found for n in into}) == 8000


class Doubled(ir.Mutator):
    """A user's pass that knows nothing of origins."""

    @ir.handles(ir.BufferStore)
    def store(self, node: ir.BufferStore) -> ir.Stmt:
        return ir.SeqStmt([ir.BufferStore(node.buffer, node.value * 2.0, node.indices), ir.Evaluate(7)])


def test_what_a_handler_builds_without_a_span_has_that_of_its_node() -> None:
    made = loop()
    new = Doubled().visit(made)
    assert origin(new) == origin(made)
    assert [origin(s) for s in new.body.seq] == [origin(made.body)] * 2
    assert origin(new.body.seq[0].value.a.a) == origin(made.body.value.a), "and what was there keeps its own"


def test_a_child_in_the_place_of_its_parent_keeps_its_origin() -> None:
    class Unwrapped(ir.Mutator):
        @ir.handles(ir.IfThenElse)
        def conditional(self, node: ir.IfThenElse) -> ir.Stmt:
            return node.then_case

    inner = ir.Evaluate(1)
    branch = ir.IfThenElse(ir.Var("c", "bool"), inner)
    later = branch.replace(then_case=ir.Evaluate(2))
    assert Unwrapped().visit(branch) is inner
    assert Unwrapped().visit(later) is later.then_case and origin(later.then_case) > origin(later)


def test_joined_origins_have_parents_only_in_a_record() -> None:
    first, second = ir.Evaluate(1), ir.Evaluate(2)
    assert origin_of(ir.Span.joined(first.span, second.span)) == origin(first)
    assert origin_of(ir.Span.made_of(second)) == origin(second)
    with recording() as record:
        joined, made = ir.Span.joined(first.span, second.span), ir.Span.made_of(second)
        assert ir.Span.joined(first.span, first.span) is first.span
    assert record.parents == {origin_of(joined): (origin(first), origin(second)), origin_of(made): (origin(second),)}
    assert ir.Span.joined(None, None) is None


def origin_of(span: ir.Span | None) -> int:
    assert span is not None
    return span.origin


@prim_func_pass(opt_level=0)
def Repeat(func: ir.PrimFunc, mod: ir.IRModule, context: Any) -> ir.PrimFunc:
    """The loop twice."""
    return func.with_body(ir.SeqStmt([func.body, func.body]))


def test_a_recorded_pass_tells_copies_apart() -> None:
    program = function(loop())
    before = [o for _, origins in origins_by_statement(program) for o in origins]
    unrecorded = Repeat(program)
    assert len({o for _, origins in origins_by_statement(unrecorded) for o in origins}) == len(before)
    with recording() as record:
        recorded = Repeat(program)
    assert ir.structural_equal(recorded, unrecorded)
    after = [o for _, origins in origins_by_statement(recorded) for o in origins]
    assert len(set(after)) == len(after) == 2 * len(before)
    assert [record.parents[o] for o in after] == [(o,) for o in [*before, *before]]
    assert record.steps[0].after is recorded


def test_copies_share_no_time_with_large_expressions() -> None:
    """An operand that is shared again and again is renumbered once."""
    value: Any = B[0]
    for _ in range(15):
        value = value + value
    program = function(ir.BufferStore(A, value, [0]))
    with recording():
        recorded = Repeat(program)
    assert ir.structural_equal(recorded, Repeat(program))


def test_parsed_statements_keep_their_location_and_get_an_origin() -> None:
    @T.prim_func
    def f(a: T.Buffer((8,), "float32"), b: T.Buffer((8,), "float32")) -> None:
        for i in range(8):
            b[i] = a[i]

    (_, store) = (s for s, _ in origins_by_statement(f))
    assert store.span.known and origin(store) and store.value.span.known and origin(store.value)
