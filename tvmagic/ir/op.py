"""Operators that `Call` names: math, memory, control and the target's intrinsics.

One table declares each: its effect, whether a vector argument gives a vector result, and the
name by which TVMScript prints it.
"""

from __future__ import annotations

import enum
from collections.abc import Callable
from typing import Any, ClassVar

from tvmagic.errors import TVMagicError, did_you_mean
from tvmagic.ir.node import Identified


class CallEffect(enum.IntEnum):
    """What a call does besides computing its value (the numbers are TVM's)."""

    EXPR_ANNOTATION = 0
    PURE = 1
    READ_STATE = 2
    UPDATE_STATE = 3
    SPECIAL_CALL_ARG = 4
    EMBED_INFO = 5
    CONTROL_JUMP = 6
    OPAQUE = 7


class CallEffectKind:
    """The effects of calls under TVM's names: the values of the attribute `TCallEffectKind` of operators."""

    ExprAnnotation = 0
    Pure = 1
    ReadState = 2
    UpdateState = 3
    SpecialCallArg = 4
    EmbedInfo = 5
    ControlJump = 6
    Opaque = UpdateState  # as in TVM


class Op(Identified):
    """An operator. There is one object for each name; `Op.get("tir.exp")` finds it."""

    __slots__ = ("_attrs", "effect", "is_of_user", "name", "script_name", "vectorizable")
    registry: ClassVar[dict[str, Op]] = {}
    with_rules: ClassVar[set[str]] = set()  # the operators for which users have given rules for lowering

    def __init__(self, name: str, effect: CallEffect, vectorizable: bool, script_name: str) -> None:
        self.name = name
        self.effect = effect
        self.vectorizable = vectorizable
        self.script_name = script_name
        self._attrs: dict[str, tuple[int, Any]] = {}
        self.is_of_user = False

    @staticmethod
    def get(name: str) -> Op:
        """The operator called `name` (with its prefix `tir.`)."""
        op = Op.registry.get(name)
        if op is None:
            raise TVMagicError(
                f"there is no operator `{name}`", hint=did_you_mean(name, Op.registry), code="op.unknown"
            )
        return op

    @staticmethod
    def made(name: str) -> Op:
        """The operator called `name`; a new one, whose calls count as opaque, if there is none yet."""
        op = Op.registry.get(name)
        if op is None:
            op = Op.registry[name] = Op(name, CallEffect.OPAQUE, False, "")
            op.is_of_user = True
        return op

    def set_attr(self, key: str, value: Any, level: int = 10) -> None:
        """Set an attribute; one of a higher level stays."""
        known = self._attrs.get(key)
        if known is not None and known[0] > level:
            return
        if known is not None and known[0] == level and known[1] is not value:
            raise TVMagicError(
                f"the attribute `{key}` of operator `{self.name}` is set already at level {level}",
                hint=f"pass level={level + 1} to replace it",
                code="op.attribute_set_twice",
            )
        self._attrs[key] = level, value
        if key.endswith(".FLowerIntrin"):
            Op.with_rules.add(self.name)
        if key in _FIELDS:
            setattr(self, *_FIELDS[key](value))

    def lowering_rule(self, kind: str) -> Callable[[Any], Any] | None:
        """The rule by which a user has calls of the operator rewritten for targets of this kind."""
        if self.name not in Op.with_rules:
            return None
        return self.get_attr(f"{kind}.FLowerIntrin") or self.get_attr("default.FLowerIntrin")

    @staticmethod
    def all_rules() -> tuple[tuple[str, str, int], ...]:
        """What identifies the rules for lowering that are known now: operator, attribute and object."""
        attrs = [(name, *item) for name in sorted(Op.with_rules) for item in sorted(Op.get(name)._attrs.items())]
        return tuple([(name, key, id(value[1])) for name, key, value in attrs if key.endswith(".FLowerIntrin")])

    def get_attr(self, key: str) -> Any:
        """The value of an attribute, or None."""
        known = self._attrs.get(key)
        return known[1] if known is not None else None

    def has_attr(self, key: str) -> bool:
        """Whether the attribute was set."""
        return key in self._attrs

    @staticmethod
    def list_op_names() -> list[str]:
        """The names of all operators."""
        return list(Op.registry)

    def astext(self) -> str:
        """Its name."""
        return self.name

    def __repr__(self) -> str:
        return f"Op({self.name})"

    def __reduce__(self) -> tuple[object, tuple[str]]:
        return Op.get, (self.name,)


# attributes that the compiler keeps as fields
_FIELDS: dict[str, Callable[[Any], tuple[str, Any]]] = {
    "TVectorizable": lambda value: ("vectorizable", bool(value)),
    "TCallEffectKind": lambda value: ("effect", CallEffect(int(value))),
    "TScriptPrinterName": lambda value: ("script_name", str(value)),
}


def _register(effect: CallEffect, names: str, vectorizable: bool = False, prefix: str = "tir.") -> None:
    for entry in names.split():
        name, _, script_name = entry.partition(":")
        Op.registry[prefix + name] = Op(prefix + name, effect, vectorizable, script_name or name)


_register(
    CallEffect.PURE,
    """exp exp2 exp10 erf tanh sigmoid sqrt rsqrt log log2 log1p log10 tan cos cosh sin sinh asin acos
    atan acosh asinh atanh atan2 nextafter hypot copysign ldexp fmod floor ceil trunc fabs round nearbyint pow
    isnan isfinite isinf popcount clz fma if_then_else bitwise_and bitwise_or bitwise_xor bitwise_not
    shift_left shift_right reinterpret q_multiply_shift q_multiply_shift_per_axis""",
    vectorizable=True,
)
_register(
    CallEffect.PURE,
    """large_uint_imm address_of tvm_access_ptr isnullptr tvm_static_handle tvm_tuple type_annotation
    vscale get_active_lane_mask call_pure_extern call_llvm_pure_intrin call_spirv_pure_glsl450
    vectorhigh vectorlow vectorcombine dp4a undef""",
)
_register(CallEffect.EXPR_ANNOTATION, "likely", vectorizable=True)
_register(CallEffect.PURE, "tvm_thread_invariant")
_register(CallEffect.READ_STATE, "tvm_struct_get masked_load anylist_getitem")
_register(
    CallEffect.UPDATE_STATE,
    """atomic_add tvm_struct_set anylist_setitem_call_packed anylist_setitem_call_cpacked checked_index""",
)
_register(CallEffect.SPECIAL_CALL_ARG, "tvm_stack_make_shape tvm_stack_make_array")
_register(CallEffect.CONTROL_JUMP, "ret")
_register(
    CallEffect.OPAQUE,
    """call_extern call_llvm_intrin tvm_stack_alloca tvm_call_packed:call_packed tvm_call_cpacked:call_cpacked
    tvm_call_trace_packed tvm_call_packed_lowered:call_packed_lowered
    tvm_call_cpacked_lowered:call_cpacked_lowered tvm_call_trace_packed_lowered tvm_check_return
    tvm_throw_last_error tvm_context_id tvm_thread_context tvm_storage_sync tvm_warp_shuffle
    tvm_warp_shuffle_up tvm_warp_shuffle_down tvm_warp_activemask tvm_global_barrier_kinit
    tvm_thread_allreduce tvm_load_matrix_sync tvm_mma_sync tvm_bmma_sync tvm_fill_fragment
    tvm_store_matrix_sync mma_store mma_fill ptx_mma ptx_ldmatrix ptx_cp_async ptx_commit_group
    ptx_wait_group ptx_mma_sp ptx_ldg32 ptx_cp_async_bulk ptx_cp_async_barrier ptx_init_barrier_thread_count
    ptx_arrive_barrier ptx_arrive_barrier_expect_tx ptx_wait_barrier create_barriers anylist_resetitem
    make_filled_simdgroup_matrix simdgroup_load simdgroup_store simdgroup_multiply_accumulate start_profile_intrinsic end_profile_intrinsic prefetch assume lookup_param
    TVMBackendAllocWorkspace TVMBackendFreeWorkspace masked_store ignore_loop_partition""",
)
_register(CallEffect.EMBED_INFO, "end_of_function")


def register_op_attr(op_name: str, attr_key: str, value: Any = None, level: int = 10) -> Any:
    """Set the attribute `attr_key` of the operator `op_name` to `value`; a decorator if `value` is left out.

    If there is no such operator yet, it is made; with an empty `attr_key` that is all. Calls of one without a
    `TCallEffectKind` count as opaque.

    `TVectorizable` says whether a vector argument gives a vector result, `TCallEffectKind` is a `CallEffect`,
    `TScriptPrinterName` the name that TVMScript prints; `llvm.FLowerIntrin` and `default.FLowerIntrin` are rules of the
    pass LowerIntrin: from a `Call` to an expression. Of two values the one of the higher `level` stays.
    """

    def register(found: Any) -> Any:
        op.set_attr(attr_key, found, level)
        return found

    op = Op.made(op_name)
    if not attr_key:
        return value
    return register if value is None else register(value)


def register_intrin_lowering(op_name: str, target: str, *, f: Callable[..., Any] | None = None, level: int = 10) -> Any:
    """Let LowerIntrin rewrite calls of the operator `op_name` by `f(call)`, on a target or on all (`"default"`)."""
    return register_op_attr(op_name, f"{target}.FLowerIntrin", f, level)
