import tvmagic
from tvmagic import te, tir
from tvmagic.puzzles import SchedulePuzzle


def dot16() -> object:
    """Sixteen products, summed by one instruction of LLVM, added to an element."""
    a, b = (te.placeholder((16,), name=name) for name in "ab")
    k = te.reduce_axis((0, 16), name="k")
    c = te.compute((1,), lambda i: te.sum(a[k] * b[k], axis=k), name="c")
    buffers = {t: tvmagic.tir.decl_buffer(t.shape, t.dtype, t.name, offset_factor=1, strides=[1]) for t in (a, b, c)}

    def emit(ins, outs):  # type: ignore[no-untyped-def]
        def add(start):  # type: ignore[no-untyped-def]
            terms = ins[0].vload(0, "float32x16") * ins[1].vload(0, "float32x16")
            total = tir.call_llvm_pure_intrin(
                "float32", "llvm.vector.reduce.fadd", tir.const(2, "uint32"), start, terms
            )
            return outs[0].vstore(0, total)

        zero = tir.const(0.0, "float32")
        return add(zero), outs[0].vstore(0, zero), add(outs[0].vload(0))

    return te.decl_tensor_intrin(c.op, emit, binds=buffers, name="dot16")


PUZZLE = SchedulePuzzle(
    title="A dot product as one instruction",
    task="""
`dot16` is an intrinsic: it takes sixteen numbers of each input, multiplies them, and adds the products to an element.
Let it do all the work: give it the piece of the loops that it computes.
""",
    program="""
X: float32[8, 64]
W: float32[8, 64]
Y[i, j] += X[i, k] * W[j, k]
""",
    names={"dot16": dot16()},
    start="""
y = s[Y]
i, j = y.axis
(k,) = y.reduce_axis
# your calls here; the intrinsic is `dot16`
""",
    solution="""
y = s[Y]
i, j = y.axis
(k,) = y.reduce_axis
ko, ki = y.split(k, factor=16)
jo, ji = y.split(j, factor=1)
y.reorder(i, jo, ko, ji, ki)
y.tensorize(ji, dot16)
""",
    goals=["calls == 256", "lanes == 16"],
    hints={
        "calls == 256": "`y.tensorize(loop, dot16)` replaces a loop and all inside it. Split `k` by 16, and `j` by 1: the "
        "intrinsic computes one element of sixteen products.",
        "lanes == 16": "The vectors are those of the intrinsic: nothing else has to be vectorized.",
        "refused": "What is replaced must be just what the intrinsic computes: a loop of one element, with a loop of sixteen "
        "products inside. Where is the loop `ko` then?",
    },
    wrong=[
        ("y = s[Y]\nko, ki = y.split(y.reduce_axis[0], factor=16)\ny.unroll(ki)", "calls == 256"),
        ("y = s[Y]\nko, ki = y.split(y.reduce_axis[0], factor=8)\njo, ji = y.split(y.axis[1], factor=1)\ny.reorder(jo, ko, ji, ki)\n"
         "y.tensorize(ji, dot16)", "refused"),
        ("y = s[Y]\ny.tensorize(y.axis[1], dot16)", "refused"),
    ],
)  # fmt: skip
