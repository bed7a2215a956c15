"""`IRSchedule`: a TensorIR schedule in CINN's terms."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tvmagic.cinn.conditions import COMPUTE_INLINE, REVERSE_COMPUTE_INLINE, Candidate, Condition, first_failure
from tvmagic.cinn.inliner import BaseInliner, ComputeInliner, LeafBlockRemovalPlan, ReverseComputeInliner
from tvmagic.cinn.text.parser import from_cinn
from tvmagic.cinn.text.printer import cinn_text
from tvmagic.errors import TVMagicError
from tvmagic.ir import Block, BlockRealize, BufferStore, IntImm, IRModule, PrimExpr, PrimFunc, Stmt, structural_equal
from tvmagic.tir.blocks.error import ScheduleError
from tvmagic.tir.blocks.sref import StmtSRef
from tvmagic.tir.schedule.instruction import BlockRef, BlockRV, InstructionKind, LoopRV
from tvmagic.tir.schedule.primitives.get import get_block as find_block
from tvmagic.tir.schedule.schedule import Schedule
from tvmagic.tir.schedule.state import ScheduleState

__all__ = [
    "IRSchedule",
    "ModuleExpr",
    "check_compute_inline_validation_and_get_store",
    "check_reverse_compute_inline_validation_and_get_exprs",
]


class ModuleExpr:
    """What a schedule works on: the bodies of a module's functions, in order."""

    def __init__(self, mod: IRModule) -> None:
        self.mod = mod

    def get_exprs(self) -> list[Stmt]:
        """The root block (its realize) of each function."""
        return [f.body for f in self.mod.functions.values() if isinstance(f, PrimFunc)]

    def __str__(self) -> str:
        return "\n".join(cinn_text(body) for body in self.get_exprs())


# ---------------------------------------------------------------------------- inlining


def _refuse(candidate: Candidate, failure: tuple[Condition, str]) -> None:
    condition, reason = failure
    raise ScheduleError(f"{reason} (`{condition.name}`: {condition.text})", candidate.sref)


def check_compute_inline_validation_and_get_store(candidate: Candidate) -> BufferStore:
    """The one store of a block that may be written into its consumers."""
    failure = first_failure(COMPUTE_INLINE, candidate)
    if failure is not None:
        _refuse(candidate, failure)
    return candidate.store


def check_reverse_compute_inline_validation_and_get_exprs(candidate: Candidate) -> tuple[Any, BufferStore]:
    """The load of its producer and the one store of a block that may be written into its producer."""
    failure = first_failure(REVERSE_COMPUTE_INLINE, candidate)
    if failure is not None:
        _refuse(candidate, failure)
    return candidate.loads_of_tensor[0], candidate.store


def _inline(state: ScheduleState, candidate: Candidate, inliner: BaseInliner) -> None:
    inliner.src_stmt, inliner.tgt_stmt = LeafBlockRemovalPlan(candidate.block)(candidate.root)
    state.replace(state.root_of(candidate.sref), inliner(candidate.root), inliner.reuse)


def compute_inline(state: ScheduleState, block: BlockRef) -> None:
    """Write a block into its consumers, by CINN's inliner."""
    candidate = Candidate(state, block)
    store = check_compute_inline_validation_and_get_store(candidate)
    inliner = ComputeInliner(store.buffer, store)
    if not inliner.body_pattern_allow_inline():
        raise ScheduleError(f"the pattern of `{candidate.name}` cannot be inlined", block)
    _inline(state, candidate, inliner)


def reverse_compute_inline(state: ScheduleState, block: BlockRef) -> None:
    """Write a block into its producer, by CINN's inliner."""
    candidate = Candidate(state, block)
    load, store = check_reverse_compute_inline_validation_and_get_exprs(candidate)
    inliner = ReverseComputeInliner(load.buffer, store, load)
    if not inliner.body_pattern_allow_inline():
        raise ScheduleError(f"the pattern of `{candidate.name}` cannot be inlined", block)
    _inline(state, candidate, inliner)


# In the trace they are TensorIR's instructions: what they do is the same, and a trace replays anywhere.
_COMPUTE_INLINE = InstructionKind("ComputeInline", compute_inline, False, None, None)
_REVERSE_COMPUTE_INLINE = InstructionKind("ReverseComputeInline", reverse_compute_inline, False, None, None)


# ---------------------------------------------------------------------------- the schedule


class IRSchedule:
    """The blocks of a module and the calls that transform them.

    Parameters
    ----------
    module: a function, a module, or CINN's text of a function.
    seed: where random samples start; the system's choice unless told.

    Blocks are given by name or as `get_block` returns them; loops as `get_loops` returns them, or by
    the block and the loop's place. Below is the TensorIR schedule `schedule`, which keeps the trace;
    a call that is not legal raises `ScheduleError` and leaves everything as it was.
    """

    def __init__(self, module: PrimFunc | IRModule | str, *, seed: int | None = None) -> None:
        if isinstance(module, str):
            self.schedule = Schedule(from_cinn(module), seed=seed)
        else:
            self.schedule = Schedule(module, seed=seed)
        if not isinstance(self.func.body, BlockRealize):
            raise TVMagicError(
                "the function has no root block, so there are no schedule blocks",
                hint="use te.create_prim_func, tvmagic.cinn.lower or CINN's text",
            )

    # ------------------------------------------------------------------ what it holds

    @property
    def mod(self) -> IRModule:
        """The module as it is now."""
        return self.schedule.mod

    @property
    def func(self) -> PrimFunc:
        """The function worked on, as it is now."""
        var = self.schedule.func_working_on
        if var is None:
            raise TVMagicError(
                "the module has several functions and none is called `main`",
                hint="make an IRSchedule of one of them",
            )
        return self.mod.functions[var]

    @property
    def trace(self) -> Any:
        """The calls so far."""
        return self.schedule.trace

    def get_module(self) -> ModuleExpr:
        """The module's bodies as they are now."""
        return ModuleExpr(self.mod)

    def text(self, **options: Any) -> str:
        """The function worked on as CINN's text; for the options see `cinn_text`."""
        return cinn_text(self.func, **options)

    def __str__(self) -> str:
        return str(self.get_module())

    def copy(self) -> IRSchedule:
        """A schedule of its own at the same point; blocks and loops are valid in both."""
        new = type(self).__new__(type(self))
        new.schedule = self.schedule.copy()
        return new

    def has_block(self, block_name: str) -> bool:
        """Whether a block has that name."""
        return any(s.is_block and s.block.name_hint == block_name for s in self.schedule.state.srefs.values())

    def get_block(self, block_name: str) -> BlockRV:
        """The block called `block_name`."""
        return self.schedule.get_block(block_name)  # type: ignore[attr-defined]

    def get_all_blocks(self) -> list[BlockRV]:
        """The blocks in program order, without the root."""
        found: list[BlockRV] = []
        pending = [self._root()]
        while pending:
            children = self.schedule.get_child_blocks(pending.pop())  # type: ignore[attr-defined]
            found += children
            pending += [c for c in reversed(children) if self.schedule.state.child_blocks(self.schedule.get_sref(c))]
        return found

    def get_root_block(self, block: Any = None) -> BlockRV:
        """The root block above a block: the scope that is searched for writers and readers."""
        return self._root()

    def _root(self) -> BlockRV:
        return self.schedule.get_block(self.root.name_hint)  # type: ignore[attr-defined]

    @property
    def root(self) -> Block:
        """The root block itself, as it is now."""
        body = self.func.body
        assert isinstance(body, BlockRealize)
        return body.block

    def get_loops(self, block: Any) -> list[LoopRV]:
        """The loops round a block, outermost first."""
        return self.schedule.get_loops(self.block(block))  # type: ignore[attr-defined]

    def block_of(self, block: Any) -> Block:
        """The block itself, as it is now. Looking leaves no trace."""
        return self._sref(block).block

    def _sref(self, block: Any) -> StmtSRef:
        if isinstance(block, str):
            function = self.schedule.func_working_on
            return find_block(self.schedule.state, block, None if function is None else function.name_hint)
        return self.schedule.get_sref(self.block(block))

    def block(self, block: Any) -> BlockRV:
        """A block given by name, or as it is."""
        if isinstance(block, str):
            return self.get_block(block)
        if not isinstance(block, BlockRV):
            raise TVMagicError(
                f"a block is given by its name or as `get_block` returns it, not as {type(block).__name__}"
            )
        return block

    def candidate(self, block: Any) -> Candidate:
        """What the conditions of inlining ask of a block."""
        return Candidate(self.schedule.state, self._sref(block))

    def _loop(self, loop: Any, place: int | None) -> LoopRV:
        """A loop as it is, or the one at a place round a block."""
        if isinstance(loop, LoopRV):
            return loop
        loops = self.get_loops(loop)
        if place is None or not -len(loops) <= place < len(loops):
            raise TVMagicError(f"the block has {len(loops)} loops; give the place of one of them, not {place}")
        return loops[place]

    def _loops(self, loops: Any, places: Sequence[int] | None) -> list[LoopRV]:
        if places is None:
            return list(loops)
        return [self._loop(loops, place) for place in places]

    # ------------------------------------------------------------------ inlining

    def compute_inline(self, block: Any) -> None:
        """Write a block into all its consumers and take it away.

        Requires: it has exactly one store and is no reduction; it is the only writer of its tensor under
        the root and does not load it; the indices of the store are distinct plain variables and no other
        variable occurs in it; the tensor is no output; it is not the only leaf.
        """
        self.schedule.run_instruction(_COMPUTE_INLINE, [self.block(block)], [])

    def reverse_compute_inline(self, block: Any) -> None:
        """Write a block into its one producer and take it away.

        Requires: it is the only reader of its producer's tensor, by one load at distinct plain variables,
        and no other variable occurs in its one store; it loads all that the producer stores.
        """
        self.schedule.run_instruction(_REVERSE_COMPUTE_INLINE, [self.block(block)], [])

    # ------------------------------------------------------------------ moving

    def compute_at(self, block: Any, loop: LoopRV, keep_unit_loops: bool = False) -> None:
        """Move a producer under a loop of its consumers; it computes there what they need."""
        self.schedule.compute_at(self.block(block), loop, keep_unit_loops)  # type: ignore[attr-defined]

    def reverse_compute_at(self, block: Any, loop: LoopRV, keep_unit_loops: bool = False) -> None:
        """Move a consumer under a loop of its producers; it uses there what they have computed."""
        self.schedule.reverse_compute_at(self.block(block), loop, keep_unit_loops)  # type: ignore[attr-defined]

    def simple_compute_at(self, block: Any, loop: LoopRV) -> None:
        """Move a block under a loop whose nest down to there runs like the block's own outermost loops.

        Requires: the outer loops of the block have, one by one, the extents of those down to `loop`.
        """
        block = self.block(block)
        own = [self.schedule.get(x) for x in self.get_loops(block)]
        target = self.schedule.get_sref(loop)
        others = [s.loop for s in (*self.schedule.state.loops_of(target), target)]
        same = [structural_equal(a.extent, b.extent) for a, b in zip(own, others)]
        if len(own) < len(others) or not all(same):
            raise ScheduleError(
                "the block's outer loops do not have the extents of the loops down to the one given",
                self.schedule.get_sref(block),
                hint="use compute_at, which finds the extents that are needed",
            )
        try:
            self.schedule.compute_at(block, loop, True)  # type: ignore[attr-defined]
        except ScheduleError:  # it is no producer there
            self.schedule.reverse_compute_at(block, loop, True)  # type: ignore[attr-defined]

    # ------------------------------------------------------------------ loops

    def split(self, loop: Any, *args: Any) -> list[LoopRV]:
        """Split a loop: `split(loop, factors)` or `split(block, place, factors)`; -1 is what is left."""
        place, factors = args if len(args) == 2 else (None, *args)
        sizes = [None if f == -1 else f for f in factors]
        return self.schedule.split(self._loop(loop, place), sizes)  # type: ignore[attr-defined]

    def fuse(self, loops: Any, places: Sequence[int] | None = None) -> LoopRV:
        """Fuse nested loops: `fuse(loops)` or `fuse(block, places)`."""
        return self.schedule.fuse(*self._loops(loops, places))  # type: ignore[attr-defined]

    def reorder(self, loops: Any, places: Sequence[int] | None = None) -> None:
        """Put nested loops in the order given: `reorder(loops)` or `reorder(block, places)`."""
        self.schedule.reorder(*self._loops(loops, places))  # type: ignore[attr-defined]

    def parallel(self, loop: LoopRV) -> None:
        """Run a loop's iterations on several threads."""
        self.schedule.parallel(loop)  # type: ignore[attr-defined]

    def vectorize(self, loop: LoopRV, factor: int | None = None) -> None:
        """Vectorize a loop by vectors of `factor` elements; a longer loop is split first."""
        extent = self.schedule.get(loop).extent
        if factor is not None and not (isinstance(extent, IntImm) and extent.value == factor):
            loop = self.split(loop, [-1, factor])[1]
        self.schedule.vectorize(loop)  # type: ignore[attr-defined]

    def unroll(self, loop: LoopRV) -> None:
        """Write a loop's iterations out."""
        self.schedule.unroll(loop)  # type: ignore[attr-defined]

    def bind(self, loop: LoopRV, thread_axis: str) -> None:
        """Bind a loop to a thread axis such as `threadIdx.x`."""
        self.schedule.bind(loop, thread_axis)  # type: ignore[attr-defined]

    # ------------------------------------------------------------------ the rest

    def cache_read(self, block: Any, read_buffer_index: int, memory_type: str) -> BlockRV:
        """Read a buffer through a copy in `memory_type`; the block that copies."""
        return self.schedule.cache_read(self.block(block), read_buffer_index, memory_type)  # type: ignore[attr-defined]

    def cache_write(self, block: Any, write_buffer_index: int, memory_type: str) -> BlockRV:
        """Write a buffer through a copy in `memory_type`; the block that copies."""
        return self.schedule.cache_write(self.block(block), write_buffer_index, memory_type)  # type: ignore[attr-defined]

    def set_buffer(self, block: Any, memory_type: str) -> None:
        """Put what a block writes into `memory_type`."""
        self.schedule.set_scope(self.block(block), 0, memory_type)  # type: ignore[attr-defined]

    def rfactor(self, rf_loop: LoopRV, rf_axis: int) -> BlockRV:
        """Turn a loop of a reduction into an axis of an intermediate tensor; the block that fills it."""
        return self.schedule.rfactor(rf_loop, rf_axis)  # type: ignore[attr-defined]

    def annotate(self, block: Any, key: str, value: Any) -> None:
        """Add a fact to a block or loop."""
        self.schedule.annotate(self._block_or_loop(block), key, value)  # type: ignore[attr-defined]

    def unannotate(self, block: Any, key: str) -> None:
        """Take a fact off a block or loop."""
        self.schedule.unannotate(self._block_or_loop(block), key)  # type: ignore[attr-defined]

    def _block_or_loop(self, target: Any) -> Any:
        return target if isinstance(target, LoopRV) else self.block(target)

    def sample_perfect_tile(
        self, loop: LoopRV, n: int, max_innermost_factor: int = 16, decision: list[int] | None = None
    ) -> list[PrimExpr]:
        """Draw `n` factors whose product is the loop's extent."""
        return self.schedule.sample_perfect_tile(loop, n, max_innermost_factor, decision)  # type: ignore[attr-defined]

    def sample_categorical(self, candidates: list[int], probs: list[float], decision: int | None = None) -> PrimExpr:
        """Draw one of the candidates."""
        return self.schedule.sample_categorical(candidates, probs, decision)  # type: ignore[attr-defined]
