"""`lower`: the pipelines, their records, their options, long and deep programs."""

import subprocess
import sys

import numpy as np
import pytest
from pass_checks import module, parse, script
from refusals import refuses

import tvmagic
from tvmagic import ir, te, tir
from tvmagic.errors import TVMagicError
from tvmagic.passes import PassContext, Sequential, prim_func_pass, recording


def matmul(n: int = 64):
    a, b = te.placeholder((n, n), name="A"), te.placeholder((n, n), name="B")
    k = te.reduce_axis((0, n), name="k")
    c = te.compute((n, n), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k), name="C")
    s = te.create_schedule(c.op)
    cc = s.cache_write(c, "global")
    _, yo, _, _ = s[c].tile(c.op.axis[0], c.op.axis[1], 16, 16)
    s[cc].compute_at(s[c], yo)
    xc, yc = s[cc].op.axis
    ko, ki = s[cc].split(s[cc].op.reduce_axis[0], factor=4)
    s[cc].reorder(ko, xc, ki, yc)
    s[cc].vectorize(yc)
    s[cc].unroll(ki)
    return s, [a, b, c]


def test_the_record_of_a_schedule_shows_every_step() -> None:
    s, args = matmul()
    with recording() as record:
        tvmagic.lower(s, args)
    names = [step.name for step in record]
    assert names[:4] == ["te.normalize", "te.InferBound", "te.ScheduleOps", "te.SchedulePostProcToPrimFunc"]
    assert names[4:7] == ["tir.InjectPrefetch", "tir.TextureFlatten", "tir.StorageFlatten"]
    assert names[-1] == "tir.CommonSubexprElimTIR"
    for step in record:
        assert step.before is not None and step.after is not None and step.error is None
    assert record["tir.VectorizeLoop"].changed and not record["tir.InjectDoubleBuffer"].changed
    assert record["te.InferBound"].notes  # its phases


def test_simple_mode_leaves_loop_partition_out() -> None:
    s, args = matmul()
    with recording() as record:
        tvmagic.lower(s, args, simple_mode=True)
    assert "tir.LoopPartition" not in [step.name for step in record]


def test_lower_of_a_function_and_of_a_module() -> None:
    func = parse(
        'def f(A: T.Buffer((4, 4), "float32")):\n    for i, j in T.grid(4, 4):\n        A[i, j] = T.float32(1)'
    )
    mod = tvmagic.lower(func, name="fill")
    assert [v.name_hint for v in mod.get_global_vars()] == ["fill"]
    assert mod["fill"].attrs["tir.noalias"] and mod["fill"].attrs["global_symbol"] == "fill"
    again = tvmagic.lower(ir.IRModule({"a": func, "b": func}))
    assert len(again) == 2 and "[i * 4 + j]" in script(again["a"])
    with PassContext(config={"tir.noalias": False}):
        assert "tir.noalias" not in tvmagic.lower(func)["main"].attrs


def test_names_at_tvms_places() -> None:
    s, args = matmul()
    assert "T.realize" in script(tvmagic.driver.build_module.schedule_to_module(s, args)["main"])
    assert tvmagic.transform.PassContext is PassContext and tvmagic.tir.transform.Sequential is Sequential


def test_binds_give_the_buffers() -> None:
    a = te.placeholder((8,), name="A")
    b = te.compute((8,), lambda i: a[i], name="B")
    s = te.create_schedule(b.op)
    mine = tir.decl_buffer((8,), "float32", "mine")
    assert "mine: T.Buffer" in script(tvmagic.lower(s, [a, b], binds={a: mine}))


def test_user_passes_run_at_the_end_of_their_phase() -> None:
    ran = []

    def note_pass(name: str):
        @prim_func_pass(opt_level=0, name=name)
        def spy(func: ir.PrimFunc, mod, ctx) -> ir.PrimFunc:
            ran.append((name, "T.vectorized" in script(func), "T.realize" in script(func)))
            return func

        return spy

    s, args = matmul()
    added = [(3, note_pass("p3")), (1, note_pass("p1")), (0, note_pass("p0")), (2, note_pass("p2"))]
    with PassContext(config={"tir.add_lower_pass": added}), recording() as record:
        tvmagic.lower(s, args)
    assert ran == [("p0", True, True), ("p1", True, False), ("p2", False, False), ("p3", False, False)]
    names = [step.name for step in record]
    assert names.index("p1") == names.index("tir.LoopPartition") - 1
    assert names.index("p2") == names.index("tir.RenormalizeSplitPattern") - 1


def test_options_of_the_pipeline() -> None:
    s, args = matmul()
    with PassContext(config={"tir.disable_vectorize": True, "tir.disable_cse_tir": True}):
        text = script(tvmagic.lower(s, args))
    assert "T.Broadcast" not in text and "cse_var" not in text
    with PassContext(config={"tir.disable_storage_rewrite": True}), recording() as record:
        tvmagic.lower(s, args)
    assert "tir.StorageRewrite" not in [step.name for step in record]
    assert "tir.disable_vectorize" in PassContext.list_configs()


def test_instruments_see_every_pass() -> None:
    seen = []

    class Spy:
        def run_before_pass(self, mod, info):
            seen.append(info.name)

    with PassContext(instruments=[Spy()]):
        tvmagic.lower(*matmul())
    assert "tir.Simplify" in seen and "tir.InsertHoistIfThenElse" in seen


def test_contexts_show_their_options() -> None:
    context = PassContext(opt_level=3, disabled_pass=["tir.Simplify"])
    assert str(context).startswith("Pass context information: \n\topt_level: 3\n\trequired passes: []\n")


def test_a_pass_of_the_functions_with_a_name() -> None:
    body = module('def main(A: T.Buffer((4,), "int32")):\n    A[0] = A[1] + A[2] - A[2]')["main"]
    mod = ir.IRModule({"one": body, "two": body, "one_more": body})
    after = tvmagic.transform.ApplyPassToFunction(tir.transform.Simplify(), "one.*")(mod)
    assert [var.name_hint for var in after.functions] == ["one", "two", "one_more"] and after["two"] is body
    assert "A[0] = A[1]\n" in script(after["one"]) + "\n" and after["one_more"] is not body
    assert tvmagic.transform.ApplyPassToFunction(tir.transform.Simplify(), "on")(mod) is mod
    with pytest.raises(TVMagicError, match="`on`"):
        tvmagic.transform.ApplyPassToFunction(tir.transform.Simplify(), "on", True)(mod)


@pytest.mark.parametrize(
    ("call", "code"),
    [
        (lambda: tvmagic.lower(matmul()[0]), "lower.missing_args"),
        (lambda: tvmagic.lower(3), "lower.not_a_program"),
        (lambda: tvmagic.lower(matmul()[0], ["A"]), "lower.wrong_argument"),
    ],
)
def test_what_lower_cannot_take(call, code: str) -> None:
    with pytest.raises(TVMagicError) as caught:
        call()
    assert code == caught.value.code


def test_a_negative_phase_is_refused() -> None:
    keep = prim_func_pass(lambda f, m, c: f, opt_level=0)
    with PassContext(config={"tir.add_lower_pass": [(-1, keep)]}), refuses("lower.wrong_phase"):
        tvmagic.lower(*matmul())


def test_a_span_is_followed_through_all_passes() -> None:
    a, i = ir.decl_buffer((4, 8), "float32", "A"), ir.Var("i")
    place = ir.Span("cell 3", 7)
    store = ir.BufferStore(a, ir.BufferLoad(a, [i, 1]) + 1.0, [i, 0], span=place)
    func = ir.PrimFunc([a], ir.For(i, 0, 4, 0, store))
    with recording() as record:
        tvmagic.lower(func)
    for step in record:
        body = step.after["main"].body
        while not isinstance(body, ir.BufferStore):
            body = body.body if hasattr(body, "body") else body.block.body
        assert body.span == place, step.name


def statements_and_levels(statements: int, levels: int) -> ir.PrimFunc:
    """A function of so many stores, and a loop with a store whose value has so many levels."""
    a, b, i = ir.decl_buffer((6000,), "float32", "A"), ir.decl_buffer((6000,), "float32", "B"), ir.Var("i")
    stores = [ir.BufferStore(b, ir.BufferLoad(a, [n]) * 2.0, [n]) for n in range(statements)]
    deep = ir.BufferLoad(a, [i])
    for n in range(levels):
        deep = ir.Add(deep, ir.BufferLoad(a, [i + n % 7]))
    return ir.PrimFunc([a, b], ir.SeqStmt([*stores, ir.For(i, 0, 16, 0, ir.BufferStore(b, deep, [i]))]))


def test_1500_statements_and_an_expression_of_1000_levels_are_lowered() -> None:
    text = script(tvmagic.lower(statements_and_levels(1500, 1000)))
    assert text.count("\n") > 1500 and text.count("A_1[") == 2501


@pytest.mark.parametrize(("less", "more"), [((200, 0), (1000, 0)), ((1, 50), (1, 250))])
def test_lowering_takes_time_linear_in_statements_and_in_levels(
    calls, less: tuple[int, int], more: tuple[int, int]
) -> None:
    few, many = (calls(lambda: tvmagic.lower(statements_and_levels(*size))) for size in (less, more))
    assert many < 5.5 * few


def test_5000_nested_lets() -> None:
    a, i = ir.decl_buffer((16,), "float32", "A"), ir.Var("i")
    names = [ir.Var(f"v{n}", "float32") for n in range(5000)]
    body = ir.BufferStore(a, names[-1], [i])
    for n in reversed(range(5000)):
        body = ir.LetStmt(names[n], (names[n - 1] if n else ir.BufferLoad(a, [i])) + 1.0, body)
    mod = tvmagic.lower(ir.PrimFunc([a], ir.For(i, 0, 16, 0, body)))
    count, stmt = 0, mod["main"].body.body
    while isinstance(stmt, ir.LetStmt):
        count, stmt = count + 1, stmt.body
    assert count == 5000


def test_an_endless_recursion_in_a_user_pass_is_an_error() -> None:
    def endless(func: ir.PrimFunc, mod: ir.IRModule, context: PassContext) -> ir.PrimFunc:
        return endless(func, mod, context)

    with refuses("program.nested_too_deeply"):
        prim_func_pass(endless, opt_level=0)(module('def main(A: T.Buffer((4,), "int32")):\n    A[0] = 1'))


def test_a_module_lowered_before_is_built() -> None:
    s, args = matmul()
    mod = tvmagic.lower(s, args)
    again = tvmagic.lower(mod)
    assert script(again) == script(mod)
    shapes = [tuple(int(n) for n in t.shape) for t in args]
    arrays = [np.random.default_rng(i).random(shape, dtype="float32") for i, shape in enumerate(shapes)]
    tvmagic.build(mod)(*arrays)
    np.testing.assert_allclose(arrays[2], arrays[0] @ arrays[1], rtol=1e-5)


def test_options_of_schedules_are_known_before_te_is_imported() -> None:
    code = "from tvmagic.passes import PassContext; PassContext(config={'te.tight_split': True})"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


def test_a_module_with_vectors_of_a_small_buffer_is_lowered_again() -> None:
    mod = module(
        """
        def main(A: T.Buffer((64,), "float32"), C: T.Buffer((64,), "float32")):
            B = T.allocate([32], "float32", "global")
            b = T.Buffer((32,), data=B)
            for i in range(2):
                b[0:32] = A[i * 32 : i * 32 + 32] * T.Broadcast(T.float32(2), 32)
                for j in range(32):
                    C[i * 32 + j] = b[31 - j]
        """
    )
    a = np.arange(64, dtype="float32")
    c = np.zeros(64, "float32")
    tvmagic.build(tvmagic.lower(mod))(a, c)
    assert c.tolist() == (a.reshape(2, 32)[:, ::-1] * 2).ravel().tolist()


THREADS = """
def main(A: T.Buffer((64,), "float32"), B: T.Buffer((64,), "float32")):
    for i in T.thread_binding(2, thread="blockIdx.x"):
        for j in T.thread_binding(32, thread="threadIdx.x", annotations={"pragma_unroll_explicit": 1}):
            with T.block("B"):
                v = T.axis.spatial(64, i * 32 + j)
                B[v] = A[v] + T.float32(1)
"""


def test_threads_have_the_names_of_their_axes() -> None:
    """As in TVM, where all loops of an axis have one variable; programs without threads need no such step."""
    with recording() as record:
        text = str(tvmagic.lower(parse(THREADS)))
    assert 'blockIdx_x = T.launch_thread("blockIdx.x", 2)' in text and "B_1[blockIdx_x * 32 + threadIdx_x] = " in text
    names = [step.name for step in record]
    assert {"tir.UnifyThreadBinding", "tir.LowerAutoCopy"} <= set(names)
    with recording() as record:
        tvmagic.lower(*matmul())
    assert not {"tir.UnifyThreadBinding", "tir.LowerAutoCopy"} & {step.name for step in record}
