"""Decisions of CINN's steps that few programs come to: nested blocks, blocks of one name, conditions with an else, threads."""

from __future__ import annotations

import re

import numpy as np
import pytest
from nests import block, guarded, left, nest, refused, results, schedule

from tvmagic.cinn import IRSchedule
from tvmagic.cinn.steps.coverage import is_update, loads_what_it_stored
from tvmagic.cinn.steps.tree import before_and_after, leaves
from tvmagic.cinn.text.reductions import join_inits
from tvmagic.errors import TVMagicError
from tvmagic.ir import Block, Evaluate
from tvmagic.ir.query import nodes_of
from tvmagic.script import cinn_text, from_cinn, from_source
from tvmagic.tir.blocks.error import ScheduleError

ROW = np.arange(24, dtype="float32").reshape(4, 6)
COPY = nest("i:4 j:6", block("Y", "i, j", "Y[i0, i1] = (A[i0, i1] + 1.0f)"))


# ---------------------------------------------------------------------------- names and nested blocks


def test_a_block_inside_another_one() -> None:
    inner = nest("j:6", block("B", "j", "T[i0] = (A[i0] + 1.0f)"))
    text = nest("i:4", f"ScheduleBlock(O)\n{{\no0 = axis.bind(i)\n{inner}\n}}")
    reader = nest("k:6", block("Z", "k", "Z[i0] = (T[i0] * 2.0f)"))
    made = schedule(text, reader)
    refused(made, lambda s: s.compute_inline("O"), "`O` holds other blocks (`leaf`")
    refused(
        made,
        lambda s: s.compute_at("B", s.get_loops("Z")[0]),
        "block `B` is inside another block; a step takes those below the root",
    )
    refused(made, lambda s: s.get_loops("B"), "block `B` is inside another block; a step takes those below the root")


def test_blocks_before_and_after_one() -> None:
    every = leaves(from_cinn("\n".join(block(name, "0", f"{name}[i0] = 1.0f") for name in "UVWX")).body.block.body)  # type: ignore[union-attr]
    for place, leaf in enumerate(every):
        before, after = before_and_after(every, leaf.block)
        assert [*before, leaf, *after] == every and len(before) == place


@pytest.mark.parametrize(
    ("blocks", "said"),
    [
        ("YAZ", "`A` stores `A` after `Y` loaded it"), ("YZA", "`A` stores `A` after `Y` loaded it"), ("AYZ", None), ("YBZ", None), ("YZB", None)
    ],
)  # fmt: skip
def test_what_is_loaded_must_stay_until_it_is_loaded_elsewhere(blocks: str, said: str | None) -> None:
    each = {
        "A": nest("i:4 j:6", block("A", "i, j", "A[i0, i1] = 3.0f")), "B": nest("i:4 j:6", block("B", "i, j", "B[i0, i1] = 3.0f")),
        "Y": COPY, "Z": nest("i:4 j:6", block("Z", "i, j", "Z[i0, i1] = (Y[i0, i1] * 2.0f)")),
    }  # fmt: skip
    made = schedule(*(each[name] for name in blocks))
    if said is not None:
        refused(made, lambda s: s.compute_inline("Y"), said)
        return
    made.compute_inline("Y")
    assert "ScheduleBlock(Y)" not in made.text()


def test_blocks_of_one_name() -> None:
    made = schedule(COPY, COPY.replace("Y[", "Z["))
    with pytest.raises(ScheduleError, match="2 blocks are called `Y`; a block's name is its own") as raised:
        made.get_loops("Y")
    assert raised.value.names == ["block `Y`"]  # the second of them
    refused(made, lambda s: s.get_loops("X"), "there is no block `X`")


def test_an_argument_that_is_not_used_has_one_element() -> None:
    func = from_cinn(f"function f (_A, _E, _Y)\n{COPY}")
    assert {b.name: ([int(str(n)) for n in b.shape], str(b.dtype)) for b in func.buffer_map.values()} == {
        "A": ([4, 6], "float32"), "E": ([1], "float32"), "Y": ([4, 6], "float32")
    }  # fmt: skip


def test_a_variable_that_is_bound_to_an_element() -> None:
    """Which values it has only a region says."""
    text = nest("k:6", block("Z", "I[k]", "Z[i0] = A[i0]"))
    known: dict[str, tuple[tuple[int, ...], str]] = {"I": ((8,), "int32")}
    with pytest.raises(TVMagicError, match="which values `i0` has cannot be told from what it is bound to") as raised:
        from_cinn(text, known)
    assert raised.value.span is not None
    assert text.split("\n")[raised.value.span.line - 1][raised.value.span.column - 1 :].startswith("I[k]")
    func = from_cinn(text.replace("Z[i0] =", "write_buffers(_Z[i0(0:5)])\nZ[i0] ="), known)
    assert {b.name: int(str(b.shape[0])) for b in func.buffer_map.values()} == {"A": 5, "I": 8, "Z": 5}


PREDICATES = """\
@T.prim_func
def main(A: T.Buffer((4, 6), 'float32'), Y: T.Buffer((4, 6), 'float32')):
    for i, j in T.grid(5, 7):
        with T.block('Y'):
            vi, vj = T.axis.remap('SS', [i, j])
            T.where({})
            Y[vi, vj] = A[vi, vj] + T.float32(1)
"""


@pytest.mark.parametrize(
    ("predicate", "order"),
    [
        ("i < 4 and j < 6", ["i", "(i < 4)", "j", "(j < 6)"]), ("j < 6 and i < 4", ["i", "j", "(j < 6)", "(i < 4)"]), ("i + j < 3", ["i", "j", "((i + j) < 3)"]),
        ("i < 4 and i < 3 and j < 6", ["i", "(i < 4)", "(i < 3)", "j", "(j < 6)"]),
    ],
)  # fmt: skip
def test_predicates_are_conditions_as_far_out_as_their_variables_allow(predicate: str, order: list[str]) -> None:
    text = cinn_text(from_source("from tvm.script import tir as T\n" + PREDICATES.format(predicate)), regions=False)
    found = re.findall(r"for \((\w+), |if \((\(.*\))\) \{", text)
    assert [loop or condition for loop, condition in found] == order
    from_cinn(text)


def test_first_values_are_under_the_parts_of_a_predicate_that_do_not_reduce() -> None:
    sums = PREDICATES.replace("'SS'", "'SR'").replace("Y: T.Buffer((4, 6)", "Y: T.Buffer((4,)")
    sums = sums.replace("            Y[vi, vj] = A[vi, vj] + T.float32(1)", "            with T.init():\n                Y[vi] = T.float32(0)\n            Y[vi] = Y[vi] + A[vi, vj]")  # fmt: skip
    func = from_source("from tvm.script import tir as T\n" + sums.format("i < 4 and j < 6 and i + j < 7"))
    text = cinn_text(func, regions=False)
    first, _, update = text.partition("ScheduleBlock(Y__reduce_init)")
    assert re.findall(r"if \((\(.*\))\) \{", first) == ["(i < 4)"]
    assert re.findall(r"if \((\(.*\))\) \{", update) == ["(i < 4)", "(j < 6)", "((i + j) < 7)"]
    triangle = np.where(np.add.outer(np.arange(4), np.arange(6)) < 7, ROW, 0).sum(1)
    np.testing.assert_array_equal(left(IRSchedule(func), A=ROW)["Y"], triangle)


# ---------------------------------------------------------------------------- loops


@pytest.mark.parametrize(("kind", "fits"), [("serial", True), ("parallel", False), ("unroll", True)])
def test_a_loop_that_runs_at_once_is_fused_with_free_ones(kind: str, fits: bool) -> None:
    """The sums along `j` go on in the fused loop, whose iterations then run at the same time, too."""
    made = schedule(nest(f"{kind}/i:4 j:6", block("S", "i, j", "S[i0] = (S[i0] + A[i0, i1])")), S=((4,), "float32"))
    if kind == "unroll" or fits:
        made.fuse("S", [0, 1])
        assert results(made, ROW, np.zeros(4, "float32"))[1].tolist() == ROW.sum(1).tolist()
    else:
        refused(made, lambda s: s.fuse("S", [0, 1]), "a loop that is fused with one whose iterations run at the same time runs its iterations at the same time")  # fmt: skip
    free = schedule(COPY.replace("serial for (i", f"{kind} for (i"))
    free.fuse("Y", [0, 1])
    assert f"{kind} for (i_j_fused, 0, 24)" in free.text()


def test_conditions_between_loops_that_change_their_places() -> None:
    inner = nest("j:6", block("Y", "i, j", "Y[i0, i1] = (A[i0, i1] + 1.0f)"))
    plain = schedule(nest("i:4", guarded("(i < 3)", inner)))
    plain.reorder("Y", [1, 0])
    assert [x.strip() for x in plain.text(regions=False).split("\n") if "for (" in x or "if (" in x] == [
        "serial for (j, 0, 6)", "serial for (i, 0, 4)", "if ((i < 3)) {"
    ]  # fmt: skip
    other = nest("j:6", block("Z", "i, j", "Z[i0, i1] = A[i0, i1]"))
    made = schedule(nest("i:4", guarded("(i < 3)", inner, other)))
    with pytest.raises(ScheduleError, match="a condition with an else is between the loops") as raised:
        made.reorder("Y", [1, 0])
    assert raised.value.names == ["loop `i`"]  # the outermost of them


@pytest.mark.parametrize("order", ["V", "W", "VWY", "YVW", "VYW", "Y"])
def test_statements_beside_loops_that_change_their_places(order: str) -> None:
    """What is before the inner loop stays before it, what is after it after; each gets a nest of the loops around it."""
    each = {name: block(name, "i", f"{name}[i0] = (A[i0, 0] + {n}.0f)") for n, name in enumerate("VW")}
    each["Y"] = nest("j:6", block("Y", "i, j", "Y[i0, i1] = (A[i0, i1] + 2.0f)"))
    order += "Y" * ("Y" not in order)
    made = schedule(nest("i:4", *[each[name] for name in order]))
    made.reorder("Y", [1, 0])
    text = made.text(regions=False)
    assert re.findall(r"ScheduleBlock\((\w)\)", text) == list(order)
    assert [made.loop_of(loop).loop_var.name for loop in made.get_loops("Y")] == ["j", "i"]
    found = left(made, A=ROW)
    for name in order:
        np.testing.assert_array_equal(found[name], ROW + 2 if name == "Y" else ROW[:, 0] + "VW".index(name))


# ---------------------------------------------------------------------------- copies


def test_a_reader_in_other_loops_reads_the_tensor_itself() -> None:
    made = schedule(
        nest("i:4", nest("j:6", block("B", "i, j", "B[i0, i1] = (A[i0, i1] + 1.0f)")), nest("k:6", block("Z", "i, k", "Z[i0, i1] = (B[i0, i1] * 2.0f)"))),
        nest("i:4 j:6", block("Y", "i, j", "Y[i0, i1] = (B[i0, i1] * 3.0f)")),
    )  # fmt: skip
    made.cache_read("Z", 0, "local")
    text = made.text(regions=False)
    assert (
        "Z[i0, i1] = (B_local_temp_buffer[i0, i1] * 2.00000000f)" in text
        and "Y[i0, i1] = (B[i0, i1] * 3.00000000f)" in text
    )
    given = [np.zeros_like(ROW) for _ in made.func.params[1:]]
    found = dict(zip([made.func.buffer_map[p].name for p in made.func.params], results(made, ROW, *given)))
    np.testing.assert_array_equal(found["Z"], (ROW + 1) * 2)
    np.testing.assert_array_equal(found["Y"], (ROW + 1) * 3)


def test_a_tensor_that_two_blocks_store_has_no_cache() -> None:
    other = nest("i:4 j:6", block("Z", "i, j", "Y[i0, i1] = (A[i0, i1] + 2.0f)"))
    refused(schedule(COPY, other), lambda s: s.cache_write("Y", 0, "local"), "`Y` is stored by `Z` too")
    refused(schedule(COPY, other), lambda s: s.cache_write("Z", 0, "local"), "`Y` is stored by `Y` too")


# ---------------------------------------------------------------------------- reductions

SUMS = (
    nest("i:4", block("S__reduce_init", "i", "S__reduce_init[i0] = 0.0f")),
    nest("i:4 k:6", block("S", "i, k", "S[i0] = (S[i0] + A[i0, i1])")),
)


READER = nest("i:4", block("Z", "i", "Z[i0] = (S[i0] * 2.0f)"))


def test_first_values_move_alone() -> None:
    made = schedule(*SUMS, READER)
    made.compute_at("S__reduce_init", made.get_loops("S")[0])
    assert made.text().count("for (i") == 2
    assert results(made, ROW, np.full(4, 7, "float32"))[1].tolist() == (2 * ROW.sum(1)).tolist()
    refused(schedule(*SUMS, READER), lambda s: s.compute_at("S__reduce_init", s.get_loops("S")[1]), "loop `k` reduces: `S__reduce_init` would store in each of its iterations")  # fmt: skip


def test_a_reduction_whose_nest_holds_another_block() -> None:
    first, update = (
        block("S__reduce_init", "i", "S__reduce_init[i0] = 0.0f"),
        SUMS[1].partition("{\n")[2].rpartition("\n}")[0],
    )
    beside = block("Z", "i", "Z[i0] = A[i0, 0]")
    refused(
        schedule(nest("i:4", first, update, beside)),
        lambda s: s.rfactor(s.get_loops("S")[1], 0),
        "`Z` is in the nest of the reduction too",
    )
    made = schedule(nest("i:4", first, update))
    made.rfactor(made.get_loops("S")[1], 0)
    assert results(made, ROW, np.full(4, 7, "float32"))[1].tolist() == ROW.sum(1).tolist()


@pytest.mark.parametrize("loop", [None, "i:1"])
def test_a_sum_of_all_whose_first_value_is_in_no_loop(loop: str | None) -> None:
    first = block("S__reduce_init", "0", "S__reduce_init[i0] = 0.0f")
    adding = nest("k:6", block("S", "0, k", "S[i0] = (S[i0] + A[i1])"))
    made = schedule(nest(loop, first) if loop else first, adding)
    made.rfactor(made.get_loops("S")[0], 0)
    assert "rf_S[i0, i1] = (rf_S[i0, i1] + A[i0])" in made.text()
    assert left(made, A=ROW[1])["S"].tolist() == [ROW[1].sum()]


# ---------------------------------------------------------------------------- moves


@pytest.mark.parametrize(
    ("place", "loop", "said"),
    [
        (0, 0, "`Z` loads the place 0, which one iteration need not store"), (0, 1, "`Z` loads the place 0, which one iteration need not store"),
        (5, 0, "`Z` loads the place 5, which one iteration need not store"),
    ],
)  # fmt: skip
def test_a_consumer_that_loads_one_place(place: int, loop: int, said: str) -> None:
    made = schedule(COPY, nest("j:6", block("Z", "j", f"Z[i0] = (Y[{place}, i0] * 2.0f)")))
    refused(made, lambda s: s.reverse_compute_at("Z", s.get_loops("Y")[loop]), said)


def test_a_consumer_that_loads_at_a_size() -> None:
    made = schedule(COPY, nest("j:6", block("Z", "j", "Z[i0] = (Y[n, i0] * 2.0f)")), Y=((4, 6), "float32"))
    refused(
        made,
        lambda s: s.reverse_compute_at("Z", s.get_loops("Y")[0]),
        "`Z` does not load at its plain variables what is stored under the loop",
    )


def test_a_consumer_of_the_only_row() -> None:
    row = nest("o:1 j:6", block("Y", "0, j", "Y[i0, i1] = (A[i0, i1] + 1.0f)"))
    made = schedule(row, nest("j:6", block("Z", "j", "Z[i0] = (Y[0, i0] * 2.0f)")))
    made.reverse_compute_at("Z", made.get_loops("Y")[1])
    assert [int(str(made.loop_of(loop).extent)) for loop in made.get_loops("Z")] == [1, 6]
    found = results(made, ROW[:1], np.zeros(6, "float32"))
    assert found[1].tolist() == ((ROW[0] + 1) * 2).tolist()


@pytest.mark.parametrize("first", ["own", "target"])
def test_an_outermost_loop_of_one_iteration_is_passed_over(first: str) -> None:
    one, two = ("o:1 ", "") if first == "own" else ("", "o:1 ")
    made = schedule(
        nest(f"{one}i:4 j:6", block("Y", "i, j", "Y[i0, i1] = (A[i0, i1] + 1.0f)")),
        nest(f"{two}i:4 j:6", block("Z", "i, j", "Z[i0, i1] = (Y[i0, i1] * 2.0f)")),
    )
    made.simple_compute_at("Y", made.get_loops("Z")[1 + (first == "target")])
    assert [made.loop_of(loop).loop_var.name for loop in made.get_loops("Y")] == ([] if first == "own" else ["o"]) + [
        "i",
        "j",
    ]
    refused(made, lambda s: s.simple_compute_at("Z", s.get_loops("Z")[0]), "is around block `Z` already")
    np.testing.assert_array_equal(results(made, ROW, ROW * 0)[1], (ROW + 1) * 2)


def test_the_loops_of_the_target_are_bound_as_those_of_the_block() -> None:
    made = schedule(
        nest(
            "thread_bind[blockIdx.x]/i:4 thread_bind[threadIdx.x]/j:6",
            block("Y", "i, j", "Y[i0, i1] = (A[i0, i1] + 1.0f)"),
        ),
        nest("i:4 j:6", block("Z", "i, j", "Z[i0, i1] = (Y[i0, i1] * 2.0f)")),
    )
    made.simple_compute_at("Y", made.get_loops("Z")[1])
    found = re.findall(r"(\S+) for \((\w), ", made.text())
    assert found == [("thread_bind[blockIdx.x]", "i"), ("thread_bind[threadIdx.x]", "j")]


def test_a_block_that_runs_only_if_a_condition_does_not_hold() -> None:
    inner, other = block("Y", "i, j", "Y[i0, i1] = (A[i0, i1] + 1.0f)"), block("X", "i, j", "X[i0, i1] = A[i0, i1]")
    reader = nest("i:4 j:6", block("Z", "i, j", "Z[i0, i1] = (Y[i0, i1] * 2.0f)"))
    for then, otherwise in ((other, inner), (inner, other)):
        made = schedule(nest("i:4 j:6", guarded("(i < 4)", then, otherwise)), reader)
        refused(
            made,
            lambda s: s.cache_write("Y", 0, "local"),
            "it is not known that `Y` runs for all values of its variables",
        )
        refused(
            made,
            lambda s: s.compute_inline("Y"),
            "`Y` is under a condition, and it is not known that it runs for all values",
        )
        refused(made, lambda s: s.compute_at("Y", s.get_loops("Z")[0]), "block `Y` is in a condition with an else")


# ---------------------------------------------------------------------------- what one iteration stores and loads


def stored(*parts: str, loops: str = "i:4") -> bool:
    """Whether each iteration of the outermost loop is known to load of `T` only what it stored."""
    func = from_cinn(nest(loops, *parts), {"T": ((8,), "float32"), "I": ((8,), "int32")})
    body = func.body.block.body  # type: ignore[union-attr]
    loop = leaves(body)[0].loops[0]
    return loads_what_it_stored(
        loop, next(b for b in func.body.block.alloc_buffers + tuple(func.buffer_map.values()) if b.name == "T")
    )  # type: ignore[union-attr]


def stores(extent: int, value: str = "A[i0]", at: str = "i0", bound: str = "j") -> str:
    return nest(f"j:{extent}", block("T", bound, f"T[{at}] = {value}"))


def loads(extent: int, at: str = "i0", bound: str = "k") -> str:
    return nest(f"k:{extent}", block("Z", bound, f"Z[i0] = T[{at}]"))


@pytest.mark.parametrize(
    ("parts", "known"),
    [
        ((stores(6), loads(6)), True), ((stores(6), loads(7)), False), ((stores(7), loads(6)), True), ((loads(6), stores(6)), False), ((stores(6), loads(6, "(i0 + 1)")), False),
        ((stores(6), loads(5, "(i0 + 1)")), True), ((stores(6, at="(i0 + 1)"), loads(6)), False), ((stores(6, at="(i0 + 1)"), loads(6, bound="(k + 1)")), True),
        ((stores(6), loads(6, "I[i0]")), False), ((stores(8), loads(8, bound="i")), True), ((stores(4, bound="i"), loads(1, bound="i")), True), ((stores(4, bound="i"), loads(4)), False),
        ((nest("j:6", guarded("(j < 5)", block("T", "j", "T[i0] = A[i0]"))), loads(6)), False), ((nest("j:6", guarded("(j < 5)", block("T", "j", "T[i0] = A[i0]"))), loads(5)), True),
        ((nest("j:6", guarded("(j < 5)", block("T", "j", "T[i0] = A[i0]"), block("X", "j", "X[i0] = A[i0]"))), loads(5)), False),
        ((stores(6), nest("k:6", guarded("(T[k] < 1.0f)", block("Z", "k", "Z[i0] = A[i0]")))), False),
        ((stores(4, at="(2 * i0)"), loads(4)), False), ((stores(3, at="(i0 * i0)"), loads(4)), False),
        ((nest("j:6", guarded("(i < 3)", block("T", "j", "T[i0] = A[i0]"))), loads(6)), False),
        ((nest("j:6", guarded("(i < 3)", block("T", "j", "T[i0] = A[i0]"))), nest("k:6", guarded("(i < 3)", block("Z", "k", "Z[i0] = T[i0]")))), True),
    ],
)  # fmt: skip
def test_what_an_iteration_loads_of_what_it_stored(parts: tuple[str, ...], known: bool) -> None:
    assert stored(*parts) is known
    assert stored(*parts, loops="o:2 h:2 i:4") is known


@pytest.mark.parametrize(
    ("first", "update", "joined"),
    [
        ("", "", True), ("T.where(i < 4)", "", False), ("", "T.where(k < 6)", False), ("T.where(i < 4)", "T.where(k < 6)", False),
        ("T.init", "", False),
    ],
)  # fmt: skip
def test_first_values_become_an_init_if_nothing_decides_whether_they_are_stored(
    first: str, update: str, joined: bool
) -> None:
    lines = [
        "from tvm.script import tir as T", "@T.prim_func", "def main(A: T.Buffer((4, 6), 'float32'), S: T.Buffer((4,), 'float32')):", "    for i in range(4):",
        "        with T.block('S__reduce_init'):", "            v = T.axis.spatial(4, i)", *([f"            {first}"] if "where" in first else []),
        *(["            with T.init():", "                S[v] = T.float32(1)"] if "init" in first else []), "            S[v] = T.float32(0)",
        "        for k in range(6):", "            with T.block('S'):", "                v, r = T.axis.remap('SR', [i, k])", *([f"                {update}"] if update else []),
        "                S[v] = S[v] + A[v, r]",
    ]  # fmt: skip
    body = from_source("\n".join(lines)).body
    found = [b.name_hint for b in nodes_of(join_inits(body), Block)]
    assert found == (["S", "root"] if joined else ["S__reduce_init", "S", "root"])


def test_only_stores_add_up() -> None:
    (leaf,) = leaves(from_cinn(SUMS[1], {"S": ((4,), "float32")}).body.block.body)  # type: ignore[union-attr]
    assert is_update(leaf.stores[0]) and not is_update(Evaluate(0)) and not is_update(leaf.loops[0])


# ---------------------------------------------------------------------------- what would change the results


def test_loops_in_each_other_are_not_bound_to_one_thread_axis() -> None:
    said = "loops around `Y`, one in the other, would both be bound to `threadIdx.x`"
    made = schedule(COPY, nest("i:4 j:6", block("Z", "i, j", "Z[i0, i1] = (Y[i0, i1] * 2.0f)")))
    made.bind(made.get_loops("Y")[0], "threadIdx.x")
    made.bind(made.get_loops("Z")[1], "threadIdx.x")
    refused(made, lambda s: s.split("Y", 0, [2, 2]), said)
    refused(made, lambda s: s.bind(s.get_loops("Y")[1], "threadIdx.x"), said)
    refused(made, lambda s: s.simple_compute_at("Z", s.get_loops("Y")[0]), said.replace("`Y`", "`Z`"))
    made.split("Y", 0, [4])
    made.split("Y", 1, [2, 3])
    made.bind(made.get_loops("Y")[1], "threadIdx.y")
    found = re.findall(r"(\S+) for \((\w+), 0, (\d)", made.text())
    assert found == [
        ("thread_bind[threadIdx.x]", "i", "4"), ("thread_bind[threadIdx.y]", "j", "2"), ("serial", "j_0", "3"),
        ("serial", "i", "4"), ("thread_bind[threadIdx.x]", "j", "6"),
    ]  # fmt: skip
    np.testing.assert_array_equal(results(made, ROW, ROW * 0)[1], (ROW + 1) * 2)


def test_loops_that_a_text_binds_to_one_thread_axis_are_left_as_they_are() -> None:
    made = schedule(
        nest(
            "thread_bind[threadIdx.x]/i:4 thread_bind[threadIdx.x]/j:6 k:4",
            block("Y", "i, j, k", "Y[i0, i1, i2] = 1.0f"),
        )
    )
    made.split("Y", 2, [2, 2])
    made.unroll(made.get_loops("Y")[3])
    assert "unroll for (k_0, 0, 2)" in made.text()


@pytest.mark.parametrize(
    ("first", "added", "fits"),
    [
        ("0.0f", "(S[i0] + A[i0, i1])", True), ("1.0f", "(S[i0] + A[i0, i1])", False), ("1.0f", "(A[i0, i1] * S[i0])", True), ("0.0f", "(S[i0] * A[i0, i1])", False),
        ("3.0f", "cinn_max(S[i0], A[i0, i1])", True), ("3.0f", "cinn_min(A[i0, i1], S[i0])", True), ("B[i0]", "(S[i0] + A[i0, i1])", False), ("B[i0]", "cinn_max(S[i0], A[i0, i1])", False),
    ],
)  # fmt: skip
def test_parts_of_a_reduction_begin_with_what_changes_nothing(first: str, added: str, fits: bool) -> None:
    parts = [text.replace("= 0.0f", f"= {first}").replace("(S[i0] + A[i0, i1])", added) for text in SUMS]
    made = schedule(*parts)
    start = [np.arange(n * 6, dtype="float32").reshape(4, 6) % 5 for n in (4,)]
    arrays = [start[0]] + [np.full(4, 2, "float32") for _ in made.func.params[1:]]
    order = [made.func.buffer_map[p].name for p in made.func.params]
    given = [arrays[0] if name == "A" else arrays[1] for name in order]
    before = results(made, *given)
    if not fits:
        refused(made, lambda s: s.rfactor(s.get_loops("S")[1], 0), "each part would begin with it")
        return
    made.rfactor(made.get_loops("S")[1], 1)
    for got, want in zip(results(made, *given), before, strict=True):
        np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize(
    ("lines", "always"),
    [
        ("Y[i0, i1] = A[i0, i1]", True), (guarded("(i1 < 3)", "Y[i0, i1] = A[i0, i1]"), False), (guarded("(i1 < 3)", "Y[i0, i1] = A[i0, i1]", "Y[i0, i1] = 2.0f"), True),
        (guarded("(i1 < 3)", "Y[i0, i1] = A[i0, i1]", guarded("(i0 < 2)", "Y[i0, i1] = 2.0f")), False), ("Y[i0, i1] = 1.0f\n" + guarded("(i1 < 3)", "Y[i0, i1] = A[i0, i1]"), True),
        (guarded("(i1 < 3)", "Y[i0, i1] = A[i0, i1]") + "\nY[i0, i1] = 1.0f", True), (guarded("(i1 < 3)", "__syncthreads()") + "\nfloat32 v = A[i0, i1]\nY[i0, i1] = v", True),
        (guarded("(i1 < 3)", "Y[i0, i1] = A[i0, i1]", "Y[i0, 0] = 2.0f"), False), ("while ((i0 < 0)) {\nY[i0, i1] = A[i0, i1]\n}", False),
        (guarded("(i1 < 3)", "__syncthreads()", "Y[i0, i1] = 2.0f"), False),
    ],
)  # fmt: skip
def test_what_is_written_through_a_cache_is_always_written(lines: str, always: bool) -> None:
    """The copy copies every element; one that the block leaves as it is would be lost."""
    made = schedule(nest("i:4 j:6", block("Y", "i, j", lines)), A=((4, 6), "float32"), Y=((4, 6), "float32"))
    if not always:
        refused(
            made, lambda s: s.cache_write("Y", 0, "local"), "`Y` does not store to `Y` in all cases; the copy would"
        )
        return
    before = results(made, ROW, ROW * 7)
    made.cache_write("Y", 0, "local")
    np.testing.assert_array_equal(results(made, ROW, ROW * 7)[1], before[1])


@pytest.mark.parametrize(
    "added", ["(S[i0] + A[i0, i1])", "(A[i0, i1] + S[i0])", "(B[i0, i1] * S[i0])", "cinn_max(A[i0, i1], S[i0])"]
)
def test_what_is_added_stays_on_its_side(added: str) -> None:
    first = SUMS[0].replace("0.0f", "1.0f") if "*" in added else SUMS[0]
    made = schedule(first, SUMS[1].replace("(S[i0] + A[i0, i1])", added))
    made.rfactor(made.get_loops("S")[1], 0)
    updates = re.findall(r"^ *(\w+)\[[^=]*\] = (?:cinn_max)?\((\w+)\[", made.text(regions=False), re.MULTILINE)
    assert [target for target, _ in updates] == ["rf_S", "S"]
    assert all((target == left_one) is (added.index("S[") < added.index("i1")) for target, left_one in updates)


@pytest.mark.parametrize(
    ("update", "kind"),
    [("(S[i0] and A[i0, i1])", "bool"), ("(S[i0] or A[i0, i1])", "bool"), ("(S[i0] + (S[i0] * A[i0, i1]))", "float32"), ("(S[i0] - A[i0, i1])", "float32"), ("(A[i0, i1] + 1.0f)", "float32")],
)  # fmt: skip
def test_what_is_not_added_up_is_not_taken_apart(update: str, kind: str) -> None:
    known = {"A": ((4, 6), kind), "S": ((4,), kind)}
    first = SUMS[0].replace("0.0f", "false") if kind == "bool" else SUMS[0]
    made = schedule(first, SUMS[1].replace("(S[i0] + A[i0, i1])", update), **known)
    said = (
        "is not a loop over which" if update.startswith("(A") else "`S` is not a sum, product, least or greatest value"
    )
    refused(made, lambda s: s.rfactor(s.get_loops("S")[1], 0), said)


def test_a_reduction_with_statements_beside_its_store_is_not_taken_apart() -> None:
    guard = SUMS[1].replace("S[i0] = (S[i0] + A[i0, i1])", guarded("(i1 < 3)", "S[i0] = (S[i0] + A[i0, i1])"))
    refused(schedule(SUMS[0], guard), lambda s: s.rfactor(s.get_loops("S")[1], 0), "`S` is more than one store")
    first = SUMS[0].replace("= 0.0f", "= 0.0f\n__syncthreads()")
    refused(
        schedule(first, SUMS[1]), lambda s: s.rfactor(s.get_loops("S")[1], 0), "`S__reduce_init` is more than one store"
    )


@pytest.mark.parametrize(
    ("bound", "beside", "fits"),
    [
        ("((m * i) + j)", "", True), ("((m * i) + j)", "V[i0] = A[i0]", True), ("((m * i) + j)", "V[i0] = T[i0]", True), ("((m * i) + j)", "V[i0] = T[(i0 + 1)]", False),
        ("((m * i) + j)", "T[0] = 1.0f", False), ("((m * j) + i)", "", False), ("((n * j) + i)", "", True), ("(i + j)", "", False),
    ],
)  # fmt: skip
def test_a_block_that_alone_uses_a_tensor_has_elements_of_its_own(bound: str, beside: str, fits: bool) -> None:
    """If it is bound to each value once, which is known of open sizes, too."""
    lines = ["T[i0] = exp(T[i0])", *([beside] if beside else [])]
    made = schedule(nest("i:n j:m", block("T", bound, *lines)))
    if fits:
        made.parallel(made.get_loops("T")[0])
        assert "parallel for (i" in made.text()
    else:
        said = "a loop that is parallel runs its iterations at the same time, and those of `i` touch the same element of `T`"
        refused(made, lambda s: s.parallel(s.get_loops("T")[0]), said)


@pytest.mark.parametrize(("line", "fits"), [("V[i0] = T[i0]", False), ("V[i0] = A[i0]", True)])
def test_what_two_blocks_use_may_not_be_their_own(line: str, fits: bool) -> None:
    both = [block("T", "((m * i) + j)", "T[i0] = exp(T[i0])"), block("W", "((m * i) + j)", line)]
    made = schedule(nest("i:n j:m", *both))
    if fits:
        made.parallel(made.get_loops("T")[0])
    else:
        refused(made, lambda s: s.parallel(s.get_loops("T")[0]), "touch the same element of `T`")


@pytest.mark.parametrize("condition", ["(p < 3)", "(((m * i) + j) < p)", "(i < n)"])
def test_a_block_that_runs_where_a_condition_holds_has_elements_of_its_own(condition: str) -> None:
    """In one of two branches that is not known: the condition may be what does not hold."""
    inner = block("T", "((m * i) + j)", "T[i0] = exp(T[i0])")
    made = schedule(nest("i:n j:m", guarded(condition, inner)))
    made.parallel(made.get_loops("T")[0])
    made = schedule(nest("i:n j:m", guarded(condition, block("X", "i", "X[i0] = 1.0f"), inner)))
    refused(made, lambda s: s.parallel(s.get_loops("T")[0]), "touch the same element of `T`")
