"""What buffers are known to hold: conditions and values in Simplify, stores in RemoveNoOp."""

import random
import textwrap

import pytest
from contents_programs import SIZE, Generator, Machine
from refusals import refuses

import tvmagic as tvm
from tvmagic import ir, tir
from tvmagic.arith import presburger

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
    with refuses("analyzer.too_many_rewrites"):
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


def test_a_value_that_the_axes_do_not_tell_is_known_for_the_last_iteration():
    simplified("for i in range(16): A[0] = i\nif A[0] == 15: B[0] = 1", "for i in range(16): A[0] = i\nB[0] = 1")


def test_values_of_two_dimensions():
    stores = "for i, j in T.grid(8, 8): A[i, j] = i\nfor i, j in T.grid(8, 8): B[i, j] = A[j, i]"
    decided(stores, "B[i, j] == j", "A[i, j] = 1", "for i, j in T.grid(8, 8):", head=GRID)


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
        ("A[0] < 3", "assume.wrong_loads"),
        ("A[0] == 1 or A[1] == 1", "assume.wrong_loads"),
    ):
        with refuses(message):
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


def test_memory_that_others_reach_is_not_known():
    simplified("A[0] = 3\nT.evaluate(T.call_extern('int32', 'f', A.data))\nif A[0] == 3: B[1] = 1")
    simplified("A[0] = 3\nT.evaluate(T.address_of(A[1]))\nif A[0] == 3: B[1] = 1")
    simplified("C = T.Buffer((4, 4), 'int32', data=A.data)\nA[0] = 3\nC[0, 0] = 4\nif A[0] == 3: B[1] = 1")


def test_floats_are_equal_bit_for_bit():
    head = "A: T.Buffer(16, 'float32'), B: T.Buffer(16, 'float32')"
    zero = "A[0] = T.float32(0)"
    removed(f"{zero}\nB[0] = A[0]\nA[0] = T.float32(-0.0)", None, head)
    removed(f"{zero}\nB[0] = A[0]\n{zero}", f"{zero}\nB[0] = A[0]", head)


# ---------------------------------------------------------------------------- other indices


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
