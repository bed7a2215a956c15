"""The calls that say how a loop of a stage runs: as a vector, on threads, unrolled, by an intrinsic."""

from __future__ import annotations

from typing import Any

from tvmagic.errors import a_thing
from tvmagic.ir import IterVar, PrimExpr, StringImm, attr_value
from tvmagic.te.intrinsic import TensorIntrin
from tvmagic.te.schedule.attributes import ITER_TYPE_NAMES
from tvmagic.te.schedule.stage_state import StageState
from tvmagic.te.tensor import ScanOp, Tensor

_VECTOR = (
    IterVar.DataPar,
    IterVar.Opaque,
    IterVar.Unrolled,
    IterVar.Vectorized,
    IterVar.Tensorized,
    IterVar.Parallelized,
)


class LoopMarks(StageState):
    """The calls of a stage that say how one of its loops runs."""

    def _annotate(self, iv: IterVar, iter_type: int, call: str) -> None:
        self.leaf_position(iv, call)
        self.attr_of(iv).iter_type = iter_type

    def vectorize(self, var: IterVar) -> None:
        """Run the loop's iterations as one vector operation.

        Parameters
        ----------
        var: the loop, of constant extent.

        Example
        -------
            B = te.compute((16,), lambda i: A[i] + 1.0, name="B")
            s = te.create_schedule(B.op)
            s[B].vectorize(s[B].split(B.op.axis[0], 4)[1])

        is lowered to

            for i_outer in range(4):
                cse_var_1: T.int32 = i_outer * 4
                B[cse_var_1:cse_var_1 + 4] = A[cse_var_1:cse_var_1 + 4] + T.Broadcast(T.float32(1.0), 4)
        """
        self.leaf_position(var, "vectorize")
        self.check_type(var, _VECTOR, "vectorize")
        self._annotate(var, IterVar.Vectorized, "vectorize")

    def unroll(self, var: IterVar) -> None:
        """Write the loop's iterations one after the other.

        Parameters
        ----------
        var: the loop.

        Example
        -------
            B = te.compute((16,), lambda i: A[i] + 1.0, name="B")
            s = te.create_schedule(B.op)
            s[B].unroll(s[B].split(B.op.axis[0], 4)[1])

        is lowered to

            for i_outer in range(4):
                cse_var_4: T.int32 = i_outer * 4
                cse_var_3: T.int32 = cse_var_4 + 3
                cse_var_2: T.int32 = cse_var_4 + 2
                cse_var_1: T.int32 = cse_var_4 + 1
                B[cse_var_4] = A[cse_var_4] + T.float32(1.0)
                B[cse_var_1] = A[cse_var_1] + T.float32(1.0)
                B[cse_var_2] = A[cse_var_2] + T.float32(1.0)
                B[cse_var_3] = A[cse_var_3] + T.float32(1.0)
        """
        self._annotate(var, IterVar.Unrolled, "unroll")

    def parallel(self, var: IterVar) -> None:
        """Run the loop's iterations on several threads.

        Parameters
        ----------
        var: the loop.

        Example
        -------
            B = te.compute((16,), lambda i: A[i] + 1.0, name="B")
            s = te.create_schedule(B.op)
            s[B].parallel(B.op.axis[0])

        is lowered to

            for i in T.parallel(16):
                B[i] = A[i] + T.float32(1.0)
        """
        self._annotate(var, IterVar.Parallelized, "parallel")

    def tensorize(self, var: IterVar, tensor_intrin: TensorIntrin) -> None:
        """Replace the loop, and all inside it, by a tensor intrinsic.

        Parameters
        ----------
        var: the loop.
        tensor_intrin: what `te.decl_tensor_intrin` gave.

        Example
        -------
            x = te.placeholder((4,), name="x")
            y = te.compute((4,), lambda i: x[i] + 1.0, name="y")
            intrin = te.decl_tensor_intrin(
                y.op,
                lambda ins, outs: outs[0].vstore([0], ins[0].vload([0], "float32x4") + 1.0),
                default_buffer_params={"offset_factor": 1},
            )
            B = te.compute((16,), lambda i: A[i] + 1.0, name="B")
            s = te.create_schedule(B.op)
            outer, inner = s[B].split(B.op.axis[0], 4)
            s[B].tensorize(inner, intrin)

        is lowered to

            for i_outer in range(4):
                cse_var_1: T.int32 = i_outer * 4
                B[cse_var_1:cse_var_1 + 4] = A[cse_var_1:cse_var_1 + 4] + T.Broadcast(T.float32(1.0), 4)
        """
        if not hasattr(tensor_intrin, "reduce_init"):
            raise self.error(
                f"tensorize by a `{type(tensor_intrin).__name__}`, which is not a tensor intrinsic",
                code="te.tensorize.not_an_intrinsic",
            )
        self._annotate(var, IterVar.Tensorized, "tensorize")
        self.attr_of(var).tensor_intrin = tensor_intrin

    def bind(self, ivar: IterVar, thread_ivar: IterVar) -> None:
        """Run the loop's iterations on the threads of a thread axis.

        Parameters
        ----------
        ivar: the loop.
        thread_ivar: the thread axis, from `te.thread_axis`.

        Example
        -------
            B = te.compute((16,), lambda i: A[i] + 1.0, name="B")
            s = te.create_schedule(B.op)
            s[B].bind(B.op.axis[0], te.thread_axis("threadIdx.x"))

        is lowered to

            threadIdx_x = T.launch_thread("threadIdx.x", 16)
            B[threadIdx_x] = A[threadIdx_x] + T.float32(1.0)
        """
        self.leaf_position(ivar, "bind")
        self.check_type(ivar, (IterVar.DataPar, IterVar.CommReduce), "bind")
        if not isinstance(thread_ivar, IterVar):
            raise self.error(
                f"bind takes a thread axis, not `{thread_ivar!r}`",
                'such as `te.thread_axis("threadIdx.x")`',
                code="te.bind.not_a_thread_axis",
            )
        if thread_ivar.iter_type != IterVar.ThreadIndex:
            raise self.error(
                f"bind to `{thread_ivar.var.name}`, which is {ITER_TYPE_NAMES[thread_ivar.iter_type]}",
                code="te.bind.wrong_axis_kind",
            )
        self.attr_of(ivar).bind_thread = thread_ivar

    def env_threads(self, threads: Any) -> None:
        """Launch thread axes around everything that a scan does.

        Parameters
        ----------
        threads: thread axes, from `te.thread_axis`.

        Example
        -------
            B = te.placeholder((8, 16), name="B")
            first = te.compute((1, 16), lambda t, i: A[0, i], name="first")
            update = te.compute((8, 16), lambda t, i: B[t - 1, i] + A[t, i], name="update")
            C = te.scan(first, update, B, name="C")
            s = te.create_schedule(C.op)
            thread = te.thread_axis((0, 16), "threadIdx.x")
            s[first].bind(first.op.axis[1], thread)
            s[update].bind(update.op.axis[1], thread)
            s[C].env_threads(thread)

        is lowered to

            threadIdx_x = T.launch_thread("threadIdx.x", 16)
            C_1 = T.Buffer((128,), data=C.data)
            A_1 = T.Buffer((128,), data=A.data)
            C_1[threadIdx_x] = A_1[threadIdx_x]
            for C_idx in range(7):
                C_1[C_idx * 16 + threadIdx_x + 16] = C_1[C_idx * 16 + threadIdx_x] + A_1[C_idx * 16 + threadIdx_x + 16]
        """
        axes = list(threads) if isinstance(threads, (list, tuple)) else [threads]
        if not isinstance(self.op, ScanOp):
            raise self.error("env_threads is for a scan", code="te.env_threads.not_a_scan")
        if self.thread_env:
            raise self.error("env_threads is called twice", code="te.env_threads.called_twice")
        for iv in axes:
            if not isinstance(iv, IterVar):
                raise self.error(
                    f"cannot env_threads: expected a thread axis, got {a_thing(iv)}",
                    'such as `te.thread_axis("threadIdx.x")`',
                    code="te.env_threads.not_a_thread_axis",
                )
            self.check_type(iv, (IterVar.ThreadIndex,), "env_threads")
        self.leaf_iter_vars[:0] = axes
        self.all_iter_vars += axes
        self.thread_env = axes

    def pragma(self, var: IterVar, pragma_type: str, pragma_value: Any = None) -> None:
        """Tell the passes something about a loop: a key, with a value if it takes one.

        Parameters
        ----------
        var: the loop.
        pragma_type: the key, such as `unroll_explicit`.
        pragma_value: its value.

        Example
        -------
            B = te.compute((4,), lambda i: A[i] + 1.0, name="B")
            s = te.create_schedule(B.op)
            s[B].pragma(B.op.axis[0], "auto_unroll_max_step", 4)

        is lowered to

            B[0] = A[0] + T.float32(1.0)
            B[1] = A[1] + T.float32(1.0)
            B[2] = A[2] + T.float32(1.0)
            B[3] = A[3] + T.float32(1.0)
        """
        if not isinstance(pragma_type, str):
            raise self.error(
                f"cannot pragma: expected the name of a pragma, got {a_thing(pragma_type)}", code="te.pragma.wrong_name"
            )
        shorthand = {"unroll": self.unroll, "vectorize": self.vectorize}.get(pragma_type)
        if shorthand is not None:
            shorthand(var)
            return
        self.leaf_position(var, "pragma")
        key, value = StringImm(pragma_type), attr_value(pragma_value)
        if not (value is None or isinstance(value, (str, PrimExpr))):
            raise self.error(
                f"cannot pragma `{pragma_type}`: expected a number, a text or an expression, got {a_thing(pragma_value)}",
                code="te.pragma.wrong_value",
            )
        attr = self.attr_of(var)
        attr.pragma_keys.append(key)
        attr.pragma_values.append(StringImm(value) if isinstance(value, str) else value)

    def prefetch(self, tensor: Tensor, var: IterVar, offset: Any) -> None:
        """Fetch what the iteration `offset` later needs of `tensor` into the cache.

        Parameters
        ----------
        tensor: what is read.
        var: the loop in whose iterations it is fetched.
        offset: how many iterations ahead.

        Example
        -------
            B = te.compute((16,), lambda i: A[i] + 1.0, name="B")
            s = te.create_schedule(B.op)
            s[B].prefetch(A, B.op.axis[0], 1)

        is lowered to

            for i in range(16):
                T.prefetch(T.address_of(A[i + 1]), 0, 3, 1)
                B[i] = A[i] + T.float32(1.0)
        """
        self.leaf_position(var, "prefetch")
        if not isinstance(tensor, Tensor) or (self.schedule is not None and tensor not in self.schedule):
            name = f"`{tensor.name}`" if isinstance(tensor, Tensor) else a_thing(tensor)
            raise self.error(
                f"cannot prefetch {name}: it is not a tensor of the schedule", code="te.prefetch.unknown_tensor"
            )
        distance = self.check_size(offset, "prefetch")
        attr = self.attr_of(var)
        attr.prefetch_data.append(tensor)
        attr.prefetch_offset.append(distance)
