"""The calls on what a stage stores: the memory, its layout, when and how often it is written."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tvmagic.errors import a_thing
from tvmagic.ir import IterVar, expr
from tvmagic.te.schedule.layout import transform_layout
from tvmagic.te.schedule.stage_state import StageState


class BufferCalls(StageState):
    """The calls of a stage on the buffer that it writes."""

    def set_scope(self, scope: str) -> None:
        """Keep the result in the memory named `scope`.

        Parameters
        ----------
        scope: the memory, such as `global`, `shared` or `local`.

        Example
        -------
            B = te.compute((16,), lambda i: A[i] + 1.0, name="B")
            C = te.compute((16,), lambda i: B[i] * 2.0, name="C")
            s = te.create_schedule(C.op)
            s[B].set_scope("local")

        is lowered to

            B = T.allocate([16], "float32", "local")
            B_1 = T.Buffer((16,), data=B, scope="local")
            for i in range(16):
                B_1[i] = A[i] + T.float32(1.0)
            for i in range(16):
                C[i] = B_1[i] * T.float32(2.0)
        """
        if not isinstance(scope, str):
            raise self.error(
                f"cannot set_scope: expected the name of a memory, got {a_thing(scope)}",
                'such as "local"',
                code="te.set_scope.wrong_scope",
            )
        self.scope = scope

    def set_store_predicate(self, predicate: Any) -> None:
        """Store only if `predicate` holds.

        Parameters
        ----------
        predicate: a condition on the axes of the operation.

        Example
        -------
            B = te.compute((16,), lambda i: A[i] + 1.0, name="B")
            s = te.create_schedule(B.op)
            s[B].set_store_predicate(B.op.axis[0] < 8)

        is lowered to

            for i in range(16):
                if i < 8:
                    B[i] = A[i] + T.float32(1.0)
        """
        condition = None if isinstance(predicate, str) else expr(predicate)
        if condition is None or condition.dtype.is_handle or condition.dtype.is_float:
            raise self.error(
                f"cannot set_store_predicate: expected a condition, got {a_thing(predicate)}",
                code="te.set_store_predicate.wrong_condition",
            )
        self.store_predicate = condition

    def storage_align(self, axis: IterVar, factor: int, offset: int) -> None:
        """Let the stride of `axis` be `k * factor + offset` elements.

        Parameters
        ----------
        axis: an axis of the operation.
        factor, offset: in elements.

        Example
        -------
            B = te.compute((4, 16), lambda i, j: A[i, j] + 1.0, name="B")
            C = te.compute((4, 16), lambda i, j: B[i, j] * 2.0, name="C")
            s = te.create_schedule(C.op)
            s[B].storage_align(B.op.axis[0], 32, 4)

        is lowered to

            B = T.allocate([144], "float32", "global")
            B_1 = T.Buffer((144,), data=B)
            for i, j in T.grid(4, 16):
                A_1 = T.Buffer((64,), data=A.data)
                B_1[i * 36 + j] = A_1[i * 16 + j] + T.float32(1.0)
            for i, j in T.grid(4, 16):
                C_1 = T.Buffer((64,), data=C.data)
                C_1[i * 16 + j] = B_1[i * 36 + j] * T.float32(2.0)
        """
        if not any(axis is known for known in self.all_iter_vars):
            name = axis.var.name if isinstance(axis, IterVar) else axis
            raise self.error(
                f"cannot storage_align `{name}`: it is not an axis of the stage",
                self.loops_text(),
                code="te.storage_align.not_an_axis",
            )
        sizes = (
            self.check_integer(factor, "storage_align", "factor"),
            self.check_integer(offset, "storage_align", "offset"),
        )
        for size in sizes:
            self.check_fits(size, axis, "storage_align")
        attr = self.attr_of(axis)
        attr.dim_align_factor, attr.dim_align_offset = sizes

    def _not_output(self, call: str) -> None:
        if self.is_output:
            raise self.error(
                f"{call} on an output of the schedule",
                "it is for a stage that another one reads",
                code="te.schedule.output_stage",
            )

    def double_buffer(self) -> None:
        """Keep two copies of the buffer: one is filled while the other is read.

        Example
        -------
            B = te.compute((4, 16), lambda i, j: A[i, j] + 1.0, name="B")
            C = te.compute((4, 16), lambda i, j: B[i, j] * 2.0, name="C")
            s = te.create_schedule(C.op)
            s[B].compute_at(s[C], C.op.axis[0])
            s[B].double_buffer()

        is lowered to

            B = T.allocate([32], "float32", "global")
            B_1 = T.Buffer((32,), data=B)
            A_1 = T.Buffer((64,), data=A.data)
            for j in range(16):
                B_1[j] = A_1[j] + T.float32(1.0)
            C_1 = T.Buffer((64,), data=C.data)
            for i_outer in range(3):
                with T.attr(B, "double_buffer_write", 1):
                    for j in range(16):
                        B_1[(i_outer + 1) % 2 * 16 + j] = A_1[i_outer * 16 + j + 16] + T.float32(1.0)
                for j in range(16):
                    C_1[i_outer * 16 + j] = B_1[i_outer % 2 * 16 + j] * T.float32(2.0)
            for j in range(16):
                C_1[j + 48] = B_1[j + 16] * T.float32(2.0)
        """
        self._not_output("double_buffer")
        self.is_double_buffered = True

    def rolling_buffer(self) -> None:
        """Mark the buffer as one that keeps what the next iteration needs again, and is used as a ring.

        The mark is for the pass `InjectRollingBuffer`, which is to run first: `PassContext(config={"tir.add_lower_pass":
        [(0, tvmagic.tir.transform.InjectRollingBuffer())]})`. Without it each iteration computes all that it needs.

        Example
        -------
            B = te.compute((17,), lambda i: A[i] + 1.0, name="B")
            C = te.compute((16,), lambda i: B[i] + B[i + 1], name="C")
            s = te.create_schedule(C.op)
            s[B].compute_at(s[C], C.op.axis[0])
            s[B].rolling_buffer()

        is lowered to

            B = T.allocate([2], "float32", "global")
            for i in range(16):
                B_1 = T.Buffer((17,))
                T.attr(B_1, "rolling_buffer_scope", T.bool(True))
                B_2 = T.Buffer((2,), data=B, align=8)
                for i_1 in range(2):
                    B_2[i_1] = A[i_1 + i] + T.float32(1.0)
                C[i] = B_2[0] + B_2[1]
        """
        self._not_output("rolling_buffer")
        self.is_rolling = True

    def transform_layout(self, mapping_function: Callable[..., Any]) -> list[IterVar] | None:
        """Store element `(i, j, ...)` at the indices that `mapping_function(i, j, ...)` gives.

        `te.AXIS_SEPARATOR` among them divides the dimensions into groups. Returns the loops over
        the new indices, if the stage's loops are rewritten.

        Parameters
        ----------
        mapping_function: from indices to a list of indices.

        Example
        -------
            B = te.compute((16,), lambda i: A[i] + 1.0, name="B")
            C = te.compute((16,), lambda i: B[i] * 2.0, name="C")
            s = te.create_schedule(C.op)
            s[B].transform_layout(lambda i: [i // 4, i % 4])

        is lowered to

            B = T.allocate([16], "float32", "global")
            B_1 = T.Buffer((16,), data=B)
            for axis0, axis1 in T.grid(4, 4):
                cse_var_1: T.int32 = axis0 * 4 + axis1
                B_1[cse_var_1] = A[cse_var_1] + T.float32(1.0)
            for i in range(16):
                C[i] = B_1[i] * T.float32(2.0)
        """
        if not callable(mapping_function):
            raise self.error(
                f"cannot transform_layout: expected a function of the indices, got {a_thing(mapping_function)}",
                "write `lambda i, j: [j, i]`, with a parameter for each dimension",
                code="te.transform_layout.wrong_function",
            )
        return transform_layout(self, mapping_function)
