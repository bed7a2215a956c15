"""`IRSchedule`: the blocks of a program, and the steps that transform them, as CINN has them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from tvmagic.cinn.cinn_form import is_cinn_form, to_cinn
from tvmagic.cinn.conditions import Candidate
from tvmagic.cinn.merge_functions import with_bodies
from tvmagic.cinn.module_expr import ModuleExpr
from tvmagic.cinn.steps import (
    caches,
    copy_loop_info,
    inlining,
    lookup,
    loops,
    reduction,
)
from tvmagic.cinn.steps import (
    compute_at as moving,
)
from tvmagic.cinn.steps import (
    reverse_compute_at as reverse_moving,
)
from tvmagic.cinn.steps import (
    simple_compute_at as simple_moving,
)
from tvmagic.cinn.steps.declaration import STEPS
from tvmagic.cinn.steps.inlining import (
    check_compute_inline_validation_and_get_store,
    check_reverse_compute_inline_validation_and_get_exprs,
)
from tvmagic.cinn.steps.tree import leaves, names_of, set_names
from tvmagic.cinn.text.parser import from_cinn
from tvmagic.cinn.text.printer import cinn_text
from tvmagic.cinn.trace import ScheduleDesc
from tvmagic.errors import TVMagicError, a_thing, no_such_name
from tvmagic.ir import Block, BlockRealize, For, ForKind, GlobalVar, IntImm, IRModule, PrimExpr, PrimFunc, Stmt, Var
from tvmagic.ir.numpy_types import as_integer
from tvmagic.ir.schedulable import Schedulable
from tvmagic.ir.views import viewed
from tvmagic.tir.blocks.error import ScheduleError
from tvmagic.tir.blocks.sref import StmtSRef
from tvmagic.tir.schedule.instruction import BlockRV, LoopRV
from tvmagic.tir.schedule.schedule import Schedule

__all__ = [
    "IRSchedule",
    "ModuleExpr",
    "check_compute_inline_validation_and_get_store",
    "check_reverse_compute_inline_validation_and_get_exprs",
]

_T = TypeVar("_T")
_USED = (
    caches,
    copy_loop_info,
    inlining,
    loops,
    lookup,
    moving,
    reduction,
    reverse_moving,
    simple_moving,
)  # they declare the steps


@viewed("cinn schedule")
class IRSchedule(Schedulable):
    """The blocks of a program and the steps that transform them.

    Parameters
    ----------
    module: a function, a module, a TensorIR schedule, or CINN's text of a function.
    seed: where random samples start; by default the system's choice.

    Blocks are given by name or as `get_block` returns them; loops as `get_loops` returns them. Where CINN has an
    overload with a block's name and places, so has the method. A handle of a loop is valid until its loop is changed.
    A step that is not legal raises `ScheduleError` and leaves everything as it was. Below is the schedule `schedule`,
    which keeps the trace.

        >>> s = IRSchedule("serial for (i, 0, 8) { ScheduleBlock(B) { i0 = axis.bind(i) B[i0] = A[i0] } }")
        >>> i, i_0 = s.split("B", 0, [-1, 4])
        >>> s.vectorize(i_0, 4)
    """

    def __init__(self, module: PrimFunc | IRModule | Schedule | IRSchedule | str, *, seed: int | None = None) -> None:
        if isinstance(module, str):
            module = from_cinn(module)
        if isinstance(module, Schedulable):
            module = module.lower()
        if not isinstance(module, (PrimFunc, IRModule)):
            raise TVMagicError(
                f"an IRSchedule takes a function, a module, a schedule or CINN's text, not {a_thing(module)}",
                hint="the function of an operator is `NAME.to_prim_func()`",
                code="cinn.schedule.not_a_program",
            )
        mod = module if isinstance(module, IRModule) else IRModule({"main": module})
        for function in mod.functions.values():
            if not isinstance(function, PrimFunc) or not isinstance(function.body, BlockRealize):
                raise TVMagicError(
                    "the function has no root block, so there are no schedule blocks",
                    hint="use te.create_prim_func, tvmagic.cinn.lower or CINN's text",
                    code="cinn.schedule.no_root_block",
                )
        if not is_cinn_form(mod):
            mod = mod.replace(functions={v: to_cinn(f) for v, f in mod.functions.items()})
        self.schedule = Schedule(mod, seed=1 if seed == 0 else seed)

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            """An error for a name as it is in C++, with the name that it has here."""
            raise no_such_name(self, name)

    # ------------------------------------------------------------------ what it holds

    @property
    def mod(self) -> IRModule:
        """The module as it is now."""
        return self.schedule.mod

    @property
    def func(self) -> PrimFunc:
        """The function worked on, as it is now."""
        var: GlobalVar | None = self.schedule.func_working_on
        if var is None:
            raise TVMagicError(
                "the module has several functions and none is called `main`",
                hint="join them by merge_exprs, or make an IRSchedule of one of them",
                code="cinn.schedule.several_functions",
            )
        return self.mod[var]

    @property
    def trace(self) -> Any:
        """The steps so far, as TensorIR's schedules keep them."""
        return self.schedule.trace

    def lower(self) -> IRModule:
        """Return the module as it is now, `mod`."""
        return self.mod

    def text(self, notation: str | None = None, **options: Any) -> str:
        """Return the function worked on as CINN's text, without its head. For the options see `cinn_text`.

        `notation`: `tvmscript` or `classic` for the module in another notation, without options.
        """
        if notation not in (None, "cinn"):
            return super().text(notation)
        return cinn_text(self.func, **{"head": False, **options})

    def __str__(self) -> str:
        return str(self.get_module())

    def copy(self) -> IRSchedule:
        """A schedule of its own at the same point; blocks and loops are valid in both."""
        new = type(self).__new__(type(self))
        new.schedule = self.schedule.copy()
        set_names(new.schedule.state, names_of(self.schedule.state).copy())
        return new

    @property
    def root(self) -> Block:
        """The root block itself, as it is now."""
        body = self.func.body
        assert isinstance(body, BlockRealize)
        return body.block

    def block_of(self, block: Any) -> Block:
        """The block itself, as it is now. Looking leaves no trace."""
        return self._sref(block).block

    def loop_of(self, loop: LoopRV) -> For:
        """The loop itself, as it is now. Looking leaves no trace."""
        return self.schedule.get_sref(loop).loop

    def candidate(self, block: Any) -> Candidate:
        """What the conditions of inlining ask of a block."""
        return Candidate(self.schedule.state, self._sref(block))

    def block(self, block: Any) -> BlockRV:
        """A block given by name, or as it is."""
        if isinstance(block, str):
            return self.get_block(block)
        if not isinstance(block, BlockRV):
            raise TVMagicError(
                f"a block is given by its name or as `get_block` returns it, not as {type(block).__name__}",
                code="cinn.schedule.not_a_block",
            )
        return block

    def _sref(self, block: Any) -> StmtSRef:
        if isinstance(block, str):
            return lookup.found_block(self.schedule.state, block)
        return self.schedule.get_sref(self.block(block))

    # ------------------------------------------------------------------ running

    def _run(self, name: str, arguments: dict[str, Any], decision: Any = None, *, traced: bool = True) -> Any:
        """Run a step and keep it in the trace."""

        def run() -> Any:
            named = {key: self._handle(key, value) for key, value in arguments.items()}
            result = self.schedule.run_primitive(STEPS[name], named, decision)
            if not traced:
                self.schedule.trace.pop()
            return result

        return self._all_or_nothing(run)

    def _handle(self, key: str, value: Any) -> Any:
        """An argument with the handle of a block that is given by its name."""
        if key in ("block", "block_target"):
            return self.block(value)
        return self._block_or_loop(value) if key == "node" else value

    def _all_or_nothing(self, run: Callable[[], _T]) -> _T:
        """Run something; if it fails, the program, the trace and the names are as before."""
        state, trace = self.schedule.state, self.schedule.trace
        names, count = names_of(state).copy(), len(trace.insts)
        try:
            with state.transaction():
                return run()
        except BaseException as error:
            set_names(state, names)
            while len(trace.insts) > count:
                trace.pop()
            if isinstance(error, ScheduleError):  # without the program, which would be in TVMScript
                error.level = "fast"
                error.args = (str(error),)
            raise

    def _places(self, loops: Any, places: Sequence[int] | None, name: str) -> Any:
        """Run `fuse` or `reorder` on loops, or on the loops at some places around a block."""
        if places is None:
            return self._run(name, {"loops": loops})
        if isinstance(loops, str):
            return self._run(f"{name}WithName", {"block_name": loops, "loops_index": places})
        return self._run(f"{name}WithBlock", {"block": loops, "loops_index": places})

    # ------------------------------------------------------------------ the program

    def set_exprs(self, exprs: Sequence[Stmt]) -> None:
        """Replace the bodies worked on, one for each function. It is not a step of the trace."""
        mod = with_bodies(self.mod, exprs)
        self._all_or_nothing(lambda: self.schedule.state.reset(mod))

    def get_module(self) -> ModuleExpr:
        """The module's bodies as they are now."""
        return ModuleExpr(self.mod)

    def has_block(self, block_name: str) -> bool:
        """Whether a block has that name; two of a name are an error."""
        if not isinstance(block_name, str):
            raise TVMagicError(
                f"the name of a block must be a str, got {a_thing(block_name)}", code="cinn.schedule.not_a_name"
            )
        found = [s for s in self.schedule.state.srefs.values() if s.is_block and s.block.name_hint == block_name]
        if len(found) > 1:
            raise TVMagicError(f"{len(found)} blocks are called `{block_name}`", code="cinn.schedule.ambiguous_block")
        return bool(found)

    def merge_exprs(self) -> None:
        """Make the bodies of all functions one root's list, in their order; tensors of one name are one tensor.

        With one function nothing changes. Handles of the other bodies become invalid.
        """
        self._run("MergeExprs", {})
        self.schedule._working_on = self.schedule._first_function()

    def get_trace_desc(self) -> ScheduleDesc:
        """The steps so far."""
        return ScheduleDesc(self.schedule.trace)

    def get_device_api(self) -> str:
        """The device of the first loop: `UNK`; `GPU` if it is bound to threads."""
        bodies = [root.block.body for root in self.schedule.state.functions]
        first = next((leaf.loops[0] for body in bodies for leaf in leaves(body) if leaf.loops), None)
        return "GPU" if first is not None and first.kind is ForKind.THREAD_BINDING else "UNK"

    # ------------------------------------------------------------------ blocks and loops

    def get_loops(self, block: Any) -> list[LoopRV]:
        """The loops around a block, outermost first. A block without loops gets one, `ix`, of one iteration."""
        if isinstance(block, str):
            return self._run("GetLoopsWithName", {"block_name": block})
        return self._run("GetLoops", {"block": block})

    def get_all_blocks(self) -> list[BlockRV]:
        """The blocks in program order, without the roots. Blocks inside blocks do not count."""
        return self._run("GetAllBlocks", {})

    def get_block(self, block_name: str) -> BlockRV:
        """The block of a name. Requires: there is exactly one."""
        return self._run("GetBlock", {"name": block_name})

    def get_child_blocks(self, expr: Any) -> list[BlockRV]:
        """The blocks below a block or a loop, in program order; of a root all of them."""
        return self._run("GetChildBlocks", {"node": expr})

    def get_root_block(self, expr: Any = None) -> BlockRV:
        """The root above a block or a loop: the scope that is searched for writers and readers."""
        if expr is None:
            return self._run("GetBlock", {"name": self.root.name_hint})
        return self._run("GetRootBlock", {"node": expr})

    def _block_or_loop(self, target: Any) -> Any:
        return target if isinstance(target, LoopRV) else self.block(target)

    # ------------------------------------------------------------------ loops

    def split(self, loop: Any, *args: Any, factors: Sequence[Any] | None = None) -> list[LoopRV]:
        """Split a loop: `split(loop, factors)` or `split(name, index, factors)`; the new loops, outermost first.

        Requires: the loop begins at 0 and its extent is a number. One factor may be -1: what is left, rounded up;
        the product of the others is at most the extent. Without it the product is at least the extent. If the product
        is larger, a condition directly inside the innermost new loop keeps to the extent. The new loops are of the
        old one's kind.

            >>> s.split("B", 0, [-1, 4])
        """
        args = args if factors is None else (*args, factors)
        if len(args) not in (1, 2) or not isinstance(args[-1], (list, tuple)) or not args[-1]:
            raise TVMagicError(
                "`split` takes a loop and one factor or more, as a list",
                hint='write `split(loop, [-1, 4])`, or `split("B", 0, [-1, 4])`',
                code="cinn.split.wrong_arguments",
            )
        place, wanted = args if len(args) == 2 else (None, *args)

        def run() -> list[LoopRV]:
            target = loop if place is None else self._at(loop, place)
            sizes: Any = list(wanted)
            if all(isinstance(f, (int, IntImm)) for f in sizes) and isinstance(target, LoopRV):
                numbers = [int(f) if isinstance(f, int) else f.value for f in sizes]
                extent = getattr(self.schedule.get_sref(target).loop.extent, "value", 1)
                sizes = self.sample_perfect_tile(target, len(numbers), extent, numbers)
            return self.schedule.run_primitive(STEPS["Split"], {"loop": target, "factors": sizes})

        return self._all_or_nothing(run)

    def _at(self, block: Any, place: int) -> LoopRV:
        loops = self.get_loops(block)
        if not isinstance(place, int) or not 0 <= place < len(loops):
            raise TVMagicError(
                f"the block has {len(loops)} loops; give the place of one of them, not {place}",
                code="cinn.schedule.loop_out_of_range",
            )
        return loops[place]

    def fuse(self, loops: Any, loops_index: Sequence[int] | None = None) -> LoopRV:
        """Make one loop of nested ones: `fuse(loops)` or `fuse(block, indices)`.

        Requires: the loops are given outermost first, each is the only statement of the one outside, begins at 0 and
        has a number as its extent.

            >>> s.fuse("B", [0, 1])
        """
        return self._places(loops, loops_index, "Fuse")

    def reorder(self, loops: Any, loops_index: Sequence[int] | None = None) -> None:
        """Put nested loops in the order given, on the places that they hold: `reorder(loops)`, `reorder(block, indices)`.

        Requires: the loops are nested in one another, no condition with an else between them; no loop's range depends
        on one that comes inside it; no access depends on the order, sums aside. A condition goes directly inside the
        innermost loop whose variable it uses. Statements beside the chain become nests of their own before or after it.

            >>> s.reorder("B", [1, 0])
        """
        self._places(loops, loops_index, "Reorder")

    def flatten_loops(self, loops: Sequence[LoopRV], force_flat: bool = False) -> LoopRV:
        """Make one loop `flat_i` of nested ones, and one variable of those of the blocks in them.

        Requires: as for fuse; the blocks do not reduce and bind the loops in order, or 0. Accesses are by one flat
        index. With `force_flat` it is an error if a tensor of as many elements is accessed in another order.

            >>> s.flatten_loops(s.get_loops("B"))
        """
        return self._run("FlattenLoops", {"loops": loops, "force_flat": force_flat})

    def mutate_for_type(self, loop: LoopRV, for_type: str, factor: int = -1) -> None:
        """Say how a serial loop runs: Serial, Parallel, Vectorized, Unrolled, GPUThread, GPUBlock, GPULane, Default.

        `factor` is the vector length, or 0, 1, 2 for the axes x, y, z. Requires: the loop is serial; iterations that
        run at the same time touch different elements. It is not a step of the trace.

            >>> s.mutate_for_type(s.get_loops("B")[0], "Parallel")
        """
        self._run("MutateForType", {"loop": loop, "for_type": for_type, "factor": factor}, traced=False)

    def parallel(self, loop: LoopRV) -> None:
        """Run a loop's iterations on several threads. Requires: they touch different elements.

        >>> s.parallel(s.get_loops("B")[0])
        """
        self._run("Parallel", {"loop": loop})

    def vectorize(self, loop: LoopRV, factor: int) -> None:
        """Run a loop by vectors of `factor` elements. The loop keeps its extent; it is split when it is lowered.

        Requires: `factor` is positive; the iterations touch different elements.

            >>> s.vectorize(s.get_loops("B")[-1], 4)
        """
        self._run("Vectorize", {"loop": loop, "factor": factor})

    def unroll(self, loop: LoopRV) -> None:
        """Write a loop's iterations out. Requires: the loop is serial.

        >>> s.unroll(s.get_loops("B")[0])
        """
        self._run("Unroll", {"loop": loop})

    def bind(self, loop: LoopRV, thread_axis: str) -> None:
        """Bind a loop to a thread axis, `blockIdx.x` ... `threadIdx.z`. Requires: iterations touch different elements.

        >>> s.bind(s.get_loops("B")[0], "threadIdx.x")
        """
        self._run("Bind", {"loop": loop, "thread_axis": thread_axis})

    # ------------------------------------------------------------------ moving

    def compute_at(self, block: Any, loop: LoopRV, keep_unit_loops: bool = False) -> None:
        """Move a producer to the front of a loop's body; it computes there what its consumers read in one iteration.

        The ranges become loops `ax0`, `ax1`, ...; a range of one makes no loop unless `keep_unit_loops`. A reduction takes
        its first values along. Requires: the block has one store, at its distinct plain variables, to a tensor inside
        the function that no other block writes; all readers are under the loop, after the block.

            >>> s.compute_at("B", s.get_loops("C")[0])
        """
        self._run("ComputeAt", {"block": block, "loop": loop, "keep_unit_loops": keep_unit_loops})

    def simple_compute_at(self, block: Any, loop: LoopRV) -> None:
        """Move a block under a loop whose nest, down to there, runs like the block's own outermost loops.

        Requires: the outer loops of the block have, one by one, the extents of those down to `loop`, an outermost 1 on
        one side aside; no access depends on the order in which the iterations of both then run.

            >>> s.simple_compute_at("B", s.get_loops("C")[0])
        """
        self._run("SimpleComputeAt", {"block": block, "loop": loop})

    def reverse_compute_at(self, block: Any, loop: LoopRV, keep_unit_loops: bool = False) -> None:
        """Move a consumer to the end of a loop's body; it uses there what its producers stored in one iteration.

        Requires: its producers under the loop have stored all of an element when an iteration ends; it loads what they
        store at plain variables, the same ones in all loads; nothing between depends on the move.

            >>> s.reverse_compute_at("C", s.get_loops("B")[0])
        """
        self._run("ReverseComputeAt", {"block": block, "loop": loop, "keep_unit_loops": keep_unit_loops})

    def compute_inline(self, block: Any) -> None:
        """Write a block into all its consumers and take it away.

        Requires: it has exactly one store and is not a reduction; it is the only writer of its tensor under
        the root and does not load it; the indices of the store are distinct plain variables and no other
        variable occurs in it; the tensor is not an output; it is not the only leaf.

            >>> s.compute_inline("B")
        """
        self._run("ComputeInline", {"block": block})

    def reverse_compute_inline(self, block: Any) -> None:
        """Write a block into its one producer and take it away.

        Requires: it is the only reader of its producer's tensor, by one load at distinct plain variables,
        and no other variable occurs in its one store; it loads all that the producer stores.

            >>> s.reverse_compute_inline("C")
        """
        self._run("ReverseComputeInline", {"block": block})

    def copy_transform_and_loop_info(self, block: Any, block_target: Any) -> None:
        """Give a block the loops and bindings of another one, as far as their leading dimensions have the same sizes.

        Requires: the first sizes are equal and constant; the block is alone in its nest. It is not a step of the trace.

            >>> s.copy_transform_and_loop_info("C", "B")
        """
        arguments = {"block": block, "block_target": block_target}
        self._run("CopyTransformAndLoopInfo", arguments, traced=False)

    # ------------------------------------------------------------------ memory

    def cache_read(self, block: Any, read_buffer_index: int, memory_type: str) -> BlockRV:
        """Read a tensor through a copy, in `local`, `shared` or `global`, of the part that the block reads.

        The index counts the loads in the block's body from 0, that of what a reduction adds to included; the block
        that copies comes back. It is right after the tensor's producer, or first in the root.

            >>> s.cache_read("B", 0, "local")
        """
        arguments = {"block": block, "read_buffer_index": read_buffer_index, "memory_type": memory_type}
        return self._run("CacheRead", arguments)

    def cache_write(self, block: Any, write_buffer_index: int, memory_type: str) -> BlockRV:
        """Write a tensor through a cache. Afterwards `B` is the block that copies; the block that computes comes
        back.

        It is called `B_local_temp_buffer` and stays in its loops; `B__reduce_init` names the cache's tensor.

            >>> s.cache_write("C", 0, "local")
        """
        arguments = {"block": block, "write_buffer_index": write_buffer_index, "memory_type": memory_type}
        return self._run("CacheWrite", arguments)

    def sync_threads(self, ir_node: Any, after_node: bool = True) -> None:
        """Put `__syncthreads()` after a block or loop, or before it. On a CPU it does nothing.

        >>> s.sync_threads(s.get_loops("B")[0])
        """
        self._run("SyncThreads", {"node": ir_node, "after_node": after_node})

    def set_buffer(self, block: Any, memory_type: str, fixed: bool = False) -> None:
        """Put what a block stores into `local`, `shared` or `global` memory.

        With `local` and `fixed` the tensor has one element, at which all accesses are. Requires: the tensor lives inside
        the function; for one element, all accesses at a time are to the same one.

            >>> s.set_buffer("B", "local")
        """
        arguments = {"block": block, "memory_type": memory_type, "fixed": fixed}
        self._run("SetBuffer", arguments)

    # ------------------------------------------------------------------ the rest

    def rfactor(self, rf_loop: LoopRV, rf_axis: int) -> BlockRV:
        """Add up in parts: a loop that reduces becomes dimension `rf_axis` of a new tensor; the block that fills it.

        Requires: the loop begins at 0, has a number as its extent and holds one block, a sum, a product, the least or
        the greatest value, with its first values in a block of their own.

            >>> s.rfactor(s.get_loops("B")[-1], 0)
        """
        return self._run("Rfactor", {"rf_loop": rf_loop, "rf_axis": rf_axis})

    def annotate(self, block: Any, key: str, value: Any) -> None:
        """Add an annotation to a block: an int, a bool, a float or a text. A key that is there keeps its value.

        >>> s.annotate("B", "note", 1)
        """
        kinds = ((bool, "Bool"), (int, "Int"), (float, "Float"), (str, "String"))
        name = next((name for kind, name in kinds if isinstance(value, kind)), None)
        if name is None:
            raise TVMagicError(
                f"an attribute is an int, a bool, a float or a text, not {type(value).__name__}",
                code="cinn.annotate.wrong_value",
            )
        self._run(f"Annotate{name}Attr", {"block": block, "key": key, "value": value})

    def unannotate(self, block: Any, key: str) -> None:
        """Remove an annotation of a block; a missing key is a warning.

        >>> s.unannotate("B", "note")
        """
        self._run("Unannotate", {"block": block, "key": key})

    def sample_perfect_tile(
        self, loop: LoopRV, n: int, max_innermost_factor: int = 16, decision: Sequence[int] | None = None
    ) -> list[PrimExpr]:
        """Draw `n` factors whose product is the loop's extent, the last at most the limit. A decision stays as it is.

        >>> s.split(s.get_loops("B")[0], s.sample_perfect_tile(s.get_loops("B")[0], 2, 16))
        """
        arguments = {"loop": loop, "n": n, "max_innermost_factor": max_innermost_factor}
        if decision is not None and not isinstance(decision, (list, tuple)):
            raise TVMagicError(
                f"a decision is a list of {n} factors, not {a_thing(decision)}",
                code="cinn.sample_perfect_tile.wrong_decision",
            )
        return self._run("SamplePerfectTile", arguments, list(decision) if decision else None)

    def sample_categorical(self, candidates: Sequence[int], probs: Sequence[float], decision: Any = None) -> PrimExpr:
        """Draw one of the candidates, each as likely as its number in `probs`; a decision is its place.

        >>> s.sample_categorical([4, 8], [0.5, 0.5])
        """
        chosen = decision if as_integer(decision) is None else [decision]
        return self._run("SampleCategorical", {"candidates": candidates, "probs": probs}, chosen)

    def value_of(self, sample: PrimExpr | Var) -> int:
        """The number that a sample is."""
        return self.schedule.get(sample)

    def tag_post_schedule(self) -> None:
        """A step in the trace alone: what follows is post processing, and a replay may stop there.

        >>> s.tag_post_schedule()
        """
        self._run("TagPostSchedule", {})
