"""tensorize: a block's computation replaced by an instruction of the machine that does the same."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tvmagic import ir
from tvmagic.arith.analyzer import Analyzer
from tvmagic.arith.int_set_eval import uses_var
from tvmagic.ir.origins import with_new_origins
from tvmagic.tir.blocks.error import ScheduleError
from tvmagic.tir.schedule.instruction import BlockOrLoop, primitive
from tvmagic.tir.schedule.primitives.blockize import blockize_loop
from tvmagic.tir.schedule.rewrite import BlockReuse
from tvmagic.tir.schedule.state import ScheduleState


class Mismatch(Exception):
    """A place where a program does not do what the description does."""


class DescriptionMatcher:
    """Whether a statement does what the description of an instruction does.

    `buffers` gives for each buffer of the description the program's buffer, and `bases` where in that the
    instruction's part begins.
    """

    def __init__(self) -> None:
        self.analyzer = Analyzer()
        self.vars: dict[ir.Var, ir.PrimExpr] = {}
        self.inner: set[ir.Var] = set()
        self.buffers: dict[ir.Buffer, ir.Buffer] = {}
        self.bases: dict[ir.Buffer, list[ir.PrimExpr]] = {}

    def match(self, stmt: ir.Node, desc: ir.Node) -> None:
        """Raise `Mismatch` unless `stmt` does what `desc` does."""
        if type(stmt) is not type(desc):
            raise Mismatch(f"a {type(stmt).__name__} stands where the instruction has a {type(desc).__name__}")
        handler = self._HANDLERS.get(type(stmt))
        if handler is not None:
            handler(self, stmt, desc)
        else:
            self._fields(stmt, desc)

    def _fields(self, node: ir.Node, desc: ir.Node) -> None:
        for field in type(node).FIELDS:
            a, b = getattr(node, field.name), getattr(desc, field.name)
            if field.kind in (ir.Kind.EXPR, ir.Kind.STMT, ir.Kind.NODE):
                if (a is None) != (b is None):
                    raise Mismatch(f"the `{field.name}` of a {type(node).__name__} is missing on one side")
                if a is not None:
                    self.match(a, b)
            elif field.kind in (ir.Kind.EXPRS, ir.Kind.STMTS, ir.Kind.NODES):
                if len(a) != len(b):
                    raise Mismatch(f"a {type(node).__name__} has {len(a)} `{field.name}`, the instruction {len(b)}")
                for x, y in zip(a, b):
                    self.match(x, y)
            elif field.kind is ir.Kind.VALUE and a != b:
                raise Mismatch(f"the `{field.name}` of a {type(node).__name__} is {a}, in the instruction {b}")

    def _loop(self, node: ir.For, desc: ir.For) -> None:
        if not self.analyzer.can_prove_equal(node.extent, desc.extent):
            raise Mismatch(f"loop `{node.loop_var.name}` has extent {node.extent}, the instruction {desc.extent}")
        self.vars[desc.loop_var] = node.loop_var
        self.inner.add(node.loop_var)
        self.analyzer.bind(node.loop_var, ir.Range.from_min_extent(node.min, node.extent), True)
        self.match(node.body, desc.body)

    def _realize(self, node: ir.BlockRealize, desc: ir.BlockRealize) -> None:
        block, other = node.block, desc.block
        if len(block.iter_vars) != len(other.iter_vars):
            raise Mismatch(
                f"block `{block.name_hint}` has {len(block.iter_vars)} variables, the instruction {len(other.iter_vars)}"
            )
        self.match(node.predicate, desc.predicate)
        for var, value, desc_var, desc_value in zip(
            block.iter_vars, node.iter_values, other.iter_vars, desc.iter_values
        ):
            if var.iter_type != desc_var.iter_type:
                raise Mismatch(f"the variable `{var.var.name}` is of another kind than in the instruction")
            self.match(value, desc_value)
            self.vars[desc_var.var] = var.var
            self.inner.add(var.var)
            if var.dom is not None:
                self.analyzer.bind(var.var, var.dom, True)
        if (block.init is None) != (other.init is None):
            raise Mismatch(f"only one of block `{block.name_hint}` and the instruction has an init")
        if block.init is not None and other.init is not None:
            self.match(block.init, other.init)
        self.match(block.body, other.body)

    def _var(self, node: ir.Var, desc: ir.Var) -> None:
        if self.vars.get(desc, desc) is not node:
            raise Mismatch(f"`{node.name}` stands where the instruction has `{desc.name}`")

    def _store(self, node: ir.BufferStore, desc: ir.BufferStore) -> None:
        self._access(node.buffer, node.indices, desc.buffer, desc.indices)
        self.match(node.value, desc.value)

    def _load(self, node: ir.BufferLoad, desc: ir.BufferLoad) -> None:
        self._access(node.buffer, node.indices, desc.buffer, desc.indices)

    def _access(self, buffer: ir.Buffer, indices: Any, desc: ir.Buffer, desc_indices: Any) -> None:
        if buffer.dtype is not desc.dtype:
            raise Mismatch(f"buffer `{buffer.name}` holds {buffer.dtype}, the instruction takes {desc.dtype}")
        if self.buffers.setdefault(desc, buffer) is not buffer:
            raise Mismatch(f"buffer `{buffer.name}` stands where the instruction has another")
        lead = len(indices) - len(desc_indices)
        if lead < 0:
            raise Mismatch(f"buffer `{buffer.name}` has fewer dimensions than the instruction's")
        bases: list[ir.PrimExpr] = list(indices[:lead])
        from tvmagic.ir import substitute

        for index, desc_index in zip(indices[lead:], desc_indices):
            bases.append(self.analyzer.simplify(index - substitute(desc_index, self.vars)))
        for base in bases:
            if uses_var(base, self.inner):
                raise Mismatch(f"buffer `{buffer.name}` is accessed at other elements than the instruction's")
        known = self.bases.setdefault(desc, bases)
        if not all(self.analyzer.can_prove_equal(a, b) for a, b in zip(known, bases)):
            raise Mismatch(f"buffer `{buffer.name}` is accessed at several places")

    def _sequence(self, node: ir.SeqStmt, desc: ir.SeqStmt) -> None:
        if len(node.seq) != len(desc.seq):
            raise Mismatch("the instruction has another number of statements")
        for a, b in zip(node.seq, desc.seq):
            self.match(a, b)

    _HANDLERS: dict[type, Callable[[DescriptionMatcher, Any, Any], None]] = {
        ir.For: _loop,
        ir.BlockRealize: _realize,
        ir.Var: _var,
        ir.BufferStore: _store,
        ir.BufferLoad: _load,
        ir.SeqStmt: _sequence,
    }


def description_block(function: ir.PrimFunc) -> ir.Block:
    """The root block of the description or implementation of an instruction."""
    if not isinstance(function.body, ir.BlockRealize):
        raise ScheduleError(
            "the function of an intrinsic must have a root block", code="tensorize.description_without_root"
        )
    return function.body.block


def _match_regions(matcher: DescriptionMatcher, desc: ir.PrimFunc, impl: ir.PrimFunc) -> list[ir.MatchBufferRegion]:
    """The implementation's buffers as parts of the program's."""
    matches: list[ir.MatchBufferRegion] = []
    for desc_param, impl_param in zip(desc.params, impl.params):
        described, target = desc.buffer_map[desc_param], impl.buffer_map[impl_param]
        source = matcher.buffers.get(described)
        if source is None:
            continue
        bases = matcher.bases[described]
        lead = len(bases) - len(described.shape)
        sides = [ir.Range.from_min_extent(base, ir.IntImm(base.dtype, 1)) for base in bases[:lead]]
        sides += [ir.Range.from_min_extent(base, size) for base, size in zip(bases[lead:], described.shape)]
        matches.append(ir.MatchBufferRegion(target, ir.BufferRegion(source, sides)))
    return matches


def _fresh_implementation(impl: ir.PrimFunc) -> ir.PrimFunc:
    """The implementation with variables and buffers of its own."""
    from tvmagic.tir.stmt_functor import renew_defs

    return renew_defs(impl)


@primitive("Tensorize")
def tensorize(
    state: ScheduleState, block_or_loop: BlockOrLoop, tensor_intrin: str, preserve_unit_iters: bool = True
) -> None:
    """Replace what is below a loop, or in a block, by the instruction registered as `tensor_intrin`.

    The instruction's buffers become matched parts of the program's. For a name of the block that holds the
    instruction, `blockize` the loop first.

    Requires: as for `blockize`; the computation is the instruction's, up to names and offsets.

    The intrinsic of the example adds 1 to each of 16 numbers; it is implemented by a call of a C function.

    Example
    -------
    `sch.tensorize(j, "add_one_16")` makes of

        for i, j in T.grid(16, 16):
            with T.block("B"):
                vi, vj = T.axis.remap("SS", [i, j])
                B[vi, vj] = A[vi, vj] + 1.0

    this:

        for i in range(16):
            with T.block("B_o"):
                vi_o = T.axis.spatial(16, i)
                vj_o = T.axis.spatial(1, 0)
                T.reads(A[vi_o, 0:16])
                T.writes(B[vi_o, 0:16])
                A_1 = T.match_buffer(A[vi_o, 0:16], (16,), offset_factor=1)
                B_1 = T.match_buffer(B[vi_o, 0:16], (16,), offset_factor=1)
                T.call_extern("int32", "add_one_16", B_1.access_ptr("w"), A_1.access_ptr("r"))
    """
    intrin = ir.TensorIntrin.get(tensor_intrin)
    assert intrin is not None
    reuse = BlockReuse()
    if block_or_loop.is_loop:
        realize = blockize_loop(state, block_or_loop, preserve_unit_iters, reuse)
    else:
        realize = state.realize_of(block_or_loop)
    matcher = DescriptionMatcher()
    for var in realize.block.iter_vars:
        assert var.dom is not None
        matcher.analyzer.bind(var.var, var.dom, True)
    try:
        matcher.match(realize.block.body, description_block(intrin.desc).body)
    except Mismatch as reason:
        raise ScheduleError(
            f"{block_or_loop.label} does not compute what `{tensor_intrin}` does: {reason}",
            block_or_loop,
            code="tensorize.mismatch",
        ) from None
    impl = with_new_origins(_fresh_implementation(intrin.impl))
    root = description_block(impl)
    block = realize.block.replace(
        body=root.body,
        init=realize.block.init,
        match_buffers=(*_match_regions(matcher, intrin.desc, impl), *root.match_buffers),
        alloc_buffers=(*realize.block.alloc_buffers, *root.alloc_buffers),
        annotations={**realize.block.annotations, **root.annotations},
    )
    if block_or_loop.is_loop:
        state.replace(block_or_loop, realize.replace(block=block), reuse)
    else:
        state.replace(block_or_loop, block, {block_or_loop.block: block})
