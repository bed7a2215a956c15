"""What users of CINN rely on: the text to the letter, names, the order of loops, what each rule gives."""

from __future__ import annotations

import math
import re
from collections.abc import Callable

import numpy as np
import pytest
from cinn_programs import run
from refusals import refuses
from step_programs import check, program
from test_cases import SEED_B, SEED_C, SEED_INLINED, without_regions
from test_cases import program as article

import tvmagic
from tvmagic import cinn, passes, te, tir
from tvmagic.cinn import AutoInline, AutoInlineType, IRSchedule
from tvmagic.errors import TVMagicError
from tvmagic.notebook.view import make_view
from tvmagic.script import cinn_text, from_cinn


def block(*lines: str, kind: str = "serial", extent: int = 8) -> str:
    """The text of a function with one block `B` in one loop."""
    body = "\n".join(f"        {line}" for line in lines)
    return (
        "{\n  ScheduleBlock(root)\n  {\n"
        f"    {kind} for (i, 0, {extent})\n    {{\n      ScheduleBlock(B)\n      {{\n        i0 = axis.bind(i)\n{body}\n"
        "      }\n    }\n  }\n}"
    )


def same(text: str, **known: object) -> None:
    """Print what is read and read that again: the same text."""
    func = from_cinn(text, known)
    assert cinn_text(func, regions="_buffers(" in text, head=text.startswith("function")) == text
    printed = cinn_text(func)
    assert cinn_text(from_cinn(printed, known)) == printed


def shape(schedule: IRSchedule) -> list[str]:
    """The loops and blocks of a schedule, indented by their depth; and conditions."""
    found: list[str] = []
    for line in schedule.text(regions=False).split("\n"):
        words = line.strip()
        depth = (len(line) - len(words)) // 2
        if " for (" in words:
            name, _, extent = words[words.index("(") + 1 : -1].split(", ")
            found.append(f"{depth} {name}:{extent}")
        elif words.startswith(("ScheduleBlock(", "if (")) and words != "ScheduleBlock(root)":
            found.append(f"{depth} {words.removeprefix('ScheduleBlock(').removesuffix(')')}")
    least = min(int(line.split()[0]) for line in found)
    return [f"{'..' * (int(n) - least)}{rest}" for n, _, rest in (line.partition(" ") for line in found)]


def line(schedule: IRSchedule, part: str) -> str:
    """The first line of the text with a part in it."""
    return next(x.strip() for x in schedule.text().split("\n") if part in x)


# ---------------------------------------------------------------------------- 1: the article


def test_1_the_two_texts_of_the_article() -> None:
    before, after = article(SEED_B, SEED_C), article(SEED_INLINED)
    schedule = IRSchedule(before)
    assert without_regions(str(schedule)) == before
    a = np.arange(32**3, dtype="int32").reshape(32, 32, 32)
    expected = 2 * (1 + a.transpose(1, 0, 2))
    np.testing.assert_array_equal(run(schedule.func, [a], a.shape, dtype="int32")[0], expected)
    schedule.compute_inline("B")
    assert without_regions(str(schedule)) == after
    assert without_regions(str(IRSchedule(after))) == after
    np.testing.assert_array_equal(run(schedule.func, [a], a.shape, dtype="int32")[0], expected)


# ---------------------------------------------------------------------------- 2: there and back

FLOATS = {
    0.5: "0.500000000f",
    1.0: "1.00000000f",
    300.0: "300.000000f",
    -2.0: "-2.00000000f",
    0.1: "0.100000001f",
    1e-10: "1.00000001e-10f",
    1e8: "100000000.f",
    1e9: "1.00000000e+09f",
    -3.4028234663852886e38: "-3.40282347e+38f",
    math.inf: "inf",
    -math.inf: "-inf",
    1e-45: "1.40129846e-45f",
}


@pytest.mark.parametrize("value", FLOATS)
def test_2_floats_have_nine_digits_and_come_back_to_the_bit(value: float) -> None:
    text = block(f"B[i0] = (A[i0] * {FLOATS[value]})")
    same(text)
    a = np.arange(8, dtype="float32")
    with np.errstate(invalid="ignore", over="ignore"):
        np.testing.assert_array_equal(run(from_cinn(text), [a], (8,))[0], a * np.float32(value))


DTYPES = {
    "float64": ("0.10000000000000001", "1.0000000000000000e-10", "1.7976931348623157e+308", "inf", "nan"),
    "float32": ("nan", "inf", "3.40282347e+38f"),
    "float16": (
        "(float16)0.5f",
        "(float16)65504f",
        "cinn::common::raw_uint16_to_float16(0x7c00)",
        "-(cinn::common::raw_uint16_to_float16(0x7c00))",
        "cinn::common::raw_uint16_to_float16(0x7e00)",
    ),
    "bfloat16": ("(bfloat16)0.500000000f", "cinn::common::raw_uint16_to_bfloat16(0x7F80)"),
    "int8": ("(int8_t)5", "(int8_t)-128"),
    "uint8": ("(uint8_t)255",),
    "int16": ("(int16_t)5",),
    "uint16": ("(uint16_t)65535",),
    "int32": ("-7", "2147483647"),
    "uint32": ("7",),
    "int64": ("5ll", "-9223372036854775807ll"),
    "uint64": ("18446744073709551615ull",),
    "bool": ("true", "false"),
}


def test_2_raw_bits_are_the_number_that_they_are() -> None:
    for name, bits, value in (
        ("float16", "0x3c00", 1.0),
        ("float16", "0xfc00", -np.inf),
        ("bfloat16", "0x4049", 3.140625),
    ):
        func = from_cinn(
            block(f"B[i0] = float32(cinn::common::raw_uint16_to_{name}({bits}))"), {"B": ((8,), "float32")}
        )
        np.testing.assert_array_equal(run(func, [], (8,))[0], np.full(8, value, "float32"))


@pytest.mark.parametrize("dtype", DTYPES)
def test_2_literals_of_each_type(dtype: str) -> None:
    from tvmagic.ir import BufferStore, post_order_visit

    for text in DTYPES[dtype]:
        whole = block(f"B[i0] = {text}")
        same(whole, B=((8,), dtype))
        stored: list[object] = []
        post_order_visit(
            from_cinn(whole, {"B": ((8,), dtype)}).body,
            lambda n: stored.append(n.value) if isinstance(n, BufferStore) else None,
        )
        assert str(stored[0].dtype) == dtype  # type: ignore[attr-defined]


FORMS = [
    ("B[i0] = -((A[i0] + 1.00000000f))",),
    ("B[i0] = select(!(A[i0] > 0.00000000f), cinn_min(A[i0], 1.00000000f), cinn_max(A[i0], C[0]))",),
    ("B[i0] = float32(((i0 / 3) + (i0 % 3)))",),
    ("float32 x = exp(A[i0])", "B[i0] = (x * x)"),
    ("if ((i0 < 4)) {", "  B[i0] = A[i0]", "} else {", "  B[i0] = 0.00000000f", "}"),
    ("if (((i0 < 4) and (i0 >= 1))) {", "  {", "    B[i0] = A[i0]", "  }", "}"),
    ("{", "  B[i0] = A[i0]", "}"),
    ("{", "  B[i0] = A[i0]", "  __syncthreads()", "  C[i0] = A[i0]", "}"),
    ("{", "  alloc(_T, 8)", "  B[i0] = A[i0]", "  free(_T)", "}"),
    ("attrs(auto_unroll_max_step:8, compute_at_extra_var:ax0,ax1, empty:, kind:some text)", "B[i0] = A[i0]"),
    ("B[i0] = if_then_else((i0 == 1), pow(A[i0], 2.00000000f), 1.00000000f)",),
    ("B[Ramp((i0 * 1),1,4)] = Broadcast(1.00000000f,4)",),
    ("B[i0] = ((0.00000000f - A[i0]) - -(2.50000000f))",),
    ("B[i0] = (-(-(A[i0])) * (-0.00000000f - A[i0]))",),
    ("float32 x", "B[i0] = (x - A[i0])"),
    ("B[i0] = (abs(A[i0]) + exp10(cinn_min(A[i0], 0.00000000f)))",),
]


@pytest.mark.parametrize("lines", FORMS, ids=range(len(FORMS)))
def test_2_each_form_there_and_back(lines: tuple[str, ...]) -> None:
    known = {"B": ((16,), "float32")} if "Ramp" in lines[0] else {}
    same(block(*lines), **known)
    if "Ramp" not in lines[0] and "float32(" not in lines[0]:
        first = from_cinn(block(*lines))
        again = from_cinn(cinn_text(first))
        shapes = [tuple(int(n) for n in b.shape) for b in first.buffer_map.values()]
        rng = np.random.default_rng(1)
        data = [rng.normal(size=s).astype("float32") for s in shapes]
        other = [d.copy() for d in data]
        tvmagic.build(first)(*data)
        tvmagic.build(again)(*other)
        for one, two in zip(data, other):
            np.testing.assert_array_equal(one, two)


def test_2_differences_from_zero_stay_as_they_are_written() -> None:
    text = block("B[i0] = ((0 - A[i0]) * (-(A[i0]) + left_shift(-(7), 2)))")
    same(text, A=((8,), "int32"), B=((8,), "int32"))
    a = np.arange(8, dtype="int32")
    func = from_cinn(text, {"A": ((8,), "int32"), "B": ((8,), "int32")})
    np.testing.assert_array_equal(run(func, [a], (8,), dtype="int32")[0], -a * (-a - 28))


@pytest.mark.parametrize("name", ["sum", "sub", "Div", "Mul", "Max", "Min", "&&", "||"])
def test_2_reduce_is_read_and_printed_not_run(name: str) -> None:
    whole = name in ("&&", "||")
    text = block(f"B[i0] = Reduce({name}, {'(A[i0] > 0.00000000f),true' if whole else 'A[i0],1.00000000f'})")
    known = {"B": ((8,), "bool")} if whole else {}
    same(text, **known)
    with refuses("cinn.to_tir.reduction_without_axes"):
        tvmagic.build(from_cinn(text, known))


def test_2_functions_of_cinn_at_run_time_are_read_and_printed() -> None:
    text = block("B[i0] = cinn_nvgpu_pow_fp32(A[i0], 3)")
    same(text)
    with refuses("module.missing_functions"):
        a = np.ones(8, "float32")
        tvmagic.build(from_cinn(text))(a, a.copy())
    with refuses("cinn.text.unknown_function", names="`exp`"):
        from_cinn(block("B[i0] = expp(A[i0])"))


def test_2_a_head_may_name_sizes() -> None:
    text = "function f (n, _B, _A, unused)\n" + block("B[i0] = (A[i0] * 2.00000000f)", extent="n")  # type: ignore[arg-type]
    same(text)
    a, b = np.arange(5, dtype="float32"), np.zeros(5, "float32")
    tvmagic.build(from_cinn(text))(5, b, a, 0)
    np.testing.assert_array_equal(b, 2 * a)


KINDS = [
    "serial",
    "parallel",
    "unroll",
    "vectorize[4]",
    "vectorize[3]",
    "thread_bind[blockIdx.y]",
    "thread_bind[invalid info]",
    "default",
]


@pytest.mark.parametrize("kind", KINDS)
def test_2_kinds_of_loops(kind: str) -> None:
    text = block("B[i0] = (A[i0] + 1.00000000f)", kind=kind)
    same(text)
    a = np.arange(8, dtype="float32")
    np.testing.assert_array_equal(run(from_cinn(text), [a], (8,))[0], a + 1)


def test_2_a_kind_without_a_word() -> None:
    same(block("B[i0] = A[i0]", kind="serial").replace("serial for", "for"))


# ---------------------------------------------------------------------------- 3: first values

SUM = """{
  ScheduleBlock(root)
  {
    serial for (i, 0, 8)
    {
      ScheduleBlock(B__reduce_init)
      {
        i0 = axis.bind(i)
        B__reduce_init[i0] = 0.00000000f
      }
      serial for (k0, 0, 9)
      {
        ScheduleBlock(B)
        {
          i0, i1 = axis.bind(i, k0)
          B[i0] = (B[i0] + A[i0, i1])
        }
      }
    }
  }
}"""


def test_3_a_pasted_reduction_has_its_tensor_once() -> None:
    func = from_cinn(SUM)
    assert [b.name for b in func.buffer_map.values()] == ["A", "B"]
    assert cinn_text(func, regions=False, head=False) == SUM
    a = np.arange(72, dtype="float32").reshape(8, 9)
    for before in (0, 7, np.nan):
        b = np.full(8, before, "float32")
        tvmagic.build(func)(a, b)
        np.testing.assert_array_equal(b, a.sum(1))


@pytest.mark.parametrize("kind", ["sum", "max", "min"])
def test_3_first_values(kind: str) -> None:
    a, k0 = te.placeholder((4, 5), name="A"), te.reduce_axis((0, 5), name="k0")
    reduce = {"sum": te.sum, "max": te.max, "min": te.min}[kind]
    b = te.compute((4,), lambda i: reduce(a[i, k0], axis=k0), name="B")
    stored = line(IRSchedule(cinn.lower([a, b])), "B__reduce_init[")
    first = {"sum": "0.00000000f", "max": "-3.40282347e+38f", "min": "3.40282347e+38f"}[kind]
    assert stored == f"B__reduce_init[i0] = {first}"


def test_3_loops_that_reduce_first_have_the_first_values_before_them() -> None:
    from tvmagic.script import from_source

    func = from_source("""from tvm.script import tir as T
@T.prim_func
def main(A: T.Buffer((4, 5), "float32"), B: T.Buffer((4,), "float32")):
    for k0, i in T.grid(5, 4):
        with T.block("B"):
            v, r = T.axis.remap("SR", [i, k0])
            with T.init():
                B[v] = T.float32(0)
            B[v] = B[v] + A[v, r]
""")
    assert shape(IRSchedule(func)) == ["i:4", "..B__reduce_init", "k0:5", "..i:4", "....B"]


# ---------------------------------------------------------------------------- 4: AutoInline


@pytest.mark.parametrize(
    "rule",
    [AutoInline(None, {"C"}), AutoInline("llvm", ["_C"]), AutoInline(["C"]), AutoInline("C"), AutoInline("llvm", "C")],
)
def test_4_both_forms_of_the_arguments(rule: AutoInline) -> None:
    schedule = IRSchedule(article(SEED_B, SEED_C))
    assert rule.analyze_inline_type("B", schedule) is AutoInlineType.INLINE_INTO_CONSUMER
    assert rule.analyze_inline_type("C", schedule) is AutoInlineType.CANNOT_INLINE
    assert rule.get_rule_name() == "AutoInline"
    assert rule.init(schedule) == 2 and rule.number_applicable() == 1
    assert rule.apply(0) and rule.init(schedule) == 0
    with refuses("cinn.auto_rule.not_applicable"):
        rule.apply_randomly()


def test_4_a_text_is_one_name_never_its_letters() -> None:
    assert AutoInline("BC").no_inline_output_names == {"BC"}
    assert AutoInline("llvm", "BC").no_inline_output_names == {"BC"}
    assert [int(t) for t in AutoInlineType] == [0, 1, 2]


def test_4_the_record_shows_schedule_blocks() -> None:
    with passes.recording() as record:
        cinn.StaticShapeGroupScheduler(article(SEED_B, SEED_C)).do_compute_inline()
    view = make_view(record)
    step = next(s for s in view.steps if s.name == "DoComputeInline")
    for shown in (step.before, step.after):
        lines = view.text_lines(shown)
        assert any("ScheduleBlock(C)" in x for x in lines) and not any("T.block" in x for x in lines)


# ---------------------------------------------------------------------------- 5: lowering and what is printed


def test_5_loops_of_one_iteration_stay_and_bind_zero() -> None:
    schedule = program("transposed").schedule()
    assert "serial for (i, 0, 1)" in schedule.text()
    assert "i0, i1, i2 = axis.bind(0, j, k)" in schedule.text()


def test_5_loops_that_reduce_keep_their_names() -> None:
    assert shape(program("two_sums").schedule())[2:4] == ["..j0:4", "....k0:6"]


def test_5_vectors_attributes_and_the_head() -> None:
    schedule = program("chain").schedule()
    schedule.vectorize(schedule.get_loops("D")[1], 4)
    schedule.annotate("D", "b", 0.25)
    schedule.annotate("D", "a", True)
    schedule.annotate("D", "c", 2.0)
    schedule.annotate("D", "d", "text")
    schedule.annotate("D", "d", "another")  # what is there stays
    assert "vectorize[4] for (j, 0, 10)" in schedule.text()
    assert "attrs(a:1, b:0.25, c:2, d:text)" in schedule.text()
    assert cinn_text(schedule.func).startswith("function main (_A, _D)\n{\n  ScheduleBlock(root)")
    check("chain", schedule)
    mod = tvmagic.IRModule({"f": schedule.func, "g": program("blur").function})
    text = cinn_text(mod)
    assert "function f (_A, _D)" in text and "function g (_A, _C)" in text and "ScheduleBlock(root_0)" in text


# ---------------------------------------------------------------------------- 7: conditions and names


def test_7_a_split_that_does_not_divide() -> None:
    schedule = program("chain").schedule()
    schedule.split("B", 0, [-1, 5])
    assert "if ((((5 * i) + i_0) < 12)) {" in schedule.text()
    assert shape(schedule)[:5] == ["i:3", "..i_0:5", "....if ((((5 * i) + i_0) < 12)) {", "........j:10", "..........B"]
    check("chain", schedule)
    schedule.reorder("B", [2, 0])
    assert shape(schedule)[:5] == ["j:10", "..i_0:5", "....i:3", "......if ((((5 * i) + i_0) < 12)) {", "........B"]
    check("chain", schedule)


def test_7_names_of_split_and_fused_loops() -> None:
    schedule = program("chain").schedule()
    schedule.split("B", 0, [3, 4])
    schedule.split("C", 0, [3, 4])
    names = [schedule.loop_of(x).loop_var.name for b in "BC" for x in schedule.get_loops(b)]
    assert names == ["i", "i_0", "j", "i_1", "i_2", "j"]
    schedule.split("B", 1, [2, 2])
    schedule.fuse("C", [1, 2])
    names = [schedule.loop_of(x).loop_var.name for b in "BC" for x in schedule.get_loops(b)]
    assert names == ["i", "i_0", "i_0_0", "j", "i_1", "i_2_j_fused"]
    assert "i0, i1 = axis.bind(((4 * i_1) + (i_2_j_fused / 10)), (i_2_j_fused % 10))" in schedule.text()
    schedule.fuse("D", [0, 1])
    assert "i0, i1 = axis.bind((i_j_fused / 10), (i_j_fused % 10))" in schedule.text()
    check("chain", schedule)


def test_7_three_fused_loops() -> None:
    schedule = program("transposed").schedule()
    schedule.split("C", 1, [2, 3])
    schedule.fuse("C", [1, 2, 3])
    assert (
        "axis.bind(0, ((3 * ((j_j_0_k_fused / 8) / 3)) + ((j_j_0_k_fused / 8) % 3)), (j_j_0_k_fused % 8))"
        in (schedule.text())
        or "axis.bind(0, (j_j_0_k_fused / 8), (j_j_0_k_fused % 8))" in schedule.text()
    )
    check("transposed", schedule)


def test_7_a_condition_at_the_target_is_written_once() -> None:
    schedule = program("chain").schedule()
    schedule.compute_inline("B")
    loops = schedule.split("D", 0, [-1, 5])
    schedule.compute_at("C", loops[1])
    text = schedule.text()
    assert text.count("if (") == 1
    assert shape(schedule) == [
        "i:3",
        "..i_0:5",
        "....if ((((5 * i) + i_0) < 12)) {",
        "........ax0:10",
        "..........C",
        "........j:10",
        "..........D",
    ]
    assert "axis.bind(((5 * i) + i_0), (0 + ax0))" in text and "attrs(compute_at_extra_var:ax0)" in text
    check("chain", schedule)


def test_7_a_condition_on_both_sides_is_written_once() -> None:
    schedule = program("chain").schedule()
    schedule.compute_inline("B")
    for name in "CD":
        schedule.split(name, 0, [-1, 5])
    schedule.simple_compute_at("C", schedule.get_loops("D")[1])
    assert schedule.text().count("if (") == 1
    check("chain", schedule)


@pytest.mark.parametrize("depth", [0, 1, 2])
def test_7_a_condition_around_the_target_is_not_written_again(depth: int) -> None:
    schedule = program("chain").schedule()
    for name in "CD":
        schedule.split(name, 0, [-1, 5])
    schedule.simple_compute_at("C", schedule.get_loops("D")[depth])
    conditions = [x.strip(".") for x in shape(schedule) if "if (" in x]
    assert len(conditions) == (1 if depth else 2)
    check("chain", schedule)


def test_7_names_of_a_second_move() -> None:
    schedule = program("chain").schedule()
    schedule.compute_at("C", schedule.get_loops("D")[0])
    schedule.compute_at("B", schedule.get_loops("D")[0], True)
    assert [x.strip(".") for x in shape(schedule)] == [
        "i:12",
        "ax0:1",
        "ax1:10",
        "B",
        "ax0_0:10",
        "C",
        "j:10",
        "D",
    ] or [x.strip(".") for x in shape(schedule)] == ["i:12", "ax0_0:1", "ax1:10", "B", "ax0:10", "C", "j:10", "D"]
    check("chain", schedule)


# ---------------------------------------------------------------------------- 8: caches and barriers


def test_8_a_part_is_copied_alone() -> None:
    text = block("B[i0] = (A[(i0 + 2)] * 2.00000000f)").replace("{\n  ScheduleBlock(root)", "{\n  ScheduleBlock(root)")
    schedule = IRSchedule(from_cinn(text, {"A": ((20,), "float32")}))
    copy = schedule.cache_read("B", 0, "local")
    assert schedule.block_of(copy).name_hint == "A_local_temp_buffer"
    assert "serial for (cache_ax0, 0, 8)" in schedule.text()
    assert "v0 = axis.bind((cache_ax0 + 2))" in schedule.text() or "v0 = axis.bind((2 + cache_ax0))" in schedule.text()
    assert "B[i0] = (A_local_temp_buffer[(i0 + 2)] * 2.00000000f)" in schedule.text()
    cache = next(b for b in schedule.root.alloc_buffers if b.name == "A_local_temp_buffer")
    assert [int(n) for n in cache.shape] == [20] and cache.scope() == "local"
    a = np.arange(20, dtype="float32")
    np.testing.assert_array_equal(run(schedule.func, [a], (8,))[0], a[2:10] * 2)


def test_8_the_index_counts_loads_and_bodies_become_lists() -> None:
    schedule = program("matmul").schedule()
    schedule.cache_read("B", 1, "local")
    assert shape(schedule)[:3] == ["cache_ax0:16", "..cache_ax1:8", "....A_local_temp_buffer"]
    assert re.search(r"axis.bind\(i, j\)\n +\{\n +C\[i0, i1\] = cinn_max", schedule.text(regions=False))
    check("matmul", schedule)
    with refuses("cinn.cache_read.stored_by_block", names="`B`"):
        schedule.cache_read("B", 0, "local")


def test_8_readers_before_the_copy_read_the_tensor() -> None:
    schedule = program("chain").schedule()
    schedule.simple_compute_at("B", schedule.get_loops("C")[1])
    schedule.cache_read("D", 1, "local")
    assert "C[i0, i1] = (B[i0, i1] + 1.00000000f)" in schedule.text()
    assert "D[i0, i1] = (C[i0, i1] * B_local_temp_buffer[i0, i1])" in schedule.text()
    check("chain", schedule)


def test_8_roles_of_cache_write_and_moving_the_computing_block() -> None:
    schedule = program("matmul").schedule()
    computing = schedule.cache_write("B", 0, "local")
    assert schedule.block_of(computing).name_hint == "B_local_temp_buffer"
    assert "B__reduce_init[i0, i1] = 0.00000000f" in schedule.text()
    assert "B[v0, v1] = B_local_temp_buffer[v0, v1]" in schedule.text()
    check("matmul", schedule)
    schedule.compute_at(computing, schedule.get_loops("B")[1])
    assert shape(schedule)[:6] == [
        "cache_ax0:16",
        "..cache_ax1:24",
        "....B__reduce_init",
        "....ax0:8",
        "......B_local_temp_buffer",
        "....B",
    ]
    check("matmul", schedule)
    same_text = cinn_text(schedule.func)
    assert cinn_text(from_cinn(same_text)) == same_text
    check("matmul", from_cinn(same_text))


def test_8_barriers_beside_a_block_and_a_loop() -> None:
    schedule = program("chain").schedule()
    schedule.sync_threads("B")
    schedule.sync_threads(schedule.get_loops("C")[0], False)
    lines = [x.strip() for x in schedule.text().split("\n")]
    assert lines.count("__syncthreads()") == 2
    assert lines[lines.index("__syncthreads()", lines.index("__syncthreads()") + 1) + 1] == "serial for (i, 0, 12)"
    check("chain", schedule)
    with refuses("cinn.sync_threads.root"):
        schedule.sync_threads(schedule.get_root_block("B"))


@pytest.mark.parametrize("text", ["B[i0] = (B[(i0 + 1)] * 2.00000000f)", "B[(i0 / 2)] = A[i0]", "B[(i0 % 3)] = A[i0]"])
def test_what_depends_on_the_order_may_not_be_reordered(text: str) -> None:
    known = {"A": ((8,), "float32"), "B": ((9,), "float32")}
    schedule = IRSchedule(from_cinn(block(text), known, outputs=["B"]))
    loops = schedule.split("B", 0, [2, 4])
    with refuses("cinn.schedule.order_of_accesses"):
        schedule.reorder([loops[1], loops[0]])
    with refuses("cinn.schedule.iterations_conflict"):
        schedule.parallel(loops[0]) if "% 3" in text or "+ 1" in text else schedule.parallel(loops[1])


# ---------------------------------------------------------------------------- 9: rfactor


@pytest.mark.parametrize("axis", [0, 1])
def test_9_rfactor_of_one_of_two_loops(axis: int) -> None:
    schedule = program("two_sums").schedule()
    made = schedule.rfactor(schedule.get_loops("B")[2], axis)
    assert schedule.block_of(made).name_hint == "rf_B"
    first = ["rf_k0:6", "..i:16"] if axis == 0 else ["i:16", "..rf_k0:6"]
    assert shape(schedule) == [
        *first,
        "....rf_B__reduce_init",
        "....j0:4",
        "......rf_B",
        "i:16",
        "..B__reduce_init",
        "..k0:6",
        "....B",
    ]
    check("two_sums", schedule)
    assert "write_buffers(_rf__B[" not in schedule.text() and "write_buffers(rf__B[" in schedule.text()
    text = cinn_text(schedule.func)
    assert cinn_text(from_cinn(text)) == text
    check("two_sums", from_cinn(text))


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_9_rfactor_of_a_matmul(axis: int) -> None:
    schedule = program("matmul").schedule()
    schedule.rfactor(schedule.get_loops("B")[2], axis)
    check("matmul", schedule)


def test_9_rfactor_of_a_part_that_does_not_divide() -> None:
    for place in (0, 1):
        schedule = program("two_sums").schedule()
        loops = schedule.split("B", 2, [-1, 4])
        schedule.rfactor(loops[place], 0)
        check("two_sums", schedule)


def test_a_deep_move_of_first_values_alone() -> None:
    schedule = program("matmul").schedule()
    with refuses("cinn.compute_at.loop_reduces"):
        schedule.compute_at("B__reduce_init", schedule.get_loops("B")[2])
    nest = schedule.get_loops("B")
    with refuses("cinn.compute_at.already_inside"):
        schedule.compute_at("B__reduce_init", nest[0])
    check("matmul", schedule)


def test_symbolic_sizes_and_tir_have_the_same_text() -> None:
    n = te.var("n")
    a = te.placeholder((n,), name="A")
    b = te.compute((n,), lambda i: tir.exp(a[i]), name="B")
    schedule = IRSchedule(cinn.lower([a, b]))
    assert "serial for (i, 0, n)" in schedule.text()
    with refuses("cinn.schedule.symbolic_extent"):
        schedule.split("B", 0, [-1, 4])


GUARDED = """{
  ScheduleBlock(root)
  {
    {
      serial for (i, 0, 8)
      {
        if ((i < 3)) {
          {
            ScheduleBlock(B)
            {
              i0 = axis.bind(i)
              read_buffers(_A[i0(0:8)])
              write_buffers(_B[i0(0:8)])
              B[i0] = (A[i0] + 1.00000000f)
            }
          }
        }
      }
      serial for (i, 0, 8)
      {
        ScheduleBlock(C)
        {
          i0 = axis.bind(i)
          read_buffers(_B[i0(0:8)])
          write_buffers(_C[i0(0:8)])
          C[i0] = (B[i0] * 2.00000000f)
        }
      }
    }
  }
}"""


@pytest.mark.parametrize(
    "step",
    [
        lambda s: s.compute_inline("B"),
        lambda s: s.compute_at("B", s.get_loops("C")[0]),
        lambda s: s.cache_write("B", 0, "local"),
        lambda s: s.copy_transform_and_loop_info("B", "C"),
    ],
)
def test_a_condition_of_ones_own_is_not_lost(step: Callable[[IRSchedule], object]) -> None:
    schedule = IRSchedule(GUARDED)
    with refuses(
        "cinn.compute_inline.refused",
        "cinn.copy_transform_and_loop_info.condition_lost",
        "cinn.schedule.block_may_be_skipped",
    ):
        step(schedule)
    assert str(schedule) == GUARDED


PART = """serial for (i, 0, 3) {{ serial for (j, 0, 4) {{ ScheduleBlock(B) {{
  i0, i1 = axis.bind(i, j) B[i0, i1] = A[{}, i1] }} }} }}"""


def test_8_the_range_of_a_copys_variable_is_the_part_if_that_is_constant() -> None:
    schedule = IRSchedule(from_cinn(PART.format("(i0 + 2)"), {"A": ((9, 4), "float32")}))
    schedule.cache_read("B", 0, "local")
    assert "read_buffers(_A[v0(2:5), v1(0:4)])" in str(schedule)
    schedule = IRSchedule(from_cinn(PART.format("(i0 + 2)"), {"A": ((9, 4), "float32")}))
    schedule.cache_read("B", 0, "local")
    schedule.compute_at("A_local_temp_buffer", schedule.get_loops("B")[0])
    a = np.arange(36, dtype="float32").reshape(9, 4)
    np.testing.assert_array_equal(run(schedule.func, [a], (3, 4))[0], a[2:5])


PLAIN = "serial for (i, 0, 4) {{ ScheduleBlock({0}) {{ i0 = axis.bind(i) {0}[i0] = ({1}[i0] + 1.0f) }} }}\n"


def test_one_element_serves_only_what_is_used_in_one_iteration() -> None:
    schedule = IRSchedule(from_cinn(PLAIN.format("B", "A") + PLAIN.format("C", "B"), outputs=["C"]))
    with pytest.raises(TVMagicError, match="`B`"):
        schedule.set_buffer("B", "local", True)


def test_loops_of_one_iteration_are_left_out_unless_they_are_kept() -> None:
    for keep, count in ((None, 1), (False, 1), (True, 2)):
        schedule = program("chain").schedule()
        loop = schedule.get_loops("C")[0]
        schedule.reverse_compute_at("D", loop, *([] if keep is None else [keep]))
        assert str(schedule).count("for (ax") == count, keep
        check("chain", schedule)


def test_what_an_argument_holds_is_not_written_into_its_producer() -> None:
    schedule = IRSchedule(from_cinn(PLAIN.format("B", "A") + PLAIN.format("C", "B"), outputs=["B", "C"]))
    with pytest.raises(TVMagicError, match="`B`"):
        schedule.reverse_compute_inline("C")
