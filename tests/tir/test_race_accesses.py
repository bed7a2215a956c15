"""What the search for races knows of each access of a program: a line of text for each."""

from __future__ import annotations

import pytest
from pass_checks import parse

from tvmagic.tir.analysis.race_accesses import Access, collect


def line(access: Access) -> str:
    """`write A[i] if i < 3` and what else there is: loops with their ranges, the depth of the allocation, doubts."""
    indices = "?" if access.indices is None else ", ".join(map(str, access.indices))
    text = f"{'write' if access.write else 'read'} {access.buffer.name}[{indices}]"
    text += "".join(f" if[{depth}] {guard}" for guard, depth in access.place.guards)
    for domain in access.domains:
        text += f" for {domain.kind + ' ' if domain.kind else ''}{domain.var.name} in {domain.begin}+{domain.extent}"
    marks = {
        f"depth {access.depth}": access.depth,
        "flat": access.flat,
        "part": not access.exact,
        "doubt": not access.place.known,
    }
    return text + "".join(f"; {mark}" for mark, has in marks.items() if has)


CASES = {
    "a pointer whose use is not known": (
        """def main(A: T.Buffer((8,), "float32"), n: T.int32):
    for i in T.parallel(8):
        T.evaluate(T.call_extern("int32", "g", T.tvm_access_ptr(T.type_annotation("float32"), A.data, i, 1, n)))""",
        [
            "read A[i] for parallel i in 0+8; flat",
            "read A[i + element] for parallel i in 0+8 for element in 0+1; flat; part",
            "write A[i] for parallel i in 0+8; flat",
            "write A[i + element] for parallel i in 0+8 for element in 0+1; flat; part",
        ],
    ),
    "loops": (
        """def main(A: T.Buffer((8, 8), "int32"), B: T.Buffer((8, 8), "int32")):
    for i in T.parallel(2, 6):
        for j in T.vectorized(i + 2):
            for k in T.unroll(3):
                A[i, j] = B[j, k + 1]""",
        [
            "read B[j, k + 1] for parallel i in 2+4 for vectorized j in 0+i + 2 for k in 0+3",
            "write A[i, j] for parallel i in 2+4 for vectorized j in 0+i + 2 for k in 0+3",
        ],
    ),
    "conditions": (
        """def main(A: T.Buffer((8,), "int32"), B: T.Buffer((8,), "int32")):
    for i in range(8):
        if T.likely(i < 3):
            for j in range(2):
                if B[j] > 0:
                    A[i] = 1
                else:
                    A[j] = 2
        else:
            A[7] = T.if_then_else(i > 4, B[1], B[2])""",
        [
            "read B[j] if[1] i < 3 for i in 0+8 for j in 0+2",
            "write A[i] if[1] i < 3 if[2] B[j] > 0 for i in 0+8 for j in 0+2",
            "write A[j] if[1] i < 3 if[2] not B[j] > 0 for i in 0+8 for j in 0+2",
            "read B[1] if[1] not i < 3 if[1] i > 4 for i in 0+8",
            "read B[2] if[1] not i < 3 if[1] not i > 4 for i in 0+8",
            "write A[7] if[1] not i < 3 for i in 0+8",
        ],
    ),
    "values": (
        """def main(A: T.Buffer((8,), "int32"), B: T.Buffer((8,), "int32")):
    z = T.int32()
    for i in range(8):
        x: T.int32 = i * 2
        y: T.int32 = B[x]
        A[x + 1] = A[y]
        if x < 3:
            A[T.Let(z + 1, where={z: x})] = x""",
        [
            "read B[i * 2] for i in 0+8",
            "read A[y] for i in 0+8",
            "write A[i * 2 + 1] for i in 0+8",
            "write A[T.Let(i * 2 + 1, where={z: i * 2})] if[1] i * 2 < 3 for i in 0+8",
        ],
    ),
    "unsure": (
        """def main(A: T.Buffer((8,), "int32"), B: T.Buffer((8,), "int32")):
    for i in range(8):
        while B[i] < 3 and B[0] < 2:
            B[i] = B[i] + 1
        A[i] = T.Cast("int32", A[1] < 2 or A[2] < 3)""",
        [
            "read B[i] for i in 0+8; doubt",
            "read B[0] for i in 0+8; doubt",
            "read B[i] for i in 0+8; doubt",
            "write B[i] for i in 0+8; doubt",
            "read A[1] for i in 0+8",
            "read A[2] for i in 0+8; doubt",
            "write A[i] for i in 0+8",
        ],
    ),
    "lanes": (
        """def main(A: T.Buffer((64,), "int32"), B: T.Buffer((64,), "int32")):
    for i in range(8):
        A[T.Ramp(i * 8, 2, 4)] = B[T.Broadcast(i, 4)]""",
        [
            "read B[i] for i in 0+8 for lane in 0+4",
            "write A[i * 8 + lane * 2] for i in 0+8 for lane in 0+4",
        ],
    ),
    "predicates": (
        """def main(A: T.Buffer((64,), "int32")):
    A.vstore([T.Ramp(0, 1, 4)], A.vload([T.Ramp(8, 1, 4)], predicate=T.Broadcast(T.bool(True), 4)), predicate=T.Broadcast(T.bool(True), 4))""",
        ["read A[8 + lane] for lane in 0+4; doubt", "write A[lane] for lane in 0+4; doubt"],
    ),
    "memory": (
        """def main(A: T.Buffer((8,), "int32")):
    for i in range(8):
        b = T.allocate([4], "int32", "global")
        B = T.decl_buffer((4,), "int32", data=b)
        for j in range(4):
            C = T.decl_buffer((4,), "int32")
            C[j] = A[i]
            B[j] = C[j]""",
        [
            "read A[i] for i in 0+8 for j in 0+4",
            "write C[j] for i in 0+8 for j in 0+4; depth 2",
            "read C[j] for i in 0+8 for j in 0+4; depth 2",
            "write B[j] for i in 0+8 for j in 0+4; depth 1",
        ],
    ),
    "threads": (
        """def main(A: T.Buffer((8,), "int32")):
    bx = T.launch_thread("blockIdx.x", 4)
    tx = T.launch_thread("threadIdx.x", 2)
    with T.launch_thread("threadIdx.x", 2) as ty:
        A[bx * 2 + ty] = 1
    vx = T.launch_thread("vthread", 3)
    A[vx] = 2""",
        [
            "write A[bx * 2 + tx] for blockIdx.x bx in 0+4 for threadIdx.x tx in 0+2",
            "write A[vx] for blockIdx.x bx in 0+4 for threadIdx.x tx in 0+2 for vx in 0+3",
        ],
    ),
    "thread loops": (
        """def main(A: T.Buffer((8,), "int32")):
    for b in T.thread_binding(4, thread="blockIdx.x"):
        for t in T.thread_binding(2, thread="threadIdx.y"):
            A[b * 2 + t] = 1""",
        ["write A[b * 2 + t] for blockIdx.x b in 0+4 for threadIdx.y t in 0+2"],
    ),
    "pointers": (
        """def main(A: T.Buffer((8,), "int32"), B: T.Buffer((8,), "int32")):
    for i in range(8):
        T.call_extern("int32", "f", T.tvm_access_ptr(T.type_annotation("int32"), A.data, i, 4, 1), T.tvm_access_ptr(T.type_annotation("int32"), B.data, i, 2, 2))
        T.call_extern("int32", "f", T.tvm_access_ptr(T.type_annotation("int32"), A.data, 0, 1, 3), A.data, i)
        T.call_extern("int32", "f", T.address_of(B[A[i]]))
        T.evaluate(T.call_intrin("int32", "tir.prefetch", T.address_of(B[3]), 0, 3, 1))""",
        [
            "read A[i] for i in 0+8; flat",
            "read A[i + element] for i in 0+8 for element in 0+4; flat; part",
            "write B[i] for i in 0+8; flat",
            "write B[i + element] for i in 0+8 for element in 0+2; flat; part",
            "read A[0] for i in 0+8; flat",
            "read A[element] for i in 0+8 for element in 0+1; flat; part",
            "write A[0] for i in 0+8; flat",
            "write A[element] for i in 0+8 for element in 0+1; flat; part",
            "write A[?] for i in 0+8",
            "read A[i] for i in 0+8",
            "write B[?] for i in 0+8",
            "read B[?] for i in 0+8",
        ],
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_accesses(name: str) -> None:
    text, lines = CASES[name]
    assert [line(access) for access in collect(parse(text)).accesses] == lines


@pytest.mark.parametrize("count", [1, 2, 3])
def test_what_threads_reduce_together_is_read_and_given_to_all(count: int) -> None:
    """Of each of the values; the condition is read too, the threads are not."""
    names = "RSQ"[:count]
    given = ", ".join([f"A[t + {n}]" for n in range(count)] + ["P[t] > 0"] + [f"{name}_1[0]" for name in names])
    text = (
        "def main(A: T.Buffer((40,), 'int32'), P: T.Buffer((8,), 'int32'), C: T.Buffer((8,), 'int32')):\n"
        "    t = T.launch_thread('threadIdx.x', 8)\n"
        + "".join(
            f"    {x} = T.allocate([1], 'int32', 'local')\n    {x}_1 = T.Buffer((1,), 'int32', data={x}, scope='local')\n"
            for x in names
        )
        + f"    T.tvm_thread_allreduce(T.uint32({count}), {given}, t)\n    C[t] = {names[-1]}_1[0]"
    )
    found = collect(parse(text))
    launched = " for threadIdx.x t in 0+8"
    lines = [line(access) for access in found.accesses]
    read = [f"read A[t{f' + {n}' if n else ''}]{launched}" for n in range(count)] + [f"read P[t]{launched}"]
    assert lines[: count + 1] == read and lines[-1] == f"write C[t]{launched}" and len(lines) == count + 3
    assert {var.name for var in found.combined} == {f"{name}_1" for name in names}


def test_memory_has_the_name_that_it_is_given_first() -> None:
    text = """def main(A: T.Buffer((8,), "int32")):
    M = T.allocate([8], "int32", "global")
    B = T.decl_buffer((8,), "int32", data=M)
    C = T.decl_buffer((4, 2), "int32", data=M)
    T.evaluate(T.call_extern("int32", "f", M))
    C[1, 1] = 2"""
    assert [line(access) for access in collect(parse(text)).accesses] == ["write B[?]", "write C[1, 1]"]
