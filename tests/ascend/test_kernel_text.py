"""The kernel's text: functions and their dispatch, loops, sizes, and the discipline of the queues."""

from __future__ import annotations

import re
from itertools import accumulate

import pytest
from random_graphs import Maker
from sampling import every

from tvmagic import ascend
from tvmagic.ascend import AscGraph, ops
from tvmagic.passes import recording

STEPS = {"AllocTensor": "EnQue", "EnQue": "DeQue", "DeQue": "FreeTensor", "FreeTensor": "AllocTensor"}


def chain(symbolic: bool = False) -> AscGraph:
    graph = AscGraph("relu_test")
    graph.create_axis("z0", graph.create_size("s0") if symbolic else 5000)
    ops.Output(ops.Store(ops.Relu(ops.Exp(ops.Load(ops.Data(graph, "x"))))), "y")
    return graph


def text_of(graph: AscGraph, values: dict[str, int] | None = None, machine: str = "atlas_a2") -> str:
    return ascend.auto_tiling(ascend.auto_schedule(graph), values, machine).ascend_c()


def functions(text: str) -> dict[str, list[str]]:
    found = re.findall(r"^inline __aicore__ void (\w+)\([^)]*\) \{\n(.*?)^\}\n\n", text, re.M | re.S)
    return {name: body.splitlines() for name, body in found}


def check_queues(lines: list[str]) -> int:
    """Each queue is allocated, enqueued, dequeued and freed in turns, inside each loop as often as it is entered."""
    state: dict[str, str] = {}
    scopes: list[dict[str, str]] = []
    count = 0
    for line in lines:
        if re.fullmatch(r"for \(int \w+ = 0; .*\) \{", line):
            scopes.append(dict(state))
        elif line == "}" and scopes:
            before = scopes.pop()
            assert all(before.get(queue, "FreeTensor") == now for queue, now in state.items()), line
        for queue, call in re.findall(r"\b(q\d+)\.(\w+)", line):
            if call in STEPS:
                assert STEPS[state.get(queue, "FreeTensor")] == call, (queue, state.get(queue), call)
                state[queue] = call
                count += 1
    assert set(state.values()) <= {"FreeTensor"} and not scopes
    return count


def check_barriers(lines: list[str]) -> None:
    """No call of the vector unit touches what one before it wrote without a barrier in between, also an iteration later."""
    memory = dict(re.findall(r"(local_\d+) = (b\d+)\.Get", "\n".join(lines)))
    written: set[str] = set()

    def walk(part: list[str]) -> None:
        while part:
            line, part = part[0], part[1:]
            if line.startswith("for ") and line.endswith("{"):
                depths = list(accumulate((rest.endswith("{") - (rest == "}") for rest in part), initial=1))
                inner, part = part[: depths.index(0)], part[depths.index(0) :]
                walk(inner)
                walk(inner)
            elif "PipeBarrier" in line:
                written.clear()
            elif "_buf[" in line:  # an element of a queue, which is waited for as it is taken
                written.discard(line.split()[1])
            elif re.search(r"DataCopyPad|Gather\(", line):  # moves, whose queues wait
                continue
            elif used := [memory.get(x, x) for x in re.findall(r"local_\d+(?=\[)", line)]:
                assert not written & set(used), line
                written.add(used[0])

    walk(lines)


def test_a_chain() -> None:
    text = text_of(chain(symbolic=True), {"s0": 100_000})
    assert text.startswith(
        "// For reading only: the source that this graph becomes on an NPU. Nothing here compiles or runs it.\n"
    )
    ((name, lines),) = functions(text).items()
    assert name == "relu_test_0_general_0_nil_0_nil"
    place = "(int64_t)z0TB * (int64_t)(t->z0Tb_size * t->z0t_size) + (int64_t)z0Tb * (int64_t)t->z0t_size + 0"
    for line in (
        "const int z0_axis_size = t->s0;",
        "const int z0t_tail_size = z0_axis_size % z0t_axis_size;",
        "const int z0T_loop_size = z0T_axis_size + (z0t_tail_size > 0);",
        "if (block_dim >= t->block_dim) { return; }",
        "const int z0TB = block_dim % z0TB_loop_size;",
        "TQue<TPosition::VECIN, 1> q0;",
        "tpipe.InitBuffer(q0, 2, t->q0_size);",
        "LocalTensor<float> local_3 = b0.Get<float>();",
        "int z0Tb_loop_size = z0TB < z0TB_axis_size ? z0Tb_axis_size : z0Tb_tail_size;",
        "for (int z0Tb = 0; z0Tb < z0Tb_loop_size; z0Tb++) {",
        "int z0t_actual_size = z0T < z0T_axis_size ? z0t_axis_size : z0t_tail_size;",
        "LocalTensor<float> local_2 = q0_buf[0].template ReinterpretCast<float>();",
        f"DataCopyPadExtend(local_2[0], global_0[{place}], 1, z0t_actual_size, 0, 0);",
        "Exp(local_3[0], local_2[0], z0t_actual_size);",
        "Relu(local_4[0], local_3[0], z0t_actual_size);",
        f"DataCopyPadExtend(global_1[{place}], local_4[0], 1, z0t_actual_size, 0, 0);",
    ):
        assert lines.count(line) == 1, line
    assert lines[lines.index("Relu(local_4[0], local_3[0], z0t_actual_size);") - 1] == "AscendC::PipeBarrier<PIPE_V>();"
    assert check_queues(lines) == 8
    entry = 'extern "C" __global__ __aicore__ void relu_test(GM_ADDR x, GM_ADDR y, GM_ADDR workspace, AutofuseTilingData t) {\n'
    assert entry + f"if (t.tiling_key == 0) {{ {name}(x, y, workspace, &t); }}\n}}\n" in text


def test_the_text_is_a_step_of_the_record() -> None:
    with recording() as record:
        text = text_of(chain())
    assert [s.name for s in record][-2:] == ["ascend.AutoTiling", "ascend.KernelText"] and record[-1].after == text


def test_every_template_has_a_function_and_a_key() -> None:
    graph = AscGraph("rows")
    z0, z1 = graph.create_axis("z0", 100), graph.create_axis("z1", 50_000)
    x = ops.Load(ops.Data(graph, "x"))
    e = ops.Sub(x, ops.Broadcast(ops.Max(x, z1), z1))
    ops.Output(ops.Store(ops.Add(e, ops.Broadcast(ops.Load(ops.Data(graph, "b", [z1])), z0))), "y")
    tiling = ascend.auto_tiling(ascend.auto_schedule(graph), machine="atlas_a2")
    text = tiling.ascend_c()
    assert (
        len(tiling.result.groups) == 2 and len(functions(text)) == sum(len(g.impls) for g in tiling.result.groups) == 4
    )
    assert (
        "ReduceMax(local_" in text
        and "Duplicate(local_3[0], std::numeric_limits<float>::lowest(), z0t_actual_size);" in text
    )
    assert (
        text.count("SyncAll();") == 1
        and "if (t.graph1_tiling_key == 0)" in text
        and "else if (t.graph1_tiling_key == 1)" in text
    )
    fields = set(re.findall(r"TILING_DATA_FIELD_DEF_T\(uint32_t, (\w+)\);", text))
    assert set(re.findall(r"t->(\w+)", text)) <= fields


def test_loads_side_by_side_share_an_element() -> None:
    graph = AscGraph("two")
    graph.create_axis("z0", 5000)
    x, y = ops.Load(ops.Data(graph, "x"), offset=7, sizes=[4000]), ops.Load(ops.Data(graph, "y"), sizes=[4000])
    graph.axes[0].size = ascend.Size.of(4000)
    ops.Output(ops.Store(ops.Add(x, y)), "z")
    text = text_of(graph)
    assert "local_4 = q0_buf[(t->z0t_size * 4 + 31) / 32 * 32].template ReinterpretCast<float>();" in text
    assert " * (int64_t)t->z0t_size + 7], 1, z0t_actual_size, 0, 0);" in text
    assert (
        text.count("q0.AllocTensor")
        == text.count("q0.EnQue")
        == text.count("q0.DeQue")
        == text.count("q0.FreeTensor")
        == 1
    )


def test_numbers_are_arguments_and_constants() -> None:
    graph = AscGraph("numbers")
    z0 = graph.create_axis("z0", 4000)
    factor, two = ops.Broadcast(ops.ScalarData(graph, "factor"), z0), ops.Broadcast(ops.Scalar(graph, 2.0), z0)
    ops.Output(ops.Store(ops.Add(ops.Mul(ops.Load(ops.Data(graph, "x")), factor), two)), "y")
    text = text_of(graph)
    assert "GM_ADDR x, float factor, GM_ADDR y" in text and "[0], factor, z0t_actual_size);" in text
    assert "[0], (float)2.0, z0t_actual_size);" in text


@pytest.mark.parametrize("seed", every(2, range(30)))
def test_random_graphs_keep_the_discipline_of_queues(seed: int) -> None:
    maker = Maker(seed)
    graph = maker.build()
    known = {f"s{i}": n for i, n in enumerate(maker.lengths)} | {n: 9 for n in graph.sizes if n.startswith("t")}
    for number, result in enumerate(ascend.auto_schedule(graph)):
        tiling = ascend.auto_tiling([result], known, ascend.Npu("small", 7, 10**7))
        text = ascend.kernel_text.kernel_text(result, number, tiling.tiling_data)
        made = functions(text)
        assert len(made) == sum(len(g.impls) for g in result.groups)
        for lines, impl in zip(made.values(), [i for g in result.groups for i in g.impls], strict=True):
            check_queues(lines)
            check_barriers(lines)
            used = {y.que.id for y in impl.graph.tensors() if y.que.id >= 0}
            assert used == {int(q) for q in re.findall(r"q(\d+)\.AllocTensor", "\n".join(lines))}
            outer = [a.name for a in impl.graph.axes if a.bind_block]
            assert not any(line.startswith(f"for (int {name} ") for name in outer for line in lines)
            declared = set(re.findall(r"(?:const )?int (\w+) =", "\n".join(lines)))
            read = {w for line in lines for w in re.findall(r"\b(z\w*?_(?:axis|actual|loop|tail)_size|z\w*)\b", line)}
            assert {w for w in read if not w.endswith("_i")} <= declared | set(impl.graph.sizes)


def test_a_sum_over_parts_of_a_row_begins_and_is_handed_on_once_a_row() -> None:
    graph = AscGraph("total")
    graph.create_axis("z0", graph.create_size("rows"))
    columns = graph.create_axis("z1", 100_000)
    ops.Output(ops.Store(ops.Sum(ops.Load(ops.Data(graph, "x")), columns)), "y")
    text = ascend.auto_tiling(ascend.auto_schedule(graph), {"rows": 4000}, "atlas_a2").ascend_c()
    function = text[text.index("inline __aicore__") :]
    function = function[: function.index("\n}\n\n")]
    order = [
        "for (int z0Tb",
        "q1.AllocTensor",
        "Duplicate(",
        "for (int z1T",
        "PipeBarrier",
        "ReduceSum(",
        "}",
        "q1.EnQue",
        "q1.DeQue",
    ]
    places = [function.index(order[0])]
    for word in order[1:]:
        assert function.count(word) == 1 or word == "}", word
        places.append(function.index(word, places[-1]))
    assert places == sorted(places)
