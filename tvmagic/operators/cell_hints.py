"""What somebody may have meant whose Python failed in a cell: a loop by its name, a method of something else, the arguments of a call."""

from __future__ import annotations

import builtins
import inspect
import re
from collections.abc import Iterator, Mapping
from typing import Any

from tvmagic import te
from tvmagic.errors import TVMagicError, did_you_mean, parameters_text
from tvmagic.ir import IterVar
from tvmagic.te.operation import axis_text
from tvmagic.te.schedule.schedule import Schedule as TeSchedule
from tvmagic.te.schedule.stage import Stage
from tvmagic.tir.schedule.instruction import BlockRV, LoopRV
from tvmagic.tir.schedule.schedule import Schedule as TirSchedule

_MOST = 3  # loops of one name that are listed
_ARGUMENTS = re.compile(r"([\w.]+)\(\) (?:missing|takes|got an unexpected|got multiple|got some)")


def hint_for(error: Exception, scope: Mapping[str, Any], statement: str = "") -> str | None:
    """What would work, for an error of the Python `statement` with the names in `scope`; None if that is not known."""
    name = getattr(error, "name", None)
    if isinstance(error, AttributeError) and isinstance(name, str):
        said = "did you mean" in str(error)
        return (
            _of_another(error.obj, name)
            or _elsewhere(error.obj, name)
            or (None if said else _near(name, dir(error.obj)))
        )
    if isinstance(error, NameError) and isinstance(name, str):
        return (
            _loops(name, scope, statement)
            or _with_owner(name, scope)
            or _near(name, scope)
            or _near(name, dir(builtins))
            or _loops_taken(name, scope, statement)
            or _tensors(scope)
        )
    if isinstance(error, TypeError) and re.search(r"'Tensor(Slice)?' .*not iterable", str(error)):
        return "a tensor of a cell has no values before its operator is called; an element of it is `X[i, j]`"
    found = _ARGUMENTS.match(str(error)) if isinstance(error, TypeError) else None
    return _parameters(found[1], scope) if found else None


def _with_owner(name: str, scope: Mapping[str, Any]) -> str | None:
    """The call `name` with what has it: `te.compute`, `s.cache_write`, `s[TENSOR].tile`, `sch.get_block`."""
    module = next((m for m in ("te", "tir", "T") if callable(getattr(scope.get(m), name, None))), None)
    if module is not None:
        return f"write `{module}.{name}`"
    owners: tuple[tuple[str, type], ...] = (("s", TeSchedule), ("s[TENSOR]", Stage), ("sch", TirSchedule))
    if "ir_sch" in scope:
        owners = (("ir_sch", type(scope["ir_sch"])),)
    elif "sch" in scope:
        owners = (("sch", TirSchedule),)
    words = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()  # as in C++ and CINN: `ComputeAt`
    owner, found = next(((text, n) for n in (name, words) for text, of in owners if hasattr(of, n)), ("", ""))
    return f"`{name}` is a call of a schedule: `{owner}.{found}`" if owner and not name.startswith("_") else None


def _near(name: str, known: Any) -> str | None:
    return did_you_mean(name, [k for k in known if not k.startswith("_")])


# ---------------------------------------------------------------------------- names


def _loops(name: str, scope: Mapping[str, Any], statement: str) -> str | None:
    """Where the loops called `name` are, those of what the statement names if there are some: a loop has no name in the
    cell before it is given one."""
    found = [*_loops_of_stages(name, scope.get("s")), *_loops_of_blocks(name, scope.get("sch"))]
    found = [(owner, how) for owner, how in found if re.search(rf"\b{re.escape(owner)}\b", statement)] or found
    if not found:
        return None
    owners = " and ".join(f"`{owner}`" for owner, _ in found[:_MOST])
    return f"`{name}` is a loop of {owners}, and has no name here yet: " + ", ".join(
        f"`{how}`" for _, how in found[:_MOST]
    )


def _loops_of_stages(name: str, s: Any) -> Iterator[tuple[str, str]]:
    """Stages of a TE schedule with a loop of that name, each with what gives the loop."""
    for stage in s.stages if isinstance(s, TeSchedule) else ():
        for iv in stage.all_iter_vars:
            how = axis_text(stage.op, iv) if iv.var.name == name else None
            if how is not None:
                yield stage.op.name, how


def _loops_of_blocks(name: str, sch: Any) -> Iterator[tuple[str, str]]:
    """Blocks of a TensorIR schedule with a loop of that name around them, each with what gives the loop."""
    if not isinstance(sch, TirSchedule):
        return
    trial = sch.copy()
    try:
        for block in trial.get_child_blocks(trial.get_block("root")):
            for number, loop in enumerate(trial.get_loops(block)):
                if trial.get(loop).loop_var.name == name:
                    owner = trial.get(block).name_hint
                    yield owner, f'sch.get_loops("{owner}")[{number}]'
    except TVMagicError:
        return


def _loops_taken(name: str, scope: Mapping[str, Any], statement: str) -> str | None:
    """The loops of the stage `s[T]` whose call takes `name`: those that the cell has named, and how the others are named."""
    s, taken = scope.get("s"), re.search(rf"\bs\[[\"']?(\w+)[\"']?\]\.\w+\([^()]*\b{re.escape(name)}\b", statement)
    if taken is None or not isinstance(s, TeSchedule):
        return None
    stage = next((st for st in s.stages if st.op.name == taken[1]), None)
    if stage is None:
        return None
    leaves = {id(iv) for iv in stage.leaf_iter_vars}
    named = [f"`{n}`" for n, value in scope.items() if id(value) in leaves and not n.startswith("_")]
    kinds = [axes for axes in ("axis", "reduce_axis") if getattr(stage.op, axes, ())]
    fresh = [f"`s[{taken[1]}].op.{axes}`" for axes in kinds]
    if not named and not any(id(iv) in leaves for axes in kinds for iv in getattr(stage.op, axes)):
        loops = ", ".join(f"`{iv.var.name}`" for iv in stage.leaf_iter_vars)
        return f"the loops of `{taken[1]}` are {loops}; a call gives those that it makes, as in `fused = s[{taken[1]}].fuse(...)`"
    if not named and not fresh:
        return None
    return f"the loops of `{taken[1]}` are {', '.join(named) if named else ' and '.join(fresh)}"


def _tensors(scope: Mapping[str, Any]) -> str | None:
    """The tensors that a schedule's cell has."""
    if not isinstance(scope.get("s"), TeSchedule):
        return None
    names = [n for n, v in scope.items() if isinstance(v, te.Tensor) and not n.startswith("_")]
    return "the tensors are " + ", ".join(f"`{n}`" for n in names) if names else None


# ---------------------------------------------------------------------------- methods


def _of_another(owner: Any, name: str) -> str | None:
    """The call of a tensor, a schedule or a stage that another of them has."""
    if isinstance(owner, te.Tensor):
        label = owner.op.name
        if hasattr(Stage, name):
            return f"`{name}` is of the stage of a tensor: `s[{label}].{name}`"
        return f"the loops of a stage are `s[{label}].op.axis`" if name in ("axis", "reduce_axis") else None
    if isinstance(owner, IterVar) and hasattr(Stage, name):
        return f"`{name}` is of the stage, which takes the loop: `s[TENSOR].{name}(loop, ...)`"
    if isinstance(owner, (BlockRV, LoopRV)) and hasattr(TirSchedule, name):
        return f"`{name}` is of the schedule, which takes the {'loop' if isinstance(owner, LoopRV) else 'block'}: `sch.{name}`"
    if isinstance(owner, TeSchedule) and hasattr(Stage, name):
        return f"`{name}` is of a stage of the schedule: `s[TENSOR].{name}`"
    if isinstance(owner, TirSchedule) and hasattr(Stage, name):
        instead = "; here `split` both loops, then `reorder`" if name == "tile" else ""
        return f"`{name}` is of a stage of the TE schedule: `s[TENSOR].{name}`{instead}"
    if isinstance(owner, (Stage, TeSchedule)) and hasattr(TirSchedule, name) and not hasattr(TeSchedule, name):
        return f"`{name}` is of the TensorIR schedule: `sch.{name}`, in a cell that uses `sch` alone"
    if isinstance(owner, Stage) and hasattr(TeSchedule, name):
        return f"`{name}` is of the schedule, which takes the tensor: `s.{name}({owner.op.name}, ...)`"
    return None


# Calls of other systems on stages and schedules, and what is called here.
_CALLS = {
    "undo": "delete the line and run the cell again: each run begins with a fresh schedule",
    "update": "a sum and what it begins with are one stage: `s[TENSOR]`",
    "compute_with": "attach both stages to one loop by `compute_at`",
    "store_in": "the memory of a stage is `s[TENSOR].set_scope(\"local\")`",
    "store_at": "a result outlives the loop that computes it by `sch.rolling_buffer` alone; `s[TENSOR].compute_at` says both",
    "store_root": "a result outlives the loop that computes it by `sch.rolling_buffer` alone; `s[TENSOR].compute_at` says both",
    "gpu_blocks": "bind the loop: `s[TENSOR].bind(loop, te.thread_axis(\"blockIdx.x\"))`",
    "gpu_threads": "bind the loop: `s[TENSOR].bind(loop, te.thread_axis(\"threadIdx.x\"))`",
    "gpu_tile": "`tile` the stage, and `bind` its loops to `te.thread_axis(\"blockIdx.x\")` and `te.thread_axis(\"threadIdx.x\")`",
    "hexagon": "the target is chosen where code is made: `--target`",
    "bound": "sizes are those of the `%%tensor` cell",
    "estimate": "sizes are those of the `%%tensor` cell",
    "realize": "call the operator on arrays",
    "print_loop_nest": "the timeline below the cell shows the loops; so does `%passes`",
    "trace_stores": "`%graph NAME --kind access` shows the order of accesses",
}  # fmt: skip


def _elsewhere(owner: Any, name: str) -> str | None:
    """What a call of Halide's or of an editor's is here."""
    known = isinstance(owner, (te.Tensor, Stage, TeSchedule, TirSchedule))
    return _CALLS.get(name) if known else None


def _parameters(called: str, scope: Mapping[str, Any]) -> str | None:
    """How something is called, by its name as errors have it: `Stage.compute_at`, or `compute`."""
    owner, _, name = called.rpartition(".")
    owners = [Stage, *(type(v) for v in map(scope.get, ("s", "sch", "ir_sch")) if v is not None)]
    known = [o for o in owners if o.__name__ == owner] if owner else [scope.get("te"), scope.get("tir"), scope.get("T")]
    function = next((f for f in (getattr(o, name, None) for o in known) if callable(f)), None)
    try:
        return (
            f"it is called as `{name}{parameters_text(inspect.signature(function))}`" if function is not None else None
        )
    except (TypeError, ValueError):
        return None
