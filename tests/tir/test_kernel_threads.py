"""Kernels whose threads are launched at their head, and rules of users for operators."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from refusals import refuses

from tvmagic import ir
from tvmagic.errors import BuildError
from tvmagic.ir.prim_expr import scope_of
from tvmagic.ir.query import nodes_of
from tvmagic.script import from_source, script
from tvmagic.tir import transform
from tvmagic.tir.transform.expressions.lower_intrin import lower_by_rules
from tvmagic.tir.transform.threads.kernel_threads import is_launch

HEAD = "@T.prim_func\ndef main(X: T.Buffer((64,), 'int32'), Y: T.Buffer((64,), 'int32')):\n    T.func_attr({'global_symbol': 'main'})\n"
MEMORY = {"S": "shared", "L": "local"}


def kernel(*lines: str) -> str:
    """A kernel of four blocks, with shared and local memory, after `KernelThreads`."""
    text = HEAD + "    bx = T.launch_thread('blockIdx.x', 4)\n"
    for name, scope in MEMORY.items():
        text += f"    {name} = T.allocate([8], 'int32', '{scope}')\n    {name}_1 = T.Buffer((8,), 'int32', data={name}, scope='{scope}')\n"
    func = from_source(text + "".join(f"    {line}\n" for line in lines))
    made = script(transform.KernelThreads()(ir.IRModule({"main": func}))["main"])
    return re.sub(r".*= T.Buffer\(.*\n", "", made).replace("_1_1", "_1")


def guard_of(text: str, statement: str) -> str:
    """The condition that a statement is in."""
    found = re.search(rf"(?:if (.*):)?\n *{re.escape(statement)}", text)
    assert found, text
    return found[1] or ""


INNER = ["with T.launch_thread('threadIdx.x', 8) as tx:", "    Y[tx] = 1"]
ROWS = [
    "with T.launch_thread('blockIdx.y', 2) as by:",
    "    with T.launch_thread('threadIdx.x', 8) as tx:",
    "        Y[tx] = 1",
]


@pytest.mark.parametrize(
    ("statement", "threads", "rows"),
    [
        ("X[0] = 1", "tx == 0", "by == 0 and tx == 0"),
        ("S_1[0] = 1", "tx == 0", "tx == 0"),
        ("L_1[0] = 1", "", ""),
        ('T.call_extern("int32", "f")', "tx == 0", "by == 0 and tx == 0"),
    ],
)
def test_the_first_thread_does_what_is_outside_a_launch(statement: str, threads: str, rows: str) -> None:
    """Each block what it does in shared memory, each thread what it does in its own."""
    assert guard_of(kernel(statement, *INNER), statement) == threads
    assert guard_of(kernel(statement, *ROWS), statement) == rows
    assert guard_of(kernel(statement, INNER[0].replace("8", "1"), INNER[1]), statement) == ""
    for lines in (INNER, ROWS):
        assert guard_of(kernel(statement, *lines), "Y[tx] = 1") == ""


def test_what_does_nothing_needs_no_thread() -> None:
    assert guard_of(kernel("if X[0] < 1:", "    T.evaluate(0)", *INNER), "T.evaluate(0)") == "X[0] < 1"


def test_launches_are_at_the_head_blocks_first() -> None:
    text = kernel(
        "with T.launch_thread('threadIdx.y', 2) as ty:",
        "    with T.launch_thread('blockIdx.z', 3) as bz:",
        "        with T.launch_thread('threadIdx.x', 8) as tx:",
        "            X[tx] = ty + bz + bx",
    )
    assert re.findall(r'launch_thread\("(\S+)", (\d)\)', text) == [
        ("blockIdx.z", "3"),
        ("blockIdx.x", "4"),
        ("threadIdx.y", "2"),
        ("threadIdx.x", "8"),
    ]
    assert text.index("launch_thread") < text.index("allocate")


def test_launches_of_one_axis_are_one() -> None:
    text = kernel(*INNER, "with T.launch_thread('threadIdx.x', 8) as u:", "    X[u] = u")
    assert text.count("threadIdx.x") == 1 and "X[tx] = tx" in text


WAIT = "T.evaluate(T.tvm_storage_sync('shared'))"


@pytest.mark.parametrize(
    ("lines", "refused"),
    [
        ([f"    {WAIT}"], False),
        (["    if bx < 2:", f"        {WAIT}"], False),
        (["    if tx < 2:", f"        {WAIT}"], True),
        (["    for i in range(tx):", f"        {WAIT}"], True),
        (["    for i in range(tx, 8):", f"        {WAIT}"], True),
        (["    for i in range(8):", f"        {WAIT}"], False),
        (["    while Y[tx] < 2:", f"        {WAIT}"], True),
        (["    while Y[0] < 2:", f"        {WAIT}"], False),
        (["    u: T.int32 = tx + 1", "    if u < 2:", f"        {WAIT}"], True),
        (["    u: T.int32 = bx + 1", "    if u < 2:", f"        {WAIT}"], False),
        (["    if L_1[0] < 2:", f"        {WAIT}"], True),
        (["    if S_1[0] < 2:", f"        {WAIT}"], False),
        (["    if tx < 2:", "        Y[tx] = 2", f"    {WAIT}"], False),
        (["    for i in range(tx):", "        for j in range(i):", f"            {WAIT}"], True),
        (["    for i in range(tx):", "        Y[i] = 2", f"    {WAIT}"], False),
        ([f"with T.launch_thread('threadIdx.x', 8) as u:\n        if u < 2:\n            {WAIT}"], True),
    ],
)
def test_all_threads_come_to_a_barrier(lines: list[str], refused: bool) -> None:
    if refused:
        with pytest.raises(BuildError):
            kernel(*INNER, *lines)
    else:
        assert "tvm_storage_sync" in kernel(*INNER, *lines)


@pytest.mark.parametrize(
    ("lines", "code"),
    [
        (["with T.launch_thread('threadIdx.w', 8) as tx:", "    X[tx] = 1"], "tir.kernel.unknown_thread"),
        (
            [*INNER, "with T.launch_thread('threadIdx.x', 4) as u:", "    X[u] = u"],
            "tir.kernel.extents_differ",
        ),
        (["with T.launch_thread('blockIdx.x', 4) as u:", "    X[u] = u"], "tir.kernel.launched_twice"),
        (
            ["n: T.int32 = X[0]", "with T.launch_thread('threadIdx.x', n) as u:", "    X[u] = u"],
            "tir.kernel.computed_extent",
        ),
    ],
)
def test_what_no_kernel_can_be(lines: list[str], code: str) -> None:
    with refuses(code, error=BuildError):
        kernel(*lines)


# ---------------------------------------------------------------------------- memory


def allocations(*lines: str) -> list[tuple[str, bool]]:
    """What is allocated after `KernelMemory`: the scope, which accesses agree with, and whether a kernel allocates it."""
    func = from_source(HEAD + "".join(f"    {line}\n" for line in lines))
    body = transform.KernelMemory()(ir.IRModule({"main": func}))["main"].body
    inside = {
        node for kernel in filter(is_launch, nodes_of(body, ir.AttrStmt)) for node in nodes_of(kernel, ir.Allocate)
    }
    made = nodes_of(body, ir.Allocate)
    used = {access.buffer.data for access in nodes_of(body, ir.BufferLoad, ir.BufferStore)} - {
        b.data for b in func.buffer_map.values()
    }
    assert used <= {node.buffer_var for node in made}
    return [(scope_of(node.buffer_var), node in inside) for node in made]


def memory(scope: str) -> list[str]:
    return [f"M = T.allocate([8], 'int32', '{scope}')", f"M_1 = T.Buffer((8,), 'int32', data=M, scope='{scope}')"]


def launch(line: str, axis: str = "threadIdx.x", variable: str = "t") -> list[str]:
    return [f"with T.launch_thread('{axis}', 8) as {variable}:", f"    {line}"]


def inside(head: str, *lines: str) -> list[str]:
    return [head, *(f"    {line}" for line in lines)]


USE, OTHER = launch("M_1[t] = X[t]"), launch("Y[u] = M_1[u]", variable="u")
BLOCKS = launch("M_1[b] = X[b]", "blockIdx.x", "b")


@pytest.mark.parametrize("scope", ["local", "shared"])
@pytest.mark.parametrize(
    ("lines", "local", "shared"),
    [
        (USE, ("local", True), ("shared", True)),
        (BLOCKS, ("local", True), ("shared", True)),
        (inside("for i in range(3):", *USE), ("local", True), ("global", False)),
        (inside("while X[0] < 3:", *USE), ("local", True), ("global", False)),
        ([*USE, "M_1[0] = X[0]"], ("global", False), ("global", False)),
        (["Y[0] = M_1[0]", *USE], ("global", False), ("global", False)),
        ([*USE, *OTHER], None, ("global", False)),
        ([*BLOCKS, *OTHER], None, None),
        ([*BLOCKS, "M_1[0] = X[0]"], None, None),
        ([*launch("X[b] = 1", "blockIdx.x", "b"), *USE], ("local", True), ("shared", True)),
    ],
)
def test_where_the_memory_of_threads_goes_that_is_allocated_around_them(
    scope: str, lines: list[str], local: tuple[str, bool] | None, shared: tuple[str, bool] | None
) -> None:
    """Into the one kernel that uses it; what outlives a launch is global, if a single block can share it."""
    expected = local if scope == "local" else shared
    if expected is not None:
        assert allocations(*memory(scope), *lines) == [expected]
    else:
        with pytest.raises(BuildError, match=r"`M\w*`"):
            allocations(*memory(scope), *lines)


def test_memory_inside_a_kernel_and_memory_of_the_host() -> None:
    """What a launch inside a loop allocates is its own; global memory becomes shared in a kernel, and stays outside."""
    assert allocations(*inside("for i in range(3):", *memory("shared"), *USE)) == [("shared", True)]
    assert allocations(*memory("global"), *USE, *OTHER) == [("global", False)]
    for scope, after in (("global", "shared"), ("local", "local"), ("shared", "shared")):
        lines = inside("with T.launch_thread('threadIdx.x', 8) as t:", *memory(scope), "M_1[t] = X[t]", "Y[t] = M_1[t]")
        assert allocations(*lines) == [(after, True)]


# ---------------------------------------------------------------------------- rules of users


def test_rules_of_users_are_applied_until_nothing_changes() -> None:
    rules: dict[str, Callable[[ir.Call], ir.PrimExpr | None]] = {
        "first": lambda call: call.args[0] * 2,
        "second": lambda call: ir.Call(call.dtype, "tir.first_shade", call.args),
        "same": lambda call: call,
        "unknown": lambda call: None,
    }
    func = from_source(HEAD + "    X[0] = Y[0]")

    def module(name: str) -> ir.IRModule:
        call = ir.Call("int32", ir.Op.made(f"tir.{name}_shade"), [func.body.value])
        return ir.IRModule({"main": func.with_body(func.body.replace(value=call))})

    mods = {name: module(name) for name in rules}
    assert all(lower_by_rules(mod, "llvm") is mod for mod in mods.values())
    for rule, rewrite in rules.items():
        ir.register_intrin_lowering(f"tir.{rule}_shade", target="llvm", f=rewrite)
    for name, mod in mods.items():
        kept = f'T.call_intrin("int32", "tir.{name}_shade", Y[0])'
        lowered = "Y[0] * 2" if name in ("first", "second") else kept
        assert f"X[0] = {lowered}" in mod_text(lower_by_rules(mod, "llvm"))
        assert mod_text(lower_by_rules(mod, "opencl")) == mod_text(mod)


def mod_text(mod: ir.IRModule) -> str:
    return script(mod["main"])
