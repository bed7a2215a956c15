"""Laws that hold for any program: equality, hash, JSON, and reading what was printed."""

from __future__ import annotations

import json
import re
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tvmagic import ir
from tvmagic.errors import TVMagicError
from tvmagic.script import from_source

SETTINGS = settings(
    max_examples=50, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large]
)
ARITHMETIC = (ir.Add, ir.Sub, ir.Mul, ir.FloorDiv, ir.FloorMod, ir.Div, ir.Mod, ir.Min, ir.Max)
COMPARISONS = (ir.LT, ir.LE, ir.GT, ir.GE, ir.EQ, ir.NE)


class Maker:
    """Draws a function whose names are defined before and around their uses."""

    def __init__(self, draw: Any) -> None:
        self.draw = draw
        self.names = st.sampled_from(["i", "j", "k", "i_1", "v", "x"])
        self.with_blocks = draw(st.booleans())
        self.variables: list[ir.Var] = []
        self.buffers = [
            ir.decl_buffer(shape, dtype, name=name, scope=scope)
            for shape, dtype, name, scope in (
                ((16,), "float32", "A", "global"),
                ((4, 8), "int32", "B", "global"),
                ((16,), "float32", "A", "shared"),
            )
        ]

    def pick(self, *choices: Any) -> Any:
        return self.draw(st.sampled_from(choices))

    def integer(self, depth: int) -> ir.PrimExpr:
        kind = self.draw(st.integers(0, 6)) if depth else self.draw(st.integers(0, 1))
        if kind == 0 or (kind == 1 and not self.variables):
            return ir.IntImm("int32", self.draw(st.integers(-3, 20)))
        if kind == 1:
            return self.pick(*self.variables)
        if kind == 2:
            return self.load(self.buffers[1], depth - 1)
        if kind == 3:
            return ir.Select(self.condition(depth - 1), self.integer(depth - 1), self.integer(depth - 1))
        if kind == 4:
            return ir.Cast("int32", self.real(depth - 1))
        cls = self.pick(*ARITHMETIC)
        divides = cls in (ir.FloorDiv, ir.FloorMod, ir.Div, ir.Mod)
        right = ir.IntImm("int32", self.draw(st.integers(1, 9))) if divides else self.integer(depth - 1)
        return cls(self.integer(depth - 1), right)

    def condition(self, depth: int) -> ir.PrimExpr:
        kind = self.draw(st.integers(0, 3)) if depth else 0
        if kind == 1:
            return ir.Not(self.condition(depth - 1))
        if kind == 2:
            return self.pick(ir.And, ir.Or)(self.condition(depth - 1), self.condition(depth - 1))
        return self.pick(*COMPARISONS)(self.integer(max(depth - 1, 0)), self.integer(max(depth - 1, 0)))

    def real(self, depth: int) -> ir.PrimExpr:
        kind = self.draw(st.integers(0, 4)) if depth else 0
        if kind == 0:
            return ir.FloatImm("float32", self.draw(st.floats(-4, 4, width=32)))
        if kind == 1:
            return self.load(self.pick(self.buffers[0], self.buffers[2]), depth - 1)
        if kind == 2:
            return ir.Call("float32", self.pick("tir.exp", "tir.sqrt", "tir.tanh"), [self.real(depth - 1)])
        if kind == 3:
            value = self.real(depth - 1)
            return ir.Call("float32", "tir.if_then_else", [self.condition(depth - 1), value, self.real(depth - 1)])
        return self.pick(ir.Add, ir.Mul, ir.Max, ir.Sub)(self.real(depth - 1), self.real(depth - 1))

    def load(self, buffer: ir.Buffer, depth: int) -> ir.PrimExpr:
        return ir.BufferLoad(buffer, [self.integer(depth) for _ in buffer.shape])

    def store(self) -> ir.Stmt:
        buffer = self.pick(*self.buffers)
        indices = [self.integer(2) for _ in buffer.shape]
        return ir.BufferStore(buffer, self.integer(3) if buffer.dtype == "int32" else self.real(3), indices)

    def inside(self, var: ir.Var, depth: int) -> ir.Stmt:
        self.variables.append(var)
        body = self.stmt(depth - 1)
        self.variables.pop()
        return body

    def stmt(self, depth: int) -> ir.Stmt:
        kind = self.draw(st.integers(0, 7)) if depth else 0
        if kind in (1, 2):
            var = ir.Var(self.draw(self.names))
            kinds = (ir.ForKind.SERIAL, ir.ForKind.SERIAL, ir.ForKind.PARALLEL, ir.ForKind.UNROLLED)
            # reading simplifies `end - begin`, so that a loop not from 0 has a constant extent here
            low = self.pick(0, 0, 2)
            extent = self.draw(st.integers(1, 9)) if low else self.integer(1)
            notes = self.pick({}, {}, {"pragma_x": 1, "text": "a"})
            return ir.For(var, low, extent, self.pick(*kinds), self.inside(var, depth), annotations=notes)
        if kind == 3:
            rest = self.stmt(depth - 1) if self.draw(st.booleans()) else None
            return ir.IfThenElse(self.condition(2), self.stmt(depth - 1), rest)
        if kind == 4:
            value, var = self.integer(2), ir.Var(self.draw(self.names))
            return ir.LetStmt(var, value, self.inside(var, depth))
        if kind == 5:
            return ir.stmt_seq(*[self.stmt(depth - 1) for _ in range(self.draw(st.integers(2, 3)))])
        if kind == 6 and self.with_blocks:
            return self.block(depth)
        if kind == 7:
            return self.pick(
                ir.AttrStmt("here", "key", self.integer(1), self.stmt(depth - 1)),
                ir.AssertStmt(self.condition(1), "no", self.stmt(depth - 1)),
            )
        return self.store()

    def block(self, depth: int) -> ir.Stmt:
        extents = self.draw(st.lists(st.integers(1, 8), max_size=2))
        kinds = [self.pick(ir.IterVar.DataPar, ir.IterVar.CommReduce) for _ in extents]
        axes = [ir.IterVar((0, e), ir.Var(self.draw(self.names)), k) for e, k in zip(extents, kinds)]
        values = [self.integer(1) for _ in extents]
        outer, self.variables = self.variables, [a.var for a in axes]
        region = ir.BufferRegion(self.buffers[0], [ir.Range.from_min_extent(self.integer(1), self.pick(1, 4))])
        init = self.store() if self.draw(st.booleans()) else None
        block = ir.Block(axes, [region], [region], self.pick("B", "C"), self.stmt(depth - 1), init)
        self.variables = outer
        return ir.BlockRealize(values, self.condition(1) if self.draw(st.booleans()) else True, block)

    def function(self) -> ir.PrimFunc:
        n = ir.Var("n")
        self.variables.append(n)
        body = self.stmt(4)
        inner = self.buffers[2]
        if self.with_blocks:  # a function with blocks has a root block: the parser puts one around them
            body = ir.BlockRealize([], True, ir.Block([], [], [], "root", body, None, [inner]))
        else:
            body = ir.Allocate(inner.data, "float32", [16], True, ir.DeclBuffer(inner, body))
        params = [*self.buffers[:2], n]
        return ir.PrimFunc(params, body, attrs={"global_symbol": "main", "tir.noalias": True})


@st.composite
def functions(draw: Any) -> ir.PrimFunc:
    return Maker(draw).function()


def copy_of(function: ir.PrimFunc) -> ir.PrimFunc:
    """The same function with variables and buffers of its own."""
    return ir.load_json(ir.save_json(function))


@SETTINGS
@given(functions())
def test_a_copy_is_equal_and_hashes_alike(f: ir.PrimFunc) -> None:
    g = copy_of(f)
    assert g is not f and g.params[0] is not f.params[0]
    assert ir.structural_equal(f, f) and ir.structural_equal(f, g) and ir.structural_equal(g, f)
    assert ir.structural_hash(f) == ir.structural_hash(g)
    assert g.script() == f.script()


@SETTINGS
@given(functions(), functions())
def test_equality_is_symmetric_and_agrees_with_the_hash(f: ir.PrimFunc, g: ir.PrimFunc) -> None:
    same = ir.structural_equal(f, g)
    assert same == ir.structural_equal(g, f)
    assert same or f.script() != g.script()
    if same:
        assert ir.structural_hash(f) == ir.structural_hash(g)
    else:
        assert ir.get_first_structural_mismatch(f, g) is not None


@SETTINGS
@given(functions())
def test_equality_is_transitive(f: ir.PrimFunc) -> None:
    g, h = copy_of(f), from_source(f.script())
    assert ir.structural_equal(f, g) and ir.structural_equal(g, h) and ir.structural_equal(f, h)


@SETTINGS
@given(functions())
def test_reading_what_was_printed_gives_an_equal_function(f: ir.PrimFunc) -> None:
    text = f.script()
    g = from_source(text)
    ir.assert_structural_equal(f, g)
    assert g.script() == text
    assert ir.structural_hash(f) == ir.structural_hash(g)


@SETTINGS
@given(functions())
def test_without_sugar_too(f: ir.PrimFunc) -> None:
    ir.assert_structural_equal(f, from_source(f.script(syntax_sugar=False)))


@SETTINGS
@given(functions())
def test_what_is_made_in_order_is_well_formed(f: ir.PrimFunc) -> None:
    assert ir.verify_well_formed(f)


@SETTINGS
@given(functions())
def test_every_printed_node_has_its_place(f: ir.PrimFunc) -> None:
    from tvmagic.script import script_with_spans

    text, spans = script_with_spans(f)
    assert text == f.script()
    nodes: list[ir.Node] = []
    ir.post_order_visit(f.body, nodes.append)
    for node in nodes:
        if isinstance(node, (ir.SeqStmt, ir.Range, ir.IterVar, ir.BufferRegion, ir.DeclBuffer)):
            continue
        if isinstance(node, ir.IntImm) or node not in spans:
            continue
        span = spans[node]
        assert 1 <= span.line <= span.end_line <= text.count("\n") + 1
    lines = text.split("\n")
    for node in nodes:
        if isinstance(node, ir.BufferStore):
            span = spans[node]
            assert lines[span.line - 1][span.column - 1 : span.end_column - 1] == lines[span.line - 1].strip()


@SETTINGS
@given(functions())
def test_the_texts_in_braces_are_balanced(f: ir.PrimFunc) -> None:
    from tvmagic.script import cinn_text, classic

    for text in (classic(f), cinn_text(f)):
        without_strings = re.sub(r'"[^"]*"', "", text)
        assert without_strings.count("{") == without_strings.count("}") > 0
        assert without_strings.count("(") == without_strings.count(")")


@SETTINGS
@given(functions(), st.data())
def test_damaged_json_is_refused_or_read(f: ir.PrimFunc, data: Any) -> None:
    """Whatever the text holds, reading it ends in a program or a `TVMagicError`."""
    document = json.loads(ir.save_json(f))
    nodes = document["nodes"]
    for _ in range(data.draw(st.integers(1, 3))):
        entry = nodes[data.draw(st.integers(0, len(nodes) - 1))]
        place = data.draw(st.integers(0, len(entry) - 1))
        other = nodes[data.draw(st.integers(0, len(nodes) - 1))]
        entry[place] = data.draw(
            st.sampled_from([None, True, -1, 2**70, 0.5, "x", "", [], {}, {"node": 0}, {"map": [["a", 1]]}, *other])
        )
    try:
        ir.load_json(json.dumps(document))
    except TVMagicError:
        pass
