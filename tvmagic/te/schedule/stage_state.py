"""What a stage knows of its loops and its place, and the checks that its calls share."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from tvmagic import ir
from tvmagic.errors import ScheduleError, a_thing, visible
from tvmagic.ir.constants import largest_integer
from tvmagic.ir.node import note_parents
from tvmagic.ir.numpy_types import as_flag, as_integer
from tvmagic.ir.prim_expr import number_text
from tvmagic.ir.query import variables_in
from tvmagic.passes import user_span
from tvmagic.te.operation import axis_text
from tvmagic.te.schedule.attributes import ITER_TYPE_NAMES, AttachType, IterVarAttr
from tvmagic.te.schedule.relations import IterVarRelation
from tvmagic.te.tensor import Operation

if TYPE_CHECKING:
    from tvmagic.arith.index_map import IndexMap
    from tvmagic.te.schedule.schedule import Schedule
    from tvmagic.te.schedule.stage import Stage


_PARTS = ("result", "init", "read", "memory")  # the statements of a stage that are followed


def note_made_of(op: Operation, *sources: Operation) -> None:
    """Keep in the open record that the statements of `op` compute what those of other operations do or did."""
    count = len(_PARTS) * 8
    for made, *above in zip(ir.Span.parts_of(op.origin, count), *[ir.Span.parts_of(s.origin, count) for s in sources]):
        note_parents(made, *above)


def note_loops_made_of(axes: Sequence[ir.IterVar], sources: Sequence[ir.IterVar]) -> None:
    """Keep in the open record that each of some axes is an axis of another operation anew."""
    for made, source in zip(axes, sources):
        if made.span is not None and source.span is not None:
            note_parents(made.span.origin, source.span.origin)


class StageState(ir.Identified):
    """The attributes of a stage, which `Stage` describes, and the checks of its calls."""

    def __init__(self, op: Operation | None, schedule: Schedule | None = None, span: ir.Span | None = None) -> None:
        self.op: Operation = op  # type: ignore[assignment]  # a group has none
        self.origin_op: Operation = op  # type: ignore[assignment]
        self.schedule = schedule
        self.span = span if span is not None or op is None else op.span
        self.all_iter_vars: list[ir.IterVar] = list(op.root_iter_vars()) if op is not None else []
        self.leaf_iter_vars: list[ir.IterVar] = [iv for iv in self.all_iter_vars if iv.iter_type != ir.IterVar.Opaque]
        self.relations: list[IterVarRelation] = []
        self.iter_var_attrs: dict[ir.IterVar, IterVarAttr] = {}
        self.thread_env: list[ir.IterVar] = []
        self.store_predicate: ir.PrimExpr | None = None
        self.attach_type = AttachType.GROUP_ROOT
        self.attach_ivar: ir.IterVar | None = None
        self.attach_stage: Stage | None = None
        self.scope = ""
        self.is_output = False
        self.is_double_buffered = False
        self.is_rolling = False
        self.group: Stage | None = None
        self.num_child_stages = 0
        self.layout_transforms: list[IndexMap] = []
        self.axis_separators: list[ir.IntImm] = []

    @property
    def name(self) -> str:
        """The name of its operation."""
        return self.op.name if self.op is not None else "group"

    @property
    def axis(self) -> tuple[ir.IterVar, ...]:
        """The data axes of its operation."""
        return tuple(self.op.axis)

    @property
    def reduce_axis(self) -> tuple[ir.IterVar, ...]:
        """The reduction axes of its operation."""
        return tuple(self.op.reduce_axis)

    def __repr__(self) -> str:
        if self.op is None:
            return "group-stage(group)"
        return f"stage({visible(self.origin_op.name)}, {self.op!r})"

    def part_span(self, part: str, number: int = 0) -> ir.Span:
        """The place of the stage, and the origin of one of its statements; the first eight outputs have one each."""
        return ir.Span.part_of(self.origin_op.origin, _PARTS.index(part) * 8 + min(number, 7), self.span)

    def origins(self) -> tuple[int, ...]:
        """The origins of its statements, however often it is lowered."""
        return ir.Span.parts_of(self.origin_op.origin, len(_PARTS) * 8)

    def error(self, message: str, hint: str | None = None, *, code: str | None = None) -> ScheduleError:
        """The error that says what is wrong with a call on this stage."""
        return ScheduleError(f"stage `{self.name}`: {message}", span=user_span(), hint=hint, code=code)

    def leaf_position(self, iv: Any, call: str) -> int:
        """The place of `iv` among the loops; an error if it is not among them."""
        if not isinstance(iv, ir.IterVar):
            named = next((leaf for leaf in self.leaf_iter_vars if isinstance(iv, str) and leaf.var.name == iv), None)
            hint = self._loop_text(named) if named is not None else self.loops_text()
            if isinstance(iv, (tuple, list)) and all(isinstance(item, ir.IterVar) for item in iv):
                names = ", ".join(item.var.name for item in iv)
                raise self.error(
                    f"{call} takes loops one by one, and ({names}) is one value",
                    "write `*` before it",
                    code="te.schedule.loops_in_one_value",
                )
            raise self.error(f"{call} takes a loop of the stage, not `{iv!r}`", hint, code="te.schedule.not_a_loop")
        for position, leaf in enumerate(self.leaf_iter_vars):
            if leaf is iv:
                return position
        hint = self.loops_text()
        if any(known is iv for known in self.all_iter_vars):
            raise self.error(
                f"{call} on `{iv.var.name}`, which was split or fused already", hint, code="te.schedule.loop_replaced"
            )
        raise self.error(
            f"{call} on `{iv.var.name}`, which is not a loop of the stage", hint, code="te.schedule.loop_of_other_stage"
        )

    def check_type(self, iv: ir.IterVar, allowed: Sequence[int], call: str) -> None:
        if iv.iter_type not in allowed:
            fit = [f"`{leaf.var.name}`" for leaf in self.leaf_iter_vars if leaf.iter_type in allowed]
            hint = f"it takes {', '.join(fit)}" if fit else None
            raise self.error(
                f"{call} on `{iv.var.name}`, which is {ITER_TYPE_NAMES[iv.iter_type]}",
                hint,
                code="te.schedule.wrong_loop_kind",
            )

    def loops_text(self) -> str:
        loops = ", ".join(f"`{leaf.var.name}`" for leaf in self.leaf_iter_vars) or "none"
        return f"the loops of the stage are {loops}"

    def _loop_text(self, loop: ir.IterVar) -> str:
        """How the loop is written: a loop that a call made has the name that the cell gave it."""
        axis = axis_text(self.op, loop)
        if axis is not None:
            return f"write `{axis}`"
        return f"give what made it a name, as in `outer, inner = s[{self.name}].split(...)`"

    def attr_of(self, iv: ir.IterVar) -> IterVarAttr:
        attr = self.iter_var_attrs.get(iv)
        if attr is None:
            attr = self.iter_var_attrs[iv] = IterVarAttr()
        return attr

    def check_integer(self, value: Any, call: str, name: str) -> int:
        """Return an argument as an int; raise if it is not a whole number."""
        number = as_integer(value)
        if number is None or isinstance(value, bool) or (isinstance(value, ir.IntImm) and value.dtype.is_bool):
            raise self.error(
                f"cannot {call}: expected an integer as `{name}`, got {a_thing(value)}",
                code="te.schedule.not_an_integer",
            )
        return number

    def check_flag(self, value: Any, call: str, name: str) -> bool:
        """Return an argument as a bool; raise if it is not one."""
        flag = as_flag(value)
        if flag is None:
            raise self.error(
                f"cannot {call}: expected a bool as `{name}`, got {a_thing(value)}", code="te.schedule.not_a_flag"
            )
        return flag

    def check_size(self, value: Any, call: str) -> ir.PrimExpr:
        """Return a size as an integer expression; raise if it is not an integer or depends on a loop."""
        size = None if isinstance(value, str) else ir.expr(value)
        hint = "a factor is a whole number, such as 4"
        if size is None or not (size.dtype.is_int or size.dtype.is_uint) or size.dtype.is_bool:
            raise self.error(f"{call} by `{value!r}`, which is not an integer", hint, code="te.schedule.not_an_integer")
        loops = {iv.var for stage in self._known_stages() for iv in stage.all_iter_vars}
        used = [v for v in variables_in(size) if v in loops]
        if isinstance(value, ir.IterVar):
            used = [value.var]
        if used:
            raise self.error(
                f"{call} by `{size}`, which depends on loop `{used[0].name}`",
                hint,
                code="te.schedule.size_depends_on_loop",
            )
        return size

    def _known_stages(self) -> Sequence[StageState]:
        return self.schedule.stages if self.schedule is not None else [self]

    def check_fits(self, size: int, loop: ir.IterVar, call: str) -> None:
        """The size is a value of the loop's type: the index is computed from it."""
        dtype = loop.var.dtype
        if abs(size) > largest_integer(dtype):
            raise self.error(
                f"{call} of `{loop.var.name}` by the number {number_text(size)}, which does not fit into `{dtype}`, the type of its indices",
                "take a smaller number",
                code="te.schedule.size_too_large",
            )
