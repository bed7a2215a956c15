"""An example for each schedule call, as the lines of a `%%schedule` cell that runs: what tooltips show, and a test runs."""

from __future__ import annotations

from functools import cache

from tvmagic.operators.operator import Operator

OPERATOR = """A: float32[32, 32]
B: float32[32, 32]
S[i, j] = A[i, j] * 2.0
C[i, j] += S[i, k] * B[k, j]
D[i, j] = max(C[i, j], 0)"""

# What is scheduled by the few calls that need something else.
_STENCIL = """A: float32[34]
S[i] = A[i] * 2.0
D[i] = S[i] + S[i + 1] + S[i + 2]"""
_PADDED = """A: float32[32]
P: float32[34]
P[i] = A[i - 1] if 1 <= i < 33 else 0
D[i] = P[i] + P[i + 2]"""
_BRANCH = """A: float32[32]
C[i] = A[i] if A[i] > 0 else 0.1 * A[i]"""
_CHAIN = """A: float32[32, 32]
S[i, j] = A[i, j] * 2.0
D[i, j] = S[i, j] + 1.0"""
_TWO = """A: float32[32, 32]
S[i, j] = A[i, j] * 2.0
D[i, j] = A[i, j] + 1.0"""
_SCAN = """A: float32[8, 4]
state = te.placeholder((8, 4), name="state")
first = te.compute((1, 4), lambda _, j: A[0, j], name="first")
step = te.compute((8, 4), lambda t, j: state[t - 1, j] + A[t, j], name="step")
D = te.scan(first, step, state, inputs=[A])"""
_IN_PLACE = """@T.prim_func
def f(A: T.Buffer((32,), "float32")):
    for i in range(32):
        with T.block("C"):
            vi = T.axis.spatial(32, i)
            A[vi] = A[vi] + T.float32(1)"""
_OTHERS = {
    "te.env_threads": _SCAN,
    "te.rolling_buffer": _STENCIL,
    "tir.cache_inplace": _IN_PLACE,
    "tir.decompose_padding": _PADDED,
    "tir.select_branches": _BRANCH,
    "tir.merge": _TWO,
    "tir.reverse_compute_inline": _CHAIN,
    "tir.rolling_buffer": _STENCIL,
}

_INTRIN = """x = te.placeholder((8,), name="x")
doubled = te.compute((8,), lambda i: x[i] * 2.0, name="doubled")
xb = tir.decl_buffer((8,), name="x", offset_factor=1, strides=[1])
yb = tir.decl_buffer((8,), name="y", offset_factor=1, strides=[1])
eight = te.decl_tensor_intrin(
    doubled.op,
    lambda ins, outs: outs[0].vstore(0, ins[0].vload(0, "float32x8") * tir.const(2.0, "float32x8")),
    binds={x: xb, doubled: yb},
)
jo, ji = s[S].split(s[S].axis[1], factor=8)"""

_TIR_INTRIN = """@T.prim_func
def text(x: T.Buffer((8,), "float32", offset_factor=1), y: T.Buffer((8,), "float32", offset_factor=1)):
    with T.block("root"):
        T.reads(x[0:8])
        T.writes(y[0:8])
        for i in range(8):
            with T.block("one"):
                vi = T.axis.spatial(8, i)
                y[vi] = T.max(x[vi], T.float32(0))
@T.prim_func
def code(x: T.Buffer((8,), "float32", offset_factor=1), y: T.Buffer((8,), "float32", offset_factor=1)):
    with T.block("root"):
        T.reads(x[0:8])
        T.writes(y[0:8])
        y[T.ramp(0, 1, 8)] = T.max(x[T.ramp(0, 1, 8)], T.broadcast(T.float32(0), 8))
tir.TensorIntrin.register("relu8", text, code, override=True)"""

_BLOCK_LOOPS = 'i, j = sch.get_loops(sch.get_block("D"))'
_C = 'c = sch.get_block("C")'
_S = 'b = sch.get_block("S")'
_STAGES = {
    "bind": 's[D].bind(s[D].axis[0], te.thread_axis("blockIdx.x"))',
    "compute_at": "s[S].compute_at(s[C], s[C].axis[0])",
    "compute_inline": "s[S].compute_inline()",
    "compute_root": "s[S].compute_inline()\ns[S].compute_root()",
    "double_buffer": "s[S].compute_at(s[C], s[C].axis[0])\ns[S].double_buffer()",
    "env_threads": 'tx = te.thread_axis((0, 4), "threadIdx.x")\ns[D].env_threads(tx)\ns[first].bind(first.op.axis[1], tx)\ns[step].bind(step.op.axis[1], tx)',
    "fuse": "both = s[D].fuse(*s[D].axis)",
    "parallel": "s[D].parallel(s[D].axis[0])",
    "pragma": 's[D].pragma(s[D].axis[0], "auto_unroll_max_step", 16)',
    "prefetch": "s[D].prefetch(C, s[D].axis[0], 1)",
    "reorder": "i, j = s[D].axis\ns[D].reorder(j, i)",
    "rolling_buffer": "io, ii = s[D].split(s[D].axis[0], factor=4)\ns[S].compute_at(s[D], io)\ns[S].rolling_buffer()",
    "set_scope": 's[S].set_scope("local")',
    "set_store_predicate": 'tx = te.thread_axis("threadIdx.x")\ns[C].bind(s[C].reduce_axis[0], tx)\ns[C].set_store_predicate(tx.var.equal(0))',
    "split": "io, ii = s[D].split(s[D].axis[0], factor=8)",
    "storage_align": "s[S].storage_align(s[S].axis[0], 16, 0)",
    "tensorize": f"{_INTRIN}\ns[S].tensorize(ji, eight)",
    "tile": "io, jo, ii, ji = s[D].tile(*s[D].axis, 8, 8)",
    "transform_layout": "s[S].transform_layout(lambda i, j: [i, j // 8, j % 8])",
    "unroll": "io, ii = s[D].split(s[D].axis[0], factor=4)\ns[D].unroll(ii)",
    "vectorize": "jo, ji = s[D].split(s[D].axis[1], factor=8)\ns[D].vectorize(ji)",
    "cache_read": 'SL = s.cache_read(S, "local", [C])\ns[SL].compute_at(s[C], s[C].axis[0])',
    "cache_write": 'CL = s.cache_write(C, "local")\ns[CL].compute_at(s[C], s[C].axis[0])',
    "create_group": "group = s.create_group(outputs=C, inputs=A)\ngroup.compute_at(s[D], s[D].axis[0])",
    "rfactor": "ko, ki = s[C].split(s[C].reduce_axis[0], factor=4)\nCF = s.rfactor(C, ki)",
}
_BLOCKS = {
    "add_unit_loop": "u = sch.add_unit_loop(sch.get_block('D'))",
    "annotate": f'{_BLOCK_LOOPS}\nsch.annotate(i, "pragma_auto_unroll_max_step", 16)',
    "annotate_buffer_access": 'sch.annotate_buffer_access(sch.get_block("D"), 0, "read", lambda i, j: ((i, i + 1), (j, j + 1)))',
    "bind": f'{_BLOCK_LOOPS}\nsch.bind(i, "blockIdx.x")',
    "blockize": f"{_BLOCK_LOOPS}\nouter = sch.blockize(j)",
    "cache_factor": 'copy = sch.cache_factor(sch.get_block("C"), 1, "global")',
    "cache_index": 'indices = sch.cache_index(sch.get_block("D"), "global")',
    "cache_inplace": 'copies = sch.cache_inplace(sch.get_block("C"), 0, "local")',
    "cache_read": f'{_C}\ncopy = sch.cache_read(c, 0, "local")',
    "cache_write": f'{_C}\ncopy = sch.cache_write(c, 0, "local")',
    "compute_at": f"{_S}\ni, j, k = sch.get_loops(sch.get_block('C'))\nsch.compute_at(b, i)",
    "compute_inline": 'sch.compute_inline(sch.get_block("S"))',
    "decompose_padding": 'p = sch.get_block("P")\nzeros = sch.decompose_padding(p, sch.get_loops(p)[0])',
    "decompose_reduction": f"{_C}\ni, j, k = sch.get_loops(c)\ninit = sch.decompose_reduction(c, k)",
    "enter_postproc": "sch.enter_postproc()",
    "fuse": f"{_BLOCK_LOOPS}\nboth = sch.fuse(i, j)",
    "get_block": 'd = sch.get_block("D")',
    "get_child_blocks": 'blocks = sch.get_child_blocks(sch.get_block("root"))',
    "get_consumers": f"{_S}\nreaders = sch.get_consumers(b)",
    "get_loops": f"{_C}\ni, j, k = sch.get_loops(c)",
    "get_output_blocks": 'outputs = sch.get_output_blocks(sch.get_block("root"))',
    "get_producers": f"{_C}\nproducers = sch.get_producers(c)",
    "loop_partition": f"{_BLOCK_LOOPS}\nparts = sch.loop_partition(i, [8, None])",
    "merge": "i, _ = sch.get_loops(sch.get_block('S'))\nm, _ = sch.get_loops(sch.get_block('D'))\nboth = sch.merge(i, m)",
    "pad_einsum": f"{_C}\nsch.pad_einsum(c, [24, 24, 24])",
    "parallel": f"{_BLOCK_LOOPS}\nsch.parallel(i)",
    "read_at": f'{_C}\ni, j, k = sch.get_loops(c)\ncopy = sch.read_at(i, c, 0, "shared")',
    "reindex": f'{_C}\ncopy = sch.reindex(c, ("read", 0))',
    "reindex_cache_read": f'{_C}\ncopy = sch.reindex_cache_read(c, 0, "local", lambda i, j, k: (k, i))',
    "reindex_cache_write": f'{_C}\ncopy = sch.reindex_cache_write(c, 0, "local", lambda i, j, k: (j, i))',
    "reorder": f"{_BLOCK_LOOPS}\nsch.reorder(j, i)",
    "reorder_block_iter_var": f"{_C}\nsch.reorder_block_iter_var(c, [1, 0, 2])",
    "reverse_compute_at": "i, j, k = sch.get_loops(sch.get_block('C'))\nsch.reverse_compute_at(sch.get_block('D'), j)",
    "reverse_compute_inline": 'sch.reverse_compute_inline(sch.get_block("D"))',
    "rfactor": f"{_C}\ni, j, k = sch.get_loops(c)\nko, ki = sch.split(k, [None, 4])\nparts = sch.rfactor(ki, 0)",
    "rolling_buffer": 'i = sch.get_loops(sch.get_block("D"))[0]\nio, ii = sch.split(i, [None, 4])\nb = sch.get_block("S")\nsch.compute_at(b, io)\nsch.rolling_buffer(b, 0)',
    "sample_categorical": "size = sch.sample_categorical([4, 8, 16], [0.3, 0.4, 0.3])",
    "sample_compute_location": f"{_S}\nloop = sch.sample_compute_location(b)\nsch.compute_at(b, loop)",
    "sample_partitioned_tile": f"{_BLOCK_LOOPS}\nsizes = sch.sample_partitioned_tile(i, 3, 1, 4)",
    "sample_perfect_tile": f"{_BLOCK_LOOPS}\nsch.split(i, sch.sample_perfect_tile(i, 2))",
    "set_axis_separator": f'{_S}\nsch.set_axis_separator(b, ("write", 0), [1])',
    "select_branches": 'sch.select_branches(sch.get_block("C"))',
    "set_scope": f'{_S}\nsch.set_scope(b, 0, "local")',
    "split": f"{_BLOCK_LOOPS}\nio, ii = sch.split(i, [None, 8])",
    "storage_align": f"{_S}\nsch.storage_align(b, 0, axis=0, factor=16, offset=0)",
    "tensorize": f'{_TIR_INTRIN}\n{_BLOCK_LOOPS}\njo, ji = sch.split(j, [None, 8])\nsch.tensorize(ji, "relu8")',
    "transform_block_layout": f"{_S}\nsch.transform_block_layout(b, lambda i, j: (j, i))",
    "transform_layout": f'{_S}\nsch.transform_layout(b, ("write", 0), lambda i, j: (i, j // 8, j % 8))',
    "unannotate": f'{_BLOCK_LOOPS}\nsch.annotate(i, "note", 1)\nsch.unannotate(i, "note")',
    "unroll": f"{_BLOCK_LOOPS}\nio, ii = sch.split(i, [None, 4])\nsch.unroll(ii)",
    "unsafe_hide_buffer_access": 'd = sch.get_block("D")\nsch.unsafe_hide_buffer_access(d, "read", [0])',
    "unsafe_set_dtype": f'{_S}\nsch.unsafe_set_dtype(b, 0, "float16")',
    "vectorize": f"{_BLOCK_LOOPS}\njo, ji = sch.split(j, [None, 8])\nsch.vectorize(ji)",
    "write_at": f'{_C}\ni, j, k = sch.get_loops(c)\ncopy = sch.write_at(i, c, 0, "shared")',
}


def example_lines(name: str) -> str | None:
    """The example of a call: `te.split`, or `tir.split`; None if it has none."""
    kind, _, call = name.partition(".")
    return (_STAGES if kind == "te" else _BLOCKS).get(call)


@cache
def example_operator(name: str) -> Operator:
    """The operator that the example of a call schedules, called `f`."""
    from tvmagic.operators.cell import operator

    return operator("f", _OTHERS.get(name, OPERATOR))
