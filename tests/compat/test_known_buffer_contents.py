"""What buffers are known to hold: conditions and values in Simplify, stores in RemoveNoOp."""

import random
import textwrap

import pytest
from contents_programs import SIZE, Generator, Machine

import tvmagic as tvm
from tvmagic import ir, tir
from tvmagic.arith import presburger
from tvmagic.errors import TVMagicError

HEAD = "A: T.Buffer(16, 'int32'), B: T.Buffer(16, 'int32'), n: T.int32, m: T.int32"
GRID = "A: T.Buffer((8, 8), 'int32'), B: T.Buffer((8, 8), 'int32'), n: T.int32"
CONDITIONS = {"propagate_knowns_to_prove_conditional": True}
VALUES = {"propagate_knowns_to_simplify_expressions": True}


def function(body, head=HEAD):
    return tvm.script.from_source(f"@T.prim_func\ndef main({head}):\n{textwrap.indent(textwrap.dedent(body), '    ')}")


def check(name, before, expected, options, head=HEAD):
    passes = {"tir.Simplify": tir.transform.Simplify, "tir.RemoveNoOp": tir.transform.RemoveNoOp}
    with tvm.transform.PassContext(config={name: options}):
        found = passes[name]()(tvm.IRModule({"main": function(before, head)}))["main"]
    ir.assert_structural_equal(found, function(before if expected is None else expected, head))


def simplified(before, expected=None, head=HEAD, **options):
    check("tir.Simplify", before, expected, {**CONDITIONS, **options}, head)


def removed(before, expected=None, head=HEAD):
    check("tir.RemoveNoOp", before, expected, {"use_dataflow_analysis": True}, head)


def simplify(body):
    with tvm.transform.PassContext(config={"tir.Simplify": CONDITIONS}):
        return tir.transform.Simplify()(tvm.IRModule({"main": function(body)}))["main"]


def decided(first, condition, then="B[i] = 1", loop="for i in range(16):", **options):
    """`condition` in a loop behind `first` always holds."""
    simplified(f"{first}\n{loop}\n  if {condition}:\n    {then}", f"{first}\n{loop}\n  {then}", **options)


def undecided(first, condition, then="B[i] = 1", loop="for i in range(16):"):
    simplified(f"{first}\n{loop}\n  if {condition}:\n    {then}")


# ---------------------------------------------------------------------------- options


def test_options_that_are_off_change_nothing():
    before = "A[0] = 7\nif A[0] == 7:\n  B[0] = A[0] + 1"
    check("tir.Simplify", before, None, dict.fromkeys((*CONDITIONS, *VALUES), False))
    check("tir.RemoveNoOp", "A[0] = 1\nA[0] = 2", None, {"use_dataflow_analysis": False, "max_simplification_steps": 0})


def test_knowledge_of_conditions_leaves_values():
    before = "A[0] = 7\nB[0] = A[0] + 1"
    simplified(before)
    simplified(before, "A[0] = 7\nB[0] = 8", **VALUES)


def test_a_value_is_known_in_the_store_behind_it():
    simplified("A[0] = 5\nA[0] = A[0] + 7", "A[0] = 5\nA[0] = 12", **VALUES)


def test_conditions_of_if_then_else_are_decided():
    loop = "for i in range(16): A[i] = 0\nfor i in range(16): "
    for condition, value in (("A[i] == 0", 1), ("A[i] != 0", 2), ("A[i] + i >= 0", 1), ("A[i] > i", 2)):
        simplified(loop + f"B[i] = T.if_then_else({condition}, 1, 2)", loop + f"B[i] = {value}")
    simplified(loop + "B[i] = T.if_then_else(A[i] == n, 1, 2)", loop + "B[i] = T.if_then_else(A[i] == n, 1, 2)")


def test_there_is_a_bound_on_what_is_tried():
    options = {"use_dataflow_analysis": True, "max_simplification_steps": 1}
    with pytest.raises(TVMagicError, match="RewriteSimplifier exceeded maximum number of rewrites allowed"):
        check("tir.RemoveNoOp", "for i in range(3, 9): A[i] = 5\nfor i in range(12): A[i] = 6", None, options)


LOOPS = "for i in range(16):\n  A[i] = 1\nfor i in range(8):\n  A[i] = 2\n"
DIFFER = LOOPS + "for i in range(16):\n  if A[i] == 2:\n    B[i] = 1"


def test_what_is_too_much_work_is_not_known(monkeypatch):
    def too_much(logic):
        raise presburger.TooMuchWork

    monkeypatch.setattr(presburger.IntegerLogic, "restart", too_much)
    removed(LOOPS)
    simplified(DIFFER)
    simplified("A[0] = 7\nif A[0] == 7: B[0] = A[0] + 1", **VALUES)


# ---------------------------------------------------------------------------- stores and assumptions


def test_what_a_loop_stored_is_known_behind_it():
    decided("for i in range(16): A[i] = i * 3", "A[i] == i * 3")
    decided("for i in range(16): A[15 - i] = i", "A[i] == 15 - i")
    decided("for i, j in T.grid(4, 4): A[i * 4 + j] = i * 4 + j", "A[i] == i")
    decided("for i in range(16): A[i] = i", "A[i * 4 + j] == i * 4 + j", "B[j] = 1", "for i, j in T.grid(4, 4):")
    decided("for i in range(n): A[i] = 0", "A[i] == 0", loop="for i in range(n):")
    decided("for i in T.parallel(16): A[i] = 3", "A[i] == 3")


def test_a_value_that_the_axes_do_not_tell_is_known_for_the_last_iteration():
    simplified("for i in range(16): A[0] = i\nif A[0] == 15: B[0] = 1", "for i in range(16): A[0] = i\nB[0] = 1")


def test_values_of_two_dimensions():
    stores = "for i, j in T.grid(8, 8): A[i, j] = i\nfor i, j in T.grid(8, 8): B[i, j] = A[j, i]"
    decided(stores, "B[i, j] == j", "A[i, j] = 1", "for i, j in T.grid(8, 8):", head=GRID)


def test_loops_whose_extent_depends_on_another_loop():
    stores = "for i in range(8):\n  for j in range(i): A[i, j] = 0"
    below, square = "for i in range(8):\n  for j in range(i):", "for i, j in T.grid(8, 8):"
    store = "B[i, j] = 1"
    simplified(f"{stores}\n{below}\n    if A[i, j] == 0: {store}", f"{stores}\n{below}\n    {store}", GRID)
    simplified(f"{stores}\n{square}\n  if A[i, j] == 0: {store}", None, GRID)


def test_assumptions_tell_what_inputs_hold():
    decided("for i in range(16): T.evaluate(T.assume(A[i] == i))", "A[i] < 100", "A[i] = 0")
    simplified("T.evaluate(T.assume(n == 0))\nif n == 0: A[0] = 4", "T.evaluate(T.assume(n == 0))\nA[0] = 4")


def test_an_assumption_holds_where_it_is_made():
    simplified("if m == 0: T.evaluate(T.assume(n == 0))\nif n == 0: A[0] = 4")
    decided(
        "for i in range(16):\n  if 4 <= i and i < 8: T.evaluate(T.assume(A[i] == 0))",
        "A[i + 4] == 0",
        loop="for i in range(4):",
    )


def test_assumptions_have_one_form():
    for text, message in (
        ("A[0] < 3", "T.assume buffer constraint must be of the form 'buffer\\[indices\\] == value'"),
        ("A[0] == 1 or A[1] == 1", "T.assume must contain only a single buffer expression"),
    ):
        with pytest.raises(TVMagicError, match=message):
            simplified(f"T.evaluate(T.assume({text}))\nif A[0] == 1: B[0] = 1")


PARTLY = "for i in range(16): T.evaluate(T.assume(i < 14 or A[i] == 0))"


def test_partial_knowledge_decides_conditions_of_its_part():
    loop = "for i in range(16):\n  if {}:\n    "
    body = "if A[i] == 0: A[i] = 5\n    else: A[i] = 6"
    simplified(f"{PARTLY}\n{loop.format('14 <= i')}{body}", f"{PARTLY}\n{loop.format('14 <= i')}A[i] = 5")
    simplified(f"{PARTLY}\n{loop.format('i < 14')}{body}")


def test_partial_knowledge_beside_its_condition():
    loop = "for i in range(16):\n  if {}: A[i] = 42"
    before = f"{PARTLY}\n{loop.format('14 <= i and A[i] == 0')}"
    simplified(before, f"{PARTLY}\n{loop.format('14 <= i')}", **VALUES)


# ---------------------------------------------------------------------------- what is forgotten


def test_what_is_overwritten_is_forgotten_there_alone():
    first = "for i in range(4): A[i] = 0\nA[2] = B[0]\nif A[2] == 0: B[0] = 1\n"
    simplified(first + "if A[1] == 0: B[1] = 1", first + "B[1] = 1")


def test_a_value_is_known_before_it_is_overwritten():
    first = "for i in range(16): T.evaluate(T.assume(A[i] == 0))\nfor i in range(16):\n"
    last = "  if i == 0: A[i] = 42"
    simplified(f"{first}  if A[i] == 0: A[i] = 17\n{last}", f"{first}  A[i] = 17\n{last}")
    simplified(f"{first}{last}\n  if A[i] == 0: A[i] = 17")


def test_what_an_earlier_round_stored_is_known_in_the_next_one():
    rounds = "for r, i in T.grid(4, 16):\n  {}\n  A[i] = 3"
    simplified(rounds.format("if 0 < r:\n    if A[i] == 3: B[i] = 1"), rounds.format("if 0 < r:\n    B[i] = 1"))
    simplified(rounds.format("if 2 <= r:\n    if A[i] == 3: B[i] = 1"), rounds.format("if 2 <= r:\n    B[i] = 1"))
    simplified(rounds.format("if A[i] == 3: B[i] = 1"))
    simplified(rounds.format("if r < 3:\n    if A[i] == 3: B[i] = 1"))
    rows = "for i, j in T.grid(8, 8):\n  {}\n  A[i, j] = 3"
    simplified(
        rows.format("if 0 < j:\n    if A[i, j - 1] == 3: B[i, j] = 1"), rows.format("if 0 < j:\n    B[i, j] = 1"), GRID
    )
    simplified(
        rows.format("if 0 < i:\n    if A[i - 1, j] == 3: B[i, j] = 1"), rows.format("if 0 < i:\n    B[i, j] = 1"), GRID
    )
    simplified(rows.format("if j < 7:\n    if A[i, j + 1] == 3: B[i, j] = 1"), None, GRID)


def test_what_a_later_round_stores_is_not_needed_before():
    loop = "  for i in range(16):\n    if {}: A[i] = {}\n"

    def check_rounds(four, three, *, left):
        fours, threes = loop.format(four, 4), loop.format(three, 3)
        removed(f"for r in range(4):\n{fours}{threes}", f"for r in range(4):\n{fours if left == 4 else threes}")

    check_rounds("1 <= r", "r < 3", left=4)
    check_rounds("2 <= r", "r < 3", left=4)
    check_rounds("3 <= r", "r < 3", left=4)
    check_rounds("1 <= r", "r < 4", left=3)
    check_rounds("3 <= r", "1 <= r", left=3)
    rows = "for i, j in T.grid(8, 8):\n  {}if 0 < {}: {} = 4"
    for var, behind, before in (("j", "A[i, j - 1]", "A[i, j + 1]"), ("i", "A[i - 1, j]", "A[i + 1, j]")):
        again, ahead = rows.format("{}", var, behind), f"for i, j in T.grid(8, 8):\n  {{}}if {var} < 7: {before} = 4"
        removed(again.format(f"if {var} < 7: A[i, j] = 3\n  "), again.format(""), GRID)
        removed(ahead.format("A[i, j] = 3\n  "), "for i, j in T.grid(8, 8):\n  A[i, j] = 3", GRID)


def test_memory_that_others_reach_is_not_known():
    simplified("A[0] = 3\nT.evaluate(T.call_extern('int32', 'f', A.data))\nif A[0] == 3: B[1] = 1")
    simplified("A[0] = 3\nT.evaluate(T.address_of(A[1]))\nif A[0] == 3: B[1] = 1")
    simplified("C = T.Buffer((4, 4), 'int32', data=A.data)\nA[0] = 3\nC[0, 0] = 4\nif A[0] == 3: B[1] = 1")


def test_floats_are_equal_bit_for_bit():
    head = "A: T.Buffer(16, 'float32'), B: T.Buffer(16, 'float32')"
    zero = "A[0] = T.float32(0)"
    removed(f"{zero}\nB[0] = A[0]\nA[0] = T.float32(-0.0)", None, head)
    removed(f"{zero}\nB[0] = A[0]\n{zero}", f"{zero}\nB[0] = A[0]", head)


def test_values_that_are_rounded_are_not_what_was_stored():
    head = "A: T.Buffer(16, '{0}'), B: T.Buffer(16, '{0}'), n: T.int32"
    text = "A[0] = {}\nB[0] = {}"
    for dtype, exact in (("float32", True), ("float16", False), ("float64", True)):
        cast, constant = f"T.Cast('{dtype}', n)", f"T.{dtype}(3)"
        simplified(
            text.format(cast, "A[0]"), text.format(cast, cast if exact else "A[0]"), head.format(dtype), **VALUES
        )
        simplified(text.format(constant, "A[0]"), text.format(constant, constant), head.format(dtype), **VALUES)


@pytest.mark.parametrize(
    "before",
    [
        "for i in T.thread_binding(16, thread='threadIdx.x'):\n  {}",
        "with T.launch_thread('threadIdx.x', 16) as i:\n  {}",
        "with T.launch_thread('vthread', 16) as i:\n  {}",
        "T.attr(A.data, 'volatile_scope', 1)\nfor i in range(16):\n  {}",
    ],
)
def test_what_threads_store_is_not_known(before):
    after = "\nfor k in range(16):\n  if A[k] == 3: B[k] = 1"
    simplified(before.format("A[i] = 3") + after)
    simplified(
        "for i in range(16):\n  A[i] = 3" + after, "for i in range(16):\n  A[i] = 3\nfor k in range(16):\n  B[k] = 1"
    )


def test_a_variable_of_two_loops_is_not_followed():
    func = function("for i in range(16): A[i] = 3\nfor i in range(16):\n  if A[i] == 3: B[i] = 1")
    first, second = func.body.seq
    shared = second.replace(loop_var=first.loop_var, body=ir.substitute(second.body, {second.loop_var: first.loop_var}))
    for one, known in ((second, True), (shared, False)):
        mod = tvm.IRModule({"main": func.with_body(tir.SeqStmt([first, one]))})
        with tvm.transform.PassContext(config={"tir.Simplify": CONDITIONS}):
            found = tir.transform.Simplify()(mod)["main"]
        assert ("if A[" in found.script()) is not known


def test_conditions_that_follow_from_several():
    head = "A: T.Buffer(16, 'int32'), B: T.Buffer(16, 'int32'), n: T.int32, m: T.int32, k: T.int32"
    both = "if n < m:\n  if m < k:\n    "
    simplified(both + "if n < k: B[0] = 1", both + "B[0] = 1", head)
    simplified(both + "if k < n: B[0] = 1\n    else: B[0] = 2", both + "B[0] = 2", head)
    simplified(both + "if n + 2 < k: B[0] = 1", None, head)
    simplified(both + "if n + 1 < k: B[0] = 1", both + "B[0] = 1", head)


# ---------------------------------------------------------------------------- other indices


def test_gather_and_scatter():
    undecided("for i in range(16): A[i] = 3", "A[B[i]] == 3")
    scatter = "for i in range(8): B[i] = i * 2\nfor i in range(8): A[B[i]] = 5"
    decided(scatter, "A[i * 2] == 5", loop="for i in range(8):")
    undecided(scatter, "A[i] == 5", loop="for i in range(8):")
    decided("for i in range(8): A[i * 2] = 5", "A[i * 2] == 5", loop="for i in range(8):")


@pytest.mark.parametrize(
    ("index", "count", "known"),
    [
        ("k // 4", 4, True),
        ("k // 4", 5, False),
        ("(k + 1) // 4", 3, True),
        ("(k + 1) // 4", 4, False),
        ("(k - 1) // 4 + 1", 5, False),
        ("(k - 4) // 4 + 1", 4, True),
    ],
)
def test_a_quotient_of_one_value_tells_no_elements_apart(index, count, known):
    first = f"for j, i, k in T.grid(3, 4, {count}): A[j * 4 + i + {index}] = i\n"
    loop = "for i in range(12):\n  {}B[i] = 1"
    found, expected = (simplify(first + loop.format(text)) for text in ("if A[i] == i % 4: ", ""))
    assert ir.structural_equal(found, expected) is known


@pytest.mark.parametrize("where", ["pass", "T.where(i < 16)", "T.where(i < 9)", "T.where(i < n)"])
@pytest.mark.parametrize(
    "store", ["A[v] = 3", "with T.init(): A[v] = 2\n    A[v] = 3", "with T.init(): A[v] = 3\n    B[v] = 0"]
)
@pytest.mark.parametrize("before", [0, 3])
def test_blocks_store_where_they_run(before, store, where):
    """What a block begins with may be stored or not."""
    block = f"""
for i in range(16): A[i] = {before}
for i in range(16):
  with T.block("A"):
    v = T.axis.spatial(16, i)
    {where}
    T.reads()
    T.writes(A[v], B[v])
    {store}
"""
    for count in (16, 9):
        loop = f"for i in range({count}):\n  "
        found, expected = (simplify(block + loop + text) for text in ("if A[i] == 3: B[i] = 1", "B[i] = 1"))
        runs = where in ("pass", "T.where(i < 16)") or (where == "T.where(i < 9)" and count == 9)
        assert ir.structural_equal(found, expected) is (before == 3 or (runs and store.endswith("3")))


def test_what_a_block_begins_with_may_replace_what_was_there():
    before = "A[0] = 3\nfor i in range(4):\n  with T.block('A'):\n    v = T.axis.reduce(4, i)\n    T.reads()\n    T.writes(A[0], B[0])\n    "
    simplified(before + "with T.init(): A[0] = 2\n    B[0] = v\nif A[0] == 3: B[0] = 1")


def test_vectors_are_known_lane_by_lane():
    decided("A[0:8] = T.Broadcast(3, 8)", "A[i] == 3", loop="for i in range(8):")
    decided("A[0:8] = T.Ramp(2, 3, 8)", "A[i] == i * 3 + 2", loop="for i in range(8):")
    decided("for i in range(4): A[i * 4:i * 4 + 4] = T.Broadcast(3, 4)", "A[i] == 3")
    undecided("A[0:8] = T.Broadcast(3, 8)", "A[i] == 3")


def test_known_vectors_are_broadcasts_and_ramps():
    for value, vector in (("3", "T.Broadcast(4, 4)"), ("i * 2", "T.Ramp(1, 2, 4)")):
        store = f"for i in range(16): A[i] = {value}\n"
        simplified(store + "B[0:4] = A[0:4] + T.Broadcast(1, 4)", f"{store}B[0:4] = {vector}", **VALUES)


# ---------------------------------------------------------------------------- branches and lets


def test_a_condition_on_a_load_is_known_in_its_branch():
    loop = "for i in range(16):\n  if A[i] == n:\n    {}"
    simplified(loop.format("if A[i] == n: B[i] = 1\n    else: B[i] = 2"), loop.format("B[i] = 1"))
    simplified(loop.format("A[i] = 3") + "\n  if A[i] == n: B[i] = 2")
    simplified("if n < A[0]:\n  if n < A[0]: B[0] = 1")


def test_each_branch_brings_what_it_stored():
    first = "for i in range(16):\n  A[i] = n\n  if n == 0: A[i] = i\n  if n == 0:\n    "
    simplified(first + "if A[i] == i: B[i] = 1", first + "B[i] = 1")
    both = "if n < 3: A[0] = 5\nelse: A[0] = 5\n"
    simplified(both + "if A[0] == 5: B[0] = 1", both + "B[0] = 1")
    one = "if n < 3: A[0] = 5\nelse: A[0] = 6\n"
    simplified(one + "if A[0] == 5: B[0] = 1")
    simplified(one + "if n < 2:\n  if A[0] == 5: B[0] = 1", one + "if n < 2: B[0] = 1")


def test_lets_are_inlined():
    first = "for i in range(16):\n  v: T.int32 = i * 2\n  A[i] = v\n"
    after = "for i in range(16):\n  A[i] = i * 2\n"
    last = "for i in range(16):\n  "
    simplified(f"{first}{last}if A[i] == i * 2: B[i] = 1", f"{after}{last}B[i] = 1")


# ---------------------------------------------------------------------------- stores that are not needed

WHOLE = "for i in range(12): A[i] = 6"


@pytest.mark.parametrize(
    ("before", "expected"),
    [
        (f"for i in range(3, 9): A[i] = 5\n{WHOLE}", WHOLE),
        (
            f"for i in range(3, 9): A[i] = 5\nfor i in range(12): B[i] = 1\n{WHOLE}",
            f"for i in range(12): B[i] = 1\n{WHOLE}",
        ),
        (
            "for i in range(12):\n  if i < 9: A[i] = 5\nfor i in range(12):\n  if i < 9: A[i] = 6",
            "for i in range(12):\n  if i < 9: A[i] = 6",
        ),
        (
            "for i in range(12):\n  if i < 9: A[i] = 5\nfor i in range(12):\n  if i // 3 < 3: A[i] = 6",
            "for i in range(12):\n  if i // 3 < 3: A[i] = 6",
        ),
        (
            "for i in range(4):\n  for j in range(i): A[i * 4 + j] = 7\nfor i, j in T.grid(4, 4): A[i * 4 + j] = 1",
            "for i, j in T.grid(4, 4): A[i * 4 + j] = 1",
        ),
        ("for i in range(n): A[i] = 7\nfor i in range(n): A[i] = 1", "for i in range(n): A[i] = 1"),
        ("A[0:4] = T.Broadcast(1, 4)\nfor i in range(12): A[i] = 6", WHOLE),
        (f"if m < 3: A[2] = 5\n{WHOLE}", WHOLE),
        # partly overwritten, read before, or read while it is overwritten
        ("for i in range(12): A[i] = 5\nfor i in range(12):\n  if i < 9: A[i] = 6", None),
        (f"for i in range(12): A[i] = 5\nfor i in range(12): B[i] = A[i]\n{WHOLE}", None),
        (f"for i in range(12): A[i] = 5\nB[0] = A[3]\n{WHOLE}", None),
        ("for i in range(12): A[i] = i\nfor i in range(12): A[i] = A[11 - i]", None),
        ("for i in range(12):\n  A[i] = 0\n  for j in range(3): A[i] = A[i] + B[j]", None),
        ("for i in range(12): A[i] = 5\nif m < 3:\n  for i in range(12): A[i] = 6", None),
        ("for i in range(12): A[i] = 5\nfor i in range(12): A[B[i]] = 6", None),
    ],
)
def test_a_store_that_is_overwritten_before_it_is_read_goes(before, expected):
    removed(before, expected)


@pytest.mark.parametrize(
    ("before", "expected"),
    [
        ("for i in range(12): A[i] = i + 1\nA[3] = 4", "for i in range(12): A[i] = i + 1"),
        ("for i in range(12): A[i] = i + 1\nA[3] = 5", None),
        ("for i in range(12): A[i] = i + 1\nA[12] = 13", None),
        ("for i in range(12): A[i] = i + 1\nfor i in range(12): A[i] = i + 1", "for i in range(12): A[i] = i + 1"),
        ("A[0] = n\nB[0] = A[0]\nA[0] = n", "A[0] = n\nB[0] = A[0]"),
        ("A[0] = n\nif B[0] < 3: A[0] = n", "A[0] = n"),
    ],
)
def test_a_store_of_what_is_there_goes(before, expected):
    removed(before, expected)


def test_calls_in_a_removed_store_stay():
    tick = "T.call_extern('int32', 'tick')"
    removed(f"for i in range(12): A[i] = {tick}\n{WHOLE}", f"for i in range(12): T.evaluate({tick})\n{WHOLE}")


# ---------------------------------------------------------------------------- random programs

PASSES = {
    "simplify": ({"tir.Simplify": {**CONDITIONS, **VALUES}}, tir.transform.Simplify),
    "remove": ({"tir.RemoveNoOp": {"use_dataflow_analysis": True}}, tir.transform.RemoveNoOp),
}


@pytest.mark.parametrize("name", PASSES)
@pytest.mark.parametrize(
    "seeds", [range(25), pytest.param(range(25, 1500), marks=pytest.mark.soak)], ids=["few", "many"]
)
def test_random_programs_compute_what_they_did(name, seeds):
    config, make = PASSES[name]
    changed = 0
    for seed in seeds:
        before = Generator(seed).function()
        module = tvm.IRModule({"main": before})
        with tvm.transform.PassContext(config=config):
            after = make()(module)["main"]
        changed += not ir.structural_equal(after, make()(module)["main"])
        for size in (0, 1, SIZE):
            numbers = random.Random(seed + size)
            data = {name: [numbers.randrange(4) for _ in range(SIZE)] for name in "AB"}
            results = [Machine({k: list(v) for k, v in data.items()}, size).run(f) for f in (before, after)]
            assert results[0] == results[1], f"seed {seed}\n{before}\n{after}"
    assert changed > len(seeds) // 10


def test_rows_that_are_stored_as_vectors():
    """Each is one of its own: what overwrites a row leaves the others."""
    row = "A[{}, 0:8] = T.Broadcast({}, 8)"
    first, second, third = row.format(0, 1), row.format(1, 2), row.format(0, 3)
    removed(f"{first}\n{second}\n{third}", f"{second}\n{third}", GRID)
    removed(f"{first}\n{second}", None, GRID)
    removed(f"A[n, 0:8] = T.Broadcast(1, 8)\n{third}", None, GRID)
    removed(f"A[0, 0:4] = T.Broadcast(1, 4)\n{third}", third, GRID)
    removed(f"{third}\nA[0, 0:4] = T.Broadcast(1, 4)", None, GRID)
    simplified(
        f"{first}\n{second}\nif A[0, 3] == 1 and A[1, 3] == 2:\n  B[0, 0] = 1", f"{first}\n{second}\nB[0, 0] = 1", GRID
    )
    simplified(
        f"{first}\n{second}\nB[0, 0] = A[0, 7] + A[1, 0] + A[2, 0]",
        f"{first}\n{second}\nB[0, 0] = A[2, 0] + 3",
        GRID,
        **VALUES,
    )


@pytest.mark.parametrize(
    ("stores", "holds", "loops"),
    [
        ("for r in range(8): A[r, 0:8] = T.Broadcast(r, 8)", "A[i, j] == i", (8, 8)),
        ("for r in range(8): A[r, 0:8] = T.Ramp(r, 3, 8)", "A[i, j] == j * 3 + i", (8, 8)),
        ("for r in range(4): A[r * 2, T.Ramp(1, 2, 4)] = T.Ramp(r, 1, 4)", "A[i * 2, j * 2 + 1] == i + j", (4, 4)),
        ("for r in range(8): A[7 - r, T.Ramp(7, -1, 8)] = T.Ramp(r, 1, 8)", "A[i, j] == 14 - i - j", (8, 8)),
        ("for r, q in T.grid(8, 2): A[r, q * 4:q * 4 + 4] = T.Broadcast(q + r, 4)", "A[i, j] == j // 4 + i", (8, 8)),
    ],
)
def test_rows_that_loops_store_as_vectors(stores, holds, loops):
    """Are known in all of their elements, and no more than theirs are."""
    text = "for i, j in T.grid({}, {}):"
    decided(stores, holds, "B[i, j] = 1", text.format(*loops), head=GRID)
    rows = stores.replace("range(", "range(1, ").replace("grid(8, ", "grid(7, ")
    before = f"{rows}\n{text.format(*loops)}\n  if {holds}:\n    B[i, j] = 1"
    simplified(before, None, GRID)


@pytest.mark.parametrize("row", ["0", "3", "n"])
@pytest.mark.parametrize("column", [2, 3])
def test_lanes_that_store_in_one_element(row, column):
    """Overwrite it; which of their values it holds is open."""
    lanes = f"A[{row}, T.Broadcast(2, 4)] = T.Ramp(5, 1, 4)"
    removed(f"A[{row}, {column}] = 1\n{lanes}", lanes if column == 2 else None, GRID)
    removed(f"A[4, 2] = 1\n{lanes}", None, GRID)
    simplified(f"A[{row}, 2] = 1\n{lanes}\nif A[{row}, 2] == 1: B[0, 0] = 1", None, GRID)
    simplified(
        f"A[{row}, 3] = 1\n{lanes}\nif A[{row}, 3] == 1: B[0, 0] = 1", f"A[{row}, 3] = 1\n{lanes}\nB[0, 0] = 1", GRID
    )
