"""Decisions of code generation that few programs come to, each as a table."""

from __future__ import annotations

import itertools
import pathlib

import pytest
from handmade import module

from tvmagic import codegen
from tvmagic.codegen import memory, threads
from tvmagic.codegen.emit import ModuleText
from tvmagic.codegen.intervals import Intervals
from tvmagic.codegen.kernels import kernel_functions
from tvmagic.codegen.module import emit_module
from tvmagic.codegen.threads import _Threads
from tvmagic.errors import BuildError, TVMagicError
from tvmagic.eval.integers import evaluate
from tvmagic.ir import (
    BufferStore,
    Call,
    Div,
    For,
    ForKind,
    GlobalVar,
    IntImm,
    IRModule,
    Max,
    Min,
    Mod,
    PrimExpr,
    PrimFunc,
    Ramp,
    SeqStmt,
    Stmt,
    Var,
    decl_buffer,
)
from tvmagic.script import from_source
from tvmagic.target import Target, machine
from tvmagic.target.machine import Cache, Machine
from tvmagic.tir import transform

HEAD = (
    "from tvm.script import tir as T\n\n@T.prim_func\ndef main(A: T.Buffer((64,), '{}'), B: T.Buffer((64,), '{}')):\n"
)


def text(body: str, target: str = "opencl", dtype: str = "float32") -> str:
    return codegen.assembly(from_source(HEAD.format(dtype, dtype) + body), target)


def test_caches_as_linux_describes_them(tmp_path: pathlib.Path) -> None:
    kinds = [
        ("Data", 1, "48K", "0"),
        ("Instruction", 1, "32K", "0"),
        ("Unified", 2, "2M", "0-1"),
        ("Unified", 3, "1G", "0-3,8,10-11"),
        ("Unified", 4, "96", "1"),
    ]
    for number, (kind, level, size, cores) in enumerate(
        [*kinds, ("Unified", 5, "0", "0"), ("Unified", 6, "none", "0")]
    ):
        (tmp_path / f"index{number}").mkdir()
        for name, value in (("type", kind), ("level", level), ("size", size), ("shared_cpu_list", cores)):
            (tmp_path / f"index{number}" / name).write_text(f"{value}\n")
    found = machine._linux_caches(tmp_path)
    assert found == (Cache(1, 48 << 10, 1), Cache(2, 2 << 20, 2), Cache(3, 1 << 30, 7), Cache(4, 96, 1))
    assert machine._cores_in("") == 1


def test_a_machine_is_one_that_is_known_by_default() -> None:
    known = Machine(
        "x", 256, 16, 2, 4, 2, 64, (Cache(1, 32 << 10, 1), Cache(2, 1 << 20, 1), Cache(3, 1 << 25, 4)), 2, "a test"
    )
    assert not known.generic and known.stored == 0 and known.storing(64) == 1.0
    assert [known.cache(n) for n in (1, 2, 3, 4)] == [32 << 10, 1 << 20, 1 << 24, 1 << 24]
    assert (known.lanes("int8"), known.lanes("float32"), known.sums_in_flight()) == (32, 8, 8)
    assert {v for _, v in known.tiles()} == {1, 2, 3, 4} and (13, 1) in known.tiles() and (14, 1) not in known.tiles()


@pytest.mark.parametrize(("deep", "interval"), [(1, (0, 1)), (15, (0, 1)), (16, (0, 1)), (17, (-1, 6)), (18, (-1, 7))])
def test_expressions_are_followed_32_deep(deep: int, interval: tuple[int, int]) -> None:
    intervals, i = Intervals(), Var("i", "int32")
    intervals.known[i] = (0, 1)
    e: PrimExpr = i
    for n in range(deep):
        e = Max(i - 1, Min(e, IntImm("int32", 5 + n)))
    assert intervals.of(e) == interval


@pytest.mark.parametrize(
    ("body", "says"),
    [
        ("    B[0:2] = T.Shuffle([A[0:2]], [0, 2])", "constants within its vectors"),
        ("    B[0:2] = T.Shuffle([A[0:2]], [-1, 1])", "constants within its vectors"),
        ("    S = T.allocate([4], 'float32x2', 'local')\n    T.evaluate(0)", "memory of vectors `float32x2`"),
        ("    S = T.allocate([4], 'float32', 'warp')\n    T.evaluate(0)", "`warp` memory"),
        ("    T.evaluate(T.ret(1))", "a kernel gives no value|gives a number"),
    ],
)
def test_what_opencl_has_no_words_for(body: str, says: str) -> None:
    launched = "    with T.launch_thread('threadIdx.x', 2) as tx:\n" + "".join(
        f"    {line}\n" for line in body.splitlines()
    )
    with pytest.raises(BuildError, match=says):
        text(launched)


def test_the_text_of_a_module_of_kernels_is_its_own_by_default() -> None:
    import tvmagic

    mod = from_source(
        HEAD.format("float32", "float32") + "    with T.launch_thread('threadIdx.x', 8) as tx:\n        B[tx] = A[tx]"
    )
    assert "__kernel" in tvmagic.build(mod, target="opencl").get_source()
    built = tvmagic.build(mod, target="nvptx -arch=sm_70")
    assert ".visible .entry" in built.get_source() and "__kernel" in built.get_source("cl")


# ---------------------------------------------------------------------------- what LLVM is given


ENDS = [(-128, -120), (-127, -120), (-65, -64), (-128, -2), (0, 5), (-5, 5)]
DIVISORS = [(-3, -1), (-3, -2), (-1, -1), (-1, 0), (0, 2), (1, 3), (-1, 1), (3, 5), (2, 5)]


@pytest.mark.parametrize("op", [Div, Mod])
def test_divisions_that_a_machine_cannot_do_are_guarded(op: type) -> None:
    """By zero, and the least number by -1; by counting."""
    i, j, y = Var("i", "int8"), Var("j", "int8"), decl_buffer((1,), "int8", "Y")

    def loop(var: Var, ends: tuple[int, int], body: For | BufferStore) -> For:
        return For(var, IntImm("int8", ends[0]), IntImm("int8", ends[1] - ends[0] + 1), ForKind.SERIAL, body)

    for left, right in itertools.product(ENDS, DIVISORS):
        mod = module(loop(i, left, loop(j, right, BufferStore(y, op(i, j), [0]))), y)
        pairs = itertools.product(range(left[0], left[1] + 1), range(right[0], right[1] + 1))
        guarded = any(b == 0 or (a, b) == (-128, -1) for a, b in pairs)
        assert (" select " in codegen.llvm_ir(mod, optimize=False)) == guarded, (left, right)


@pytest.mark.parametrize(
    ("dtype", "lanes", "processor", "calls"),
    [("float32", 16, "skylake-avx512", 1), ("float32", 32, "skylake-avx512", 2), ("float32", 48, "skylake-avx512", 3), ("float32", 8, "skylake-avx512", 0),
     ("float32", 24, "skylake-avx512", 0), ("float64", 16, "skylake-avx512", 0), ("float32", 16, "haswell", 0)],
)  # fmt: skip
def test_the_instruction_that_scales_by_powers_of_two(dtype: str, lanes: int, processor: str, calls: int) -> None:
    """It takes 16 numbers of 32 bits, with AVX-512."""
    x, y, place = decl_buffer((64,), dtype, "X"), decl_buffer((64,), dtype, "Y"), [Ramp(0, 1, lanes)]
    mod = module(BufferStore(y, Call(x[place].dtype, "tir.exp", [x[place]]), place), x, y)
    found = codegen.llvm_ir(mod, f"llvm -mtriple=x86_64-linux-gnu -mcpu={processor}", optimize=False)
    assert found.count("call <16 x float> @llvm.x86.avx512.mask.scalef.ps.512") == calls


@pytest.mark.parametrize(("level", "more"), [(0, False), (1, False), (2, True), (3, True)])
def test_levels_at_which_loops_become_vectors_and_straight_code(level: int, more: bool) -> None:
    x, y, i = decl_buffer((4096,), "float32", "X"), decl_buffer((4096,), "float32", "Y"), Var("i", "int32")

    def multiplications(body: Stmt, kind: str) -> int:
        found = codegen.llvm_ir(module(body, x, y), f"llvm -mtriple=x86_64-linux-gnu -mcpu=haswell -opt-level={level}")
        return found.count(f"fmul contract {kind} ")

    def loop(extent: int, step: int) -> Stmt:
        return For(i, 0, extent, ForKind.SERIAL, BufferStore(y, x[i * step] * 3.0, [i * step]))

    straight = SeqStmt([BufferStore(y, x[k] * 3.0, [k]) for k in range(8)])
    vectors = "<8 x float>"
    assert (multiplications(loop(4096, 1), vectors) > 1) == more  # several vectors in turns
    assert multiplications(loop(7, 3), "float") == (7 if more else 1)
    assert multiplications(straight, vectors) == (1 if more else 0)


@pytest.mark.parametrize(("options", "bits"), [("-mattr=+sve", []), ("-mattr=+sve -vector-width=256", ["256"]), ("-mcpu=a64fx", ["512"])])  # fmt: skip
def test_the_length_of_vectors_that_code_is_for(options: str, bits: list[str]) -> None:
    y = decl_buffer((4,), "float32", "Y")
    context = emit_module(module(BufferStore(y, y[1], [0]), y), Target(f"llvm -mtriple=aarch64-linux-gnu {options}"))
    assert [site.message for site in context.sites if site.kind == "vectors"] == bits
    assert all(site.line == 0 for site in context.sites)  # nobody printed the program


# ---------------------------------------------------------------------------- threads


COPY = "    with T.launch_thread('{}', 8) as tx:\n        {}\n"
ALLOCATE = (
    "S = T.allocate([8], 'float32', '{}')\n        S_1 = T.Buffer((8,), data=S, scope='{}')\n        S_1[tx] = A[tx]"
)


def launches(*tags: str, body: str = "B[tx] = A[tx]") -> PrimFunc:
    return from_source(HEAD.format("float32", "float32") + "".join(COPY.format(tag, body) for tag in tags))


@pytest.mark.parametrize(
    ("func", "flags"),
    [
        (from_source(HEAD.format("float32", "float32") + "    B[0] = A[0]"), ""),
        (launches("threadIdx.x"), "threads"), (launches("blockIdx.y"), "blocks"), (launches("blockIdx.x", "threadIdx.y"), "threads blocks"),
        (launches("threadIdx.x", body=ALLOCATE.format("local", "local")), "threads"), (launches("threadIdx.x", body=ALLOCATE.format("shared", "shared")), "threads meet"),
        (launches("threadIdx.x", body=ALLOCATE.format("shared.dyn", "shared.dyn")), "threads meet"), (launches("threadIdx.x", body="T.evaluate(T.tvm_storage_sync('shared'))"), "threads meet"),
        (launches("threadIdx.x", body="T.evaluate(T.tvm_thread_allreduce(T.uint32(1), A[tx], T.bool(True), B[0], tx))"), "threads reduce"),
    ],
)  # fmt: skip
def test_what_threads_of_a_function_do(func: PrimFunc, flags: str) -> None:
    found = _Threads()
    found.visit(func.body)
    assert {name for name in ("threads", "blocks", "reduce", "meet") if getattr(found, name)} == set(flags.split())


@pytest.mark.parametrize(
    ("reduces", "fails", "result"),
    [
        (False, "", "global shared shared.dyn"), (False, "global", "shared shared.dyn"), (False, "global shared", "as it was"), (True, "", "global shared shared.dyn"), (True, "global", "shared shared.dyn"),
        (True, "global shared", "an error"),
    ],
)  # fmt: skip
def test_what_threads_of_a_cpu_wait_for(
    reduces: bool, fails: str, result: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """For what they wrote to all memory; if some of that is not possible, for shared memory alone."""
    reduction = "T.evaluate(T.tvm_thread_allreduce(T.uint32(1), A[tx], T.bool(True), B[0], tx))"
    mod = IRModule(
        {"main": launches("threadIdx.x", body=reduction if reduces else ALLOCATE.format("shared", "shared"))}
    )

    def synchronized(mod: IRModule, scopes: tuple[str, ...], reduce: bool) -> IRModule:
        assert reduce == reduces
        if scopes[0] in fails.split():
            raise TVMagicError("a barrier would be in a branch")
        return mod.with_functions({GlobalVar(" ".join(scopes)): mod["main"]})

    monkeypatch.setattr(threads, "_synchronized", synchronized)
    monkeypatch.setattr(transform, "ThreadsAsLoops", lambda: lambda mod: mod)
    if result == "an error":
        with pytest.raises(TVMagicError, match="a barrier would be in a branch"):
            threads.prepare_threads(mod, Target("llvm"))
    else:
        made = threads.prepare_threads(mod, Target("llvm"))
        assert made is mod if result == "as it was" else result in {var.name_hint for var in made.functions}


def test_names_of_kernels() -> None:
    """A function that is one kernel keeps its name; the host's part is left out."""
    one, two = launches("threadIdx.x"), launches("threadIdx.x", "threadIdx.x")
    repeated = one.replace(body=For(Var("i", "int32"), 0, 3, ForKind.SERIAL, one.body))
    names = [[str(k.attrs.get("global_symbol")) for k in kernel_functions(f, "f")] for f in (one, two, repeated)]
    assert names == [[str(one.attrs.get("global_symbol"))], ["f_kernel", "f_kernel_1"], ["f_kernel"]]
    assert kernel_functions(one, "f") == [one]


def test_memory_of_the_first_arrays_has_scopes_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """As many as LLVM compares quickly; each goes on to have its own."""
    monkeypatch.setattr(memory, "MOST_SCOPES", 2)
    text = ModuleText("triple", "layout")
    scopes, pointers = memory.AliasScopes(text), [Var(name, "handle") for name in "abcde"]
    for pointer in pointers[:3]:
        scopes.add(pointer)
    scopes.add(pointers[3], "parameters")
    said = [scopes.metadata(pointers[n]) for n in (0, 1, 2, 3, 4, 0, 1)]
    assert said[0] and said[1] and said[0] != said[1] and said[2:5] == [""] * 3 and said[5:] == said[:2]
    scopes.finish()
    own = [line.split()[-1] for line in said[:2]]
    assert [text.metadata[int(name[1:])] for name in own] == ["!{!4}", "!{!1}"]
    assert [bool(scopes.apart(pointers[a], pointers[b])) for a, b in ((0, 1), (0, 0), (0, 3), (0, 4), (4, 0))] == [True, False, True, False, False]  # fmt: skip


@pytest.mark.parametrize(
    ("strides", "of_argument", "place"),
    [((), (), 2 * 6 + 3), ((), (20, 1), 2 + 3), ((20, 1), (), 2 * 20 + 3), ((20, 1), (20, 1), 2 * 20 + 3)],
)
@pytest.mark.parametrize("lanes", [1, 4])
def test_groups_of_axes_are_rows_in_the_memory_of_a_cpu(
    strides: tuple[int, ...], of_argument: tuple[int, ...], place: int, lanes: int
) -> None:
    """If strides count the elements, of the buffer or of the argument that it is in, groups are not multiplied again."""
    buffer = decl_buffer((4, 6), "float32", "V", strides=strides, axis_separators=[1])
    argument = decl_buffer((4, 6), "float32", "X", data=buffer.data, strides=of_argument)
    last = IntImm("int32", 3) if lanes == 1 else Ramp(3, 1, lanes)
    found = memory.flat_index(buffer, (IntImm("int32", 2), last), argument)
    if isinstance(found, Ramp):
        assert (int(found.stride), found.lanes) == (1, lanes)  # type: ignore[call-overload]
        found = found.base
    assert evaluate(found, {}) == place
    assert evaluate(memory.flat_index(buffer, (IntImm("int32", 2), IntImm("int32", 3)), None), {}) == (43 if strides else 15)  # fmt: skip
