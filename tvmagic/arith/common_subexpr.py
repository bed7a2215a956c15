"""Which computations an expression holds several times."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tvmagic.errors import WrongValueError
from tvmagic.ir import (
    Broadcast,
    BufferLoad,
    Call,
    CallEffectKind,
    ConstExpr,
    PrimExpr,
    ProducerLoad,
    Ramp,
    Var,
    post_order_visit,
    structural_hash,
)
from tvmagic.ir.deep_equal import expr_deep_equal
from tvmagic.ir.node import Kind

__all__ = ["detect_common_subexpr"]


def detect_common_subexpr(e: PrimExpr, threshold: int) -> dict[PrimExpr, int]:
    """The largest computations that are `threshold` times or more in `e`, each with how often it is there.

    Variables, constants, vectors of indices, and what reads memory or has side effects are not computations. What is inside a computation
    that is reported is not counted for itself.

        x + y * z + (y * z)  with threshold 2:  {y * z: 2}

    Raises WrongValueError if `threshold` is below 1.
    """
    if threshold < 1:
        raise WrongValueError(f"a computation occurs once or more, not `{threshold}` times")
    found: dict[PrimExpr, int] = {}
    waiting = [[part, 1] for part in ([e] if _is_computation(e) else _direct_parts(e))]
    waiting = _merged(waiting)
    while waiting:
        largest = max(waiting, key=lambda item: _size(item[0]))
        waiting.remove(largest)
        part, count = largest
        if count >= threshold:
            found[part] = count
        else:
            waiting = _merged([*waiting, *([inner, count] for inner in _direct_parts(part))])
    return found


def _merged(items: list[list[Any]]) -> list[list[Any]]:
    """Equal computations as one, with the sum of their counts."""
    groups: dict[int, list[list[Any]]] = {}
    for part, count in items:
        alike = groups.setdefault(structural_hash(part), [])
        same = next((item for item in alike if expr_deep_equal(item[0], part)), None)
        if same is None:
            alike.append([part, count])
        else:
            same[1] += count
    return [item for alike in groups.values() for item in alike]


def _is_computation(e: PrimExpr) -> bool:
    if isinstance(e, (Var, ConstExpr, Ramp, Broadcast)):
        return False
    effects: list[Any] = []
    post_order_visit(e, lambda n: effects.append(n) if _has_effect(n) else None)
    return not effects


def _has_effect(node: Any) -> bool:
    """Whether it reads memory, or calls what is not known to be a function of its arguments alone."""
    pure = not isinstance(node, Call) or getattr(node.op, "effect", CallEffectKind.Opaque) <= CallEffectKind.Pure
    return isinstance(node, (BufferLoad, ProducerLoad)) or not pure


def _direct_parts(e: PrimExpr) -> list[PrimExpr]:
    """The computations that are not inside another computation of `e`."""
    result: list[PrimExpr] = []
    for field in e.FIELDS:
        value = getattr(e, field.name)
        for part in value if field.kind is Kind.EXPRS else [value]:
            if isinstance(part, PrimExpr):
                result += [part] if _is_computation(part) else _direct_parts(part)
    return result


def _size(e: PrimExpr) -> int:
    count = 0

    def visit(_: Any) -> None:
        nonlocal count
        count += 1

    walk: Callable[..., Any] = post_order_visit
    walk(e, visit)
    return count
