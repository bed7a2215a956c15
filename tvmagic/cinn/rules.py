"""The rules of CINN's automatic scheduling besides AutoInline, each as what it does to the program."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass

from tvmagic.cinn.cinn_form import init_block_of
from tvmagic.cinn.ir_schedule import IRSchedule
from tvmagic.cinn.rule import AutoGenRule, RuleApplyType
from tvmagic.cinn.steps.coverage import is_update
from tvmagic.cinn.steps.tree import Leaf, leaf_of, leaves
from tvmagic.errors import TVMagicError
from tvmagic.ir import For, ForKind, IntImm, IterVar
from tvmagic.ir.query import variables_in
from tvmagic.tir.schedule.instruction import LoopRV

_UNROLL_STEPS = (0, 8, 32, 128)
_MOST_THREADS, _MOST_BLOCKS = 1024, 256
_INNERMOST = 64


class SkipRule(AutoGenRule):
    """Changes nothing: the block stays as it is."""

    def init(self, ir_schedule: IRSchedule) -> RuleApplyType:
        """It can always be applied, at one place."""
        self.ir_schedule, self.applicable = ir_schedule, [ir_schedule.root.name_hint]
        return RuleApplyType.APPLY

    def analyse_apply_type(self, state: object, block_name: str) -> RuleApplyType:
        """It can be applied to every block."""
        return RuleApplyType.APPLY

    def apply_at(self, ir_schedule: IRSchedule, name: str) -> None:
        """Change nothing."""


class AutoUnroll(AutoGenRule):
    """Sets how much may be unrolled, `auto_unroll_max_step`, on a root under which something reduces.

    The value is one of 0, 8, 32, 128. When the program is lowered, serial loops whose extent times the number of their
    statements is at most that are unrolled, innermost first, those of an extent of at most 50.
    """

    def __init__(self, target: object = None, seed: int | None = None) -> None:
        super().__init__(target)
        self.random = random.Random(seed)

    def init(self, ir_schedule: IRSchedule) -> RuleApplyType:
        """It can be applied to a root under which some block reduces or some loop is not serial."""
        self.ir_schedule = ir_schedule
        found = leaves(ir_schedule.root.body)
        wanted = any(leaf.reducing for leaf in found) or any(
            loop.kind is not ForKind.SERIAL for leaf in found for loop in leaf.loops
        )
        self.applicable = [ir_schedule.root.name_hint] if wanted else []
        return RuleApplyType.APPLY if wanted else RuleApplyType.CANNOT_APPLY

    def analyse_apply_type(self, state: object, block_name: str) -> RuleApplyType:
        """Whether it can be applied to the root above a block."""
        return self.init(getattr(state, "ir_schedule", state))  # type: ignore[arg-type]

    def apply_at(self, ir_schedule: IRSchedule, name: str) -> None:
        """Set the attribute on the root."""
        root = ir_schedule.get_root_block(name) if name != ir_schedule.root.name_hint else ir_schedule.get_root_block()
        ir_schedule.annotate(root, "auto_unroll_max_step", self.random.choice(_UNROLL_STEPS))


class AutoBind(AutoGenRule):
    """Binds the outermost loops of blocks to threads of a GPU, as many as are free of reductions."""

    def init(self, ir_schedule: IRSchedule) -> RuleApplyType:
        """It can be applied to blocks whose outermost loops can be fused and bound."""
        self.ir_schedule = ir_schedule
        found = leaves(ir_schedule.root.body)
        self.applicable = [leaf.name for leaf in found if _free_loops(leaf, found)]
        return RuleApplyType.APPLY_AND_PRUNE_OTHER_RULES if self.applicable else RuleApplyType.CANNOT_APPLY

    def apply_at(self, ir_schedule: IRSchedule, name: str) -> None:
        """Fuse the outermost loops of a block, split what is too large for a block of threads, and bind."""
        found = leaves(ir_schedule.root.body)
        leaf = next(f for f in found if f.name == name)
        free = _free_loops(leaf, found)
        if not free:
            raise TVMagicError(f"`{name}` has no outer loop that can be bound", code="cinn.auto_rule.no_outer_loop")
        next_loop = leaf.loops[len(free)] if len(free) < len(leaf.loops) else None
        handles = ir_schedule.get_loops(name)[: len(free)]
        fused = ir_schedule.fuse(handles)
        extent = _extent(ir_schedule.loop_of(fused))
        if next_loop is not None and next_loop.kind is ForKind.THREAD_BINDING:
            ir_schedule.bind(fused, "blockIdx.x")
        elif extent <= _MOST_THREADS:
            ir_schedule.bind(fused, "threadIdx.x")
        elif extent <= _MOST_BLOCKS * _MOST_THREADS:
            blocks, threads = ir_schedule.split(fused, [-1, _MOST_THREADS])
            ir_schedule.bind(blocks, "blockIdx.x")
            ir_schedule.bind(threads, "threadIdx.x")
        else:
            rest, blocks, threads = ir_schedule.split(fused, [-1, _MOST_BLOCKS, _MOST_THREADS])
            ir_schedule.reorder([blocks, threads, rest])
            ir_schedule.bind(blocks, "blockIdx.x")
            ir_schedule.bind(threads, "threadIdx.x")


def _extent(loop: For) -> int:
    return loop.extent.value if isinstance(loop.extent, IntImm) else 0


def _free_loops(leaf: Leaf, every: Sequence[Leaf]) -> list[For]:
    """The outermost loops of a block, each the only statement of the one outside, serial, and of no reduction."""
    free: list[For] = []
    reducing = {v for found in every for v in found.reducing}
    outside = None
    for loop in leaf.loops:
        alone = outside is None or leaf.path[leaf.path.index(outside) + 1] is loop
        if not alone or loop.kind is not ForKind.SERIAL or loop.loop_var in reducing or not _extent(loop):
            break
        free.append(loop)
        outside = loop
    return free


@dataclass(frozen=True)
class TilingConfig:
    """What MultiLevelTiling does.

    structure: the levels from the outside, `S` for spatial loops and `R` for those that reduce.
    read_memory, read_level: where inputs are copied to, and at which level; nothing is copied without a level.
    write_memory, write_level: the same for what is written.
    bound: the thread axes to which the first levels are bound.
    """

    structure: str = "SSRSRS"
    read_memory: str = "local"
    read_level: int | None = 3
    write_memory: str = "local"
    write_level: int | None = 2
    bound: tuple[str, ...] = ()


CPU = TilingConfig()
GPU = TilingConfig("SSSRRSRS", "shared", 4, "local", 3, ("blockIdx.x", "threadIdx.x"))


def _config_for(target: object) -> TilingConfig:
    """That of a GPU if the target is one, by its name: `cuda`, `nvptx -mcpu=sm_80`, `opencl`; else that of a CPU."""
    return GPU if str(target).lower().startswith(("cuda", "nvptx", "nvgpu", "gpu", "opencl", "hip")) else CPU


class MultiLevelTiling(AutoGenRule):
    """Tiles blocks that use their inputs several times, by levels of spatial loops and of loops that reduce.

    Each spatial loop is split into as many as the structure has `S`, each that reduces into as many as it has `R`, and
    all are put in the structure's order; then inputs are copied and results cached at the levels given. Without a
    `config` the target says whether it is that of a CPU or of a GPU.
    """

    def __init__(self, target: object = None, config: TilingConfig | None = None, seed: int | None = None) -> None:
        super().__init__(target)
        self.config = config or _config_for(target)
        self.random = random.Random(seed)

    def init(self, ir_schedule: IRSchedule) -> RuleApplyType:
        """It can be applied to blocks with one write and a read that does not use all of their spatial variables."""
        self.ir_schedule = ir_schedule
        self.applicable = [leaf.name for leaf in leaves(ir_schedule.root.body) if _reuses(leaf)]
        return RuleApplyType.APPLY_AND_PRUNE_OTHER_RULES if self.applicable else RuleApplyType.CANNOT_APPLY

    def apply_at(self, ir_schedule: IRSchedule, name: str) -> None:
        """Tile one block; raises `TVMagicError` if it cannot be tiled."""
        leaf = leaf_of(ir_schedule.root.body, ir_schedule.block_of(name))
        if not _reuses(leaf):
            raise TVMagicError(
                f"`{name}` does not use its inputs several times", code="cinn.auto_rule.inputs_used_once"
            )
        levels = self._tiles(ir_schedule, name, leaf)
        ir_schedule.reorder([loop for level in levels for loop in level])
        for axis, level in zip(self.config.bound, levels):
            extents = [_extent(ir_schedule.loop_of(loop)) for loop in level]
            product = 1
            for extent in extents:
                product *= extent
            if level and product <= _MOST_THREADS:
                ir_schedule.bind(ir_schedule.fuse(level), axis)
        self._caches(ir_schedule, name)

    def _tiles(self, ir_schedule: IRSchedule, name: str, leaf: Leaf) -> list[list[LoopRV]]:
        """The loops of each level, split by perfect tiles."""
        structure = self.config.structure
        levels: list[list[LoopRV]] = [[] for _ in structure]
        reducing = [loop.loop_var in leaf.reducing for loop in leaf.loops]
        handles = ir_schedule.get_loops(name)
        for handle, reduces in zip(handles, reducing):
            places = [n for n, letter in enumerate(structure) if letter == ("R" if reduces else "S")]
            tile = ir_schedule.sample_perfect_tile(handle, len(places), _INNERMOST)
            for place, new in zip(places, ir_schedule.split(handle, tile)):
                levels[place].append(new)
        return levels

    def _depth(self, ir_schedule: IRSchedule, name: str, level: int) -> int:
        """How many loops are around the end of a level, counted from the outside."""
        leaf = leaf_of(ir_schedule.root.body, ir_schedule.block_of(name))
        spatial = len([a for a in leaf.block.iter_vars if a.iter_type != IterVar.CommReduce])
        reducing = len(leaf.block.iter_vars) - spatial
        counts = [spatial if letter == "S" else reducing for letter in self.config.structure]
        bound = sum(1 for loop in leaf.loops if loop.kind is ForKind.THREAD_BINDING)
        for place in range(bound):
            counts[place] = 1
        return sum(counts[:level])

    def _caches(self, ir_schedule: IRSchedule, name: str) -> None:
        config = self.config
        computing: str = name
        if config.write_level is not None:
            made = ir_schedule.cache_write(name, 0, config.write_memory)
            computing = ir_schedule.block_of(made).name_hint
            at = self._depth(ir_schedule, computing, config.write_level) - 1
            ir_schedule.reverse_compute_at(name, ir_schedule.get_loops(computing)[at], True)
        if config.read_level is None:
            return
        place = 0
        while True:
            leaf = leaf_of(ir_schedule.root.body, ir_schedule.block_of(computing))
            loads = _input_loads(leaf)
            if place >= len(loads):
                return
            copy = ir_schedule.cache_read(computing, loads[place], config.read_memory)
            at = self._depth(ir_schedule, computing, config.read_level) - 1
            target = ir_schedule.get_loops(computing)[at]
            depth = at + 1
            ir_schedule.compute_at(copy, target, True)
            own = ir_schedule.get_loops(copy)[depth:]
            ir_schedule.fuse(own)
            ir_schedule.annotate(copy, "cooperative_process", 0)
            place += 1


def _input_loads(leaf: Leaf) -> list[int]:
    """The places, among the loads in the order of the text, of a block's inputs: the first of each tensor."""
    from tvmagic.cinn.cinn_form import accesses_in_order

    loads, stores = accesses_in_order(leaf.block)
    stored = {s.buffer for s in stores}
    seen: set[object] = set()
    places: list[int] = []
    for number, load in enumerate(loads):
        if load.buffer not in stored and load.buffer not in seen:
            seen.add(load.buffer)
            places.append(number)
    return places


def _reuses(leaf: Leaf) -> bool:
    """Whether a block has one write and some read that does not use all of its spatial variables."""
    from tvmagic.cinn.steps.coverage import loads_of

    stores = leaf.stores
    if len(stores) != 1 or init_block_of(leaf.block) or not is_update(stores[0]):
        return False
    spatial = {a.var for a in leaf.block.iter_vars if a.iter_type != IterVar.CommReduce}
    numbers = all(isinstance(loop.extent, IntImm) for loop in leaf.loops)
    reads = [x for x in loads_of(leaf) if x.buffer is not stores[0].buffer]
    return numbers and any(not spatial <= {v for i in x.indices for v in variables_in(i)} for x in reads)
