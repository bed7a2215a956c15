"""`lower` and `build`: the pipelines put together.

A TE schedule is normalized, gets its bounds (InferBound), its loops (ScheduleOps) and its buffers
(SchedulePostProcToPrimFunc); then the passes of `default_passes` lower the function. A TensorIR
function starts with the passes.
"""

from __future__ import annotations

import contextlib
import functools
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from tvmagic import ir
from tvmagic.errors import LiteralRangeError, ScheduleError, TVMagicError
from tvmagic.ir.prim_expr import MAPPINGS, SEQUENCES
from tvmagic.ir.program_form import is_cinn_form
from tvmagic.ir.query import has_node, launches_thread, variables_in
from tvmagic.ir.schedulable import Schedulable
from tvmagic.passes import Pass, PassContext, Sequential, is_watched, run_step
from tvmagic.tir import transform
from tvmagic.tir.analysis import undefined_vars
from tvmagic.tir.analysis.least_sizes import with_conditions, with_least_sizes
from tvmagic.tir.transform.expressions.force_wide_index import has_large_buffers
from tvmagic.tir.transform.memory.flatten_buffer import from_legacy_te_schedule

__all__ = ["binds_threads", "build", "default_passes", "get_binds", "lower", "schedule_to_module", "with_checks"]

CACHE_LINE = 64


def get_binds(
    args: Sequence[Any], compact: bool = False, binds: Mapping[Any, ir.Buffer] | None = None
) -> tuple[dict[Any, ir.Buffer], list[Any]]:
    """The buffer of each tensor among `args`, and the arguments with buffers for tensors.

    With `compact` the buffers are dense; else those with variable sizes have strides of their own.
    """
    from tvmagic.te import Tensor

    buffers = dict(binds or {})
    arguments: list[Any] = []
    for arg in args:
        if isinstance(arg, Tensor):
            if arg not in buffers:
                buffers[arg] = _argument_buffer(arg, compact)
            arguments.append(buffers[arg])
        elif isinstance(arg, (ir.Buffer, ir.Var)):
            arguments.append(arg)
        elif isinstance(arg, ir.IterVar):
            arguments.append(arg.var)
        else:
            raise TVMagicError(
                f"an argument is a tensor, a buffer or a variable, not `{type(arg).__name__}`",
                code="lower.wrong_argument",
            )
    return buffers, arguments


def _argument_buffer(tensor: Any, compact: bool) -> ir.Buffer:
    """The buffer of an argument; if some size is a variable and accesses allow it, of any strides."""
    data = ir.data_pointer(tensor.op.name, tensor.dtype, "")
    free = not compact and any(isinstance(size, ir.Var) for size in tensor.shape)
    strides = [ir.Var("stride", size.dtype) for size in tensor.shape] if free else None
    kind = "auto" if free else ""
    return ir.Buffer(data, tensor.dtype, tensor.shape, strides, None, tensor.op.name, buffer_type=kind)


def schedule_to_module(
    sch: Any, args: Sequence[Any] | None = None, name: str = "main", binds: Mapping[Any, ir.Buffer] | None = None
) -> ir.IRModule:
    """The module of a TE schedule before the passes: loops over multi-dimensional buffers."""
    from tvmagic import te

    context = PassContext.current()
    keep_trivial = bool(context.option("tir.debug_keep_trivial_loop", False))
    normalized = run_step("te.normalize", sch.normalize, before=sch)
    bounds = run_step("te.InferBound", lambda: te.schedule.InferBound(normalized), before=normalized)
    stmt = run_step(
        "te.ScheduleOps",
        lambda: te.schedule.ScheduleOps(normalized, bounds, keep_trivial),
        before=normalized,
        options={"debug_keep_trivial_loop": keep_trivial},
    )
    compact = te.schedule.VerifyCompactBuffer(stmt)
    buffers, arguments = get_binds(args or (), compact, binds)

    def post_process() -> ir.IRModule:
        func = te.schedule.SchedulePostProcToPrimFunc(arguments, stmt, buffers)
        if args is not None:
            _check_store_predicates(normalized, func)
        attrs: dict[str, Any] = {"global_symbol": name, "from_legacy_te_schedule": True}
        if context.option("tir.noalias", True):
            attrs["tir.noalias"] = True
        return ir.IRModule({name: func.with_attr(attrs)})

    return run_step("te.SchedulePostProcToPrimFunc", post_process, before=stmt)


def _check_store_predicates(schedule: Any, func: ir.PrimFunc) -> None:
    """Refuse a predicate with a loop of another schedule, or with a variable that is not an argument."""
    conditions = {stage: stage.store_predicate for stage in schedule.stages if stage.store_predicate is not None}
    unknown = undefined_vars(func) if conditions else []
    for stage, condition in conditions.items():
        used = variables_in(condition)
        for var in unknown:
            if var in used:
                raise ScheduleError(
                    f"cannot set_store_predicate of stage `{stage.name}`: `{var.name}` is neither a loop of this schedule "
                    "nor an argument",
                    code="te.set_store_predicate.unknown_variable",
                )


def default_passes(simple_mode: bool = False, threads: bool = False) -> list[Pass]:
    """The passes that lower a module, in order, with those the context adds.

    `simple_mode` leaves LoopPartition out; those that only change programs of threads come in with `threads`.
    """
    context = PassContext.current()

    def flag(key: str) -> bool:
        return bool(context.option(key, False))

    added: dict[int, list[Pass]] = {phase: [] for phase in range(4)}
    for phase, extra in context.config.get("tir.add_lower_pass", ()):
        if int(phase) < 0:
            raise TVMagicError("a phase of `tir.add_lower_pass` is 0, 1, 2 or 3", code="lower.wrong_phase")
        added[min(int(phase), 3)].append(extra)
    t = transform
    checks = flag("tir.instrument_bound_checkers")
    passes = [*added[0], t.InjectPrefetch(), t.TextureFlatten(), t.StorageFlatten(CACHE_LINE, checks)]
    for name in _BLOCK_PASSES:
        if threads or name not in _OF_THREADS:
            passes.append(getattr(t, name)())
    passes += [t.BF16ComputeLegalize(), t.NarrowDataType(32), t.Simplify(), *added[1]]
    if not simple_mode:
        passes.append(t.LoopPartition())
    passes += [t.VectorizeLoop(not flag("tir.disable_vectorize")), t.InjectVirtualThread(), t.InjectDoubleBuffer()]
    if not flag("tir.disable_storage_rewrite"):
        passes.append(t.StorageRewrite())
    passes += [t.HoistIfThenElse(), t.UnrollLoop(), *added[2]]
    passes += [t.RenormalizeSplitPattern(), t.Simplify(), t.RemoveNoOp(), t.RewriteUnsafeSelect(), *added[3]]
    if checks:
        passes.append(t.InstrumentBoundCheckers())
    passes.append(t.CommonSubexprElimTIR(not flag("tir.disable_cse_tir"), flag("tir.enable_equiv_terms_in_cse_tir")))
    if flag("tir.instrument_lwp"):
        passes.append(t.InstrumentProfileIntrinsics())
    return passes


# TVM's list without TransformMmaBufferLayout and InjectPermutedLayout.
_BLOCK_PASSES = (
    "LowerCrossThreadReduction",
    "LowerInitBlock",
    "PlanAndUpdateBufferAllocationLocation",
    "ConvertBlocksToOpaque",
    "LiftThreadBinding",
    "ManifestSharedMemoryLocalStage",
    "CompactBufferAllocation",
    "LowerAutoCopy",
    "UnifyThreadBinding",
    "LowerMatchBuffer",
    "Simplify",
    "Simplify",
    "InjectSoftwarePipeline",
    "LowerOpaqueBlock",
    "FlattenBuffer",
)
_OF_THREADS = {"ManifestSharedMemoryLocalStage", "LowerAutoCopy", "UnifyThreadBinding"}


def binds_threads(mod: ir.IRModule) -> bool:
    """Whether some function that was not made of a TE schedule has loops that are threads, or launches threads."""
    return any(not from_legacy_te_schedule(f) and has_node(f.body, _is_thread) for f in mod.functions.values())


def _is_thread(node: Any) -> bool:
    return launches_thread(node) or (isinstance(node, ir.For) and node.thread_binding is not None)


def _needs_args(inp: Any) -> bool:
    """Return whether `inp` is a schedule that a function is made of only for given arguments, as TE's."""
    return isinstance(inp, Schedulable) and inp.needs_args


def _as_program(inp: Any) -> Any:
    """Return the program of a schedule or a tiling. All else, and what needs arguments, is returned unchanged."""
    return inp.lower() if isinstance(inp, Schedulable) and not inp.needs_args else inp


def lower(
    inp: Any,
    args: Sequence[Any] | None = None,
    name: str = "main",
    binds: Mapping[Any, ir.Buffer] | None = None,
    simple_mode: bool = False,
) -> ir.IRModule:
    """Lower a TE schedule, a function or a module to loops over flat memory.

    Parameters
    ----------
    inp: a TE schedule (with `args`: its tensors, buffers and variables in the order of the
        function's parameters), a schedule of TensorIR or CINN, a tiling of Ascend, a `PrimFunc`, an `IRModule`, or a list of
        functions and modules, which are merged.
    name: the name of the function in the module.
    binds: buffers to use for some of the tensors.
    simple_mode: leave out LoopPartition.
    """
    inp = merged(inp) if isinstance(inp, SEQUENCES) else _as_program(inp)
    if isinstance(inp, ir.PrimFunc):
        attrs: dict[str, Any] = {"global_symbol": name}
        if PassContext.current().option("tir.noalias", True):
            attrs["tir.noalias"] = True
        mod = ir.IRModule({name: inp.with_attr(attrs)})
    elif isinstance(inp, ir.IRModule):
        mod = inp
    elif _needs_args(inp):
        if args is None:
            raise TVMagicError(
                "`lower` of a schedule needs `args`",
                hint=f"pass its tensors: lower(s, [{', '.join(p.name for p in inp.parameters)}])",
                code="lower.missing_args",
            )
        mod = schedule_to_module(inp, args, name, binds)
    else:
        raise TVMagicError(
            f"`lower` takes a schedule, a PrimFunc or an IRModule, not `{type(inp).__name__}`",
            hint="pass te.create_schedule(...) with its tensors as args",
            code="lower.not_a_program",
        )
    passes = default_passes(simple_mode, binds_threads(mod))
    if any(is_cinn_form(f) for f in mod.functions.values()):
        from tvmagic.cinn.to_tir import lower_schedule_blocks

        passes.insert(0, lower_schedule_blocks())
    widen = transform.ForceWideIndexToInt64()
    if has_large_buffers(mod):
        return Sequential([widen, *passes], name="lower")(mod)
    try:
        return Sequential(passes, name="lower")(mod)
    except LiteralRangeError as error:  # a pass computed a constant for which int32 may be too small
        too_small = error
    try:
        return Sequential([widen, *passes], name="lower")(mod)
    except TVMagicError:
        raise too_small from None


def build(
    inputs: Any,
    args: Sequence[Any] | None = None,
    target: Any = None,
    name: str = "main",
    target_host: Any = None,
    binds: Mapping[Any, ir.Buffer] | None = None,
    check_bounds: bool = False,
) -> Any:
    """Compile a TE schedule, a function, a module, a list of these, or a mapping from targets to modules for `target`,
    by default this machine.

    Returns a runtime module; calling it runs the function `name`. A function, a module or a schedule whose
    loops were built before with the same options gives the same runtime module, without being lowered again.
    With `check_bounds`, an access outside a buffer stops the function with a `BoundsError`.
    """
    from tvmagic import codegen
    from tvmagic.codegen.llvm.cache import from_memory

    if isinstance(inputs, MAPPINGS):
        target, inputs = _of_one_target(inputs)
    inputs = merged(inputs) if isinstance(inputs, SEQUENCES) else _as_program(inputs)

    from tvmagic.te.nonempty_reductions import nonempty_sizes

    needed = nonempty_sizes(inputs.outputs) if _needs_args(inputs) else []

    def make() -> Any:
        program = _threads_as_loops(inputs, name)
        if args is not None and _needs_args(program):
            program = schedule_to_module(program, args, name, binds)
        with with_checks(check_bounds):
            mod = lower(program, args, name, binds)
        if isinstance(program, ir.PrimFunc):
            program = ir.IRModule({name: program})
        mod = run_step("tir.AssertMinimumSizes", functools.partial(with_least_sizes, program, mod), before=mod)
        if needed:
            mod = ir.IRModule({var: with_conditions(func, needed) for var, func in mod.functions.items()})
        if PassContext.current().option("tir.disable_assert", False):
            mod = transform.SkipAssert()(mod)
        return codegen.compile_module(mod, target, check_bounds)

    options = _plain_options()
    if options is None or is_watched():
        return make()
    if args is not None and _needs_args(inputs):
        inputs = schedule_to_module(inputs, args, name, binds)
    if not isinstance(inputs, (ir.IRModule, ir.PrimFunc)):
        return make()
    mod = inputs if isinstance(inputs, ir.IRModule) else ir.IRModule({name: inputs})
    return from_memory(
        mod, ("build", str(codegen.resolved(target)), check_bounds, options, *(text for _, text in needed)), make
    )


def merged(parts: Sequence[Any]) -> ir.IRModule:
    """The functions of several modules, and single functions under their global symbols, in one module."""
    functions: dict[Any, ir.PrimFunc] = {}
    for part in parts:
        if not isinstance(part, (ir.IRModule, ir.PrimFunc)):
            raise TVMagicError(
                f"a list to be built holds modules and functions, not `{type(part).__name__}`",
                code="build.not_a_module",
            )
        module = part if isinstance(part, ir.IRModule) else ir.IRModule.from_expr(part)
        for var, func in module.functions.items():
            if any(var.name_hint == known.name_hint for known in functions):
                raise TVMagicError(
                    f"several of the modules have a function `{var.name_hint}`",
                    hint="rename one of them",
                    code="build.repeated_function",
                )
            functions[var] = func
    return ir.IRModule(functions)


def _of_one_target(parts: Mapping[Any, Any]) -> tuple[Any, Any]:
    """The target and the module of a mapping; of several targets those that this machine runs are merged."""
    targets = {str(target): target for target in parts}
    if len(targets) == 1:
        return next(iter(parts.items()))
    raise TVMagicError(
        f"code for several targets ({', '.join(f'`{t}`' for t in targets)}) is not one module",
        hint="build the module of each target by itself",
        code="build.several_targets",
    )


def with_checks(check_bounds: bool = True) -> contextlib.AbstractContextManager[Any]:
    """`with with_checks():` lowers so that the compiled code can check each index of an access."""
    if not check_bounds:
        return contextlib.nullcontext()
    now = PassContext.current()
    config = {**now.config, "tir.check_bounds": True}
    return PassContext(now.opt_level, now.required_pass, now.disabled_pass, now.instruments, config)


def _threads_as_loops(inputs: Any, name: str) -> Any:
    """`inputs`, if it is a function or a module with loops bound to threads of a GPU, for this machine."""
    if not isinstance(inputs, (ir.IRModule, ir.PrimFunc)):
        return inputs
    mod = inputs if isinstance(inputs, ir.IRModule) else ir.IRModule({name: inputs})
    if not any(_has_thread_loop(func.body) for func in mod.functions.values()):
        return inputs
    mod = transform.ConvertThreadLoopsToSerial()(mod)
    return mod if isinstance(inputs, ir.IRModule) else mod[name]


def _has_thread_loop(body: Any) -> bool:
    return has_node(body, lambda node: isinstance(node, ir.For) and node.kind is ir.ForKind.THREAD_BINDING)


def _plain_options() -> tuple[Any, ...] | None:
    """The context's options as a key; None if some are objects that may do anything."""
    context = PassContext.current()
    values = {key: getattr(value, "value", value) for key, value in context.config.items()}
    if context.instruments or not all(isinstance(v, (bool, int, str)) for v in values.values()):
        return None
    return (ir.Op.all_rules(), context.opt_level, context.required_pass, context.disabled_pass, *sorted(values.items()))


# TVM has these names in `driver.build_module`, a module that can be imported.
build_module = sys.modules[__name__]
__path__: list[str] = []
