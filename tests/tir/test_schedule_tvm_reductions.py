"""TVM's behaviour of reductions and paddings in schedules, rule by rule."""

from __future__ import annotations

from schedule_behaviour import block, loops, parse, same_results, schedule

SCALAR = """
def main(A: T.Buffer((20,), "float32"), B: T.Buffer((), "float32")):
    for k in range(20):
        with T.block("B"):
            vk = T.axis.reduce(20, k)
            with T.init():
                B[()] = T.float32(0)
            B[()] = B[()] + A[vk]
"""


def test_147_the_offset_of_a_factored_result_without_dimensions() -> None:
    sch = schedule(SCALAR)
    outer, _ = sch.split(loops(sch, "B")[0], [4, 5])
    sch.rfactor(outer, 0)
    old, new = block(sch, "B").writes[0].buffer, block(sch, "B_rf").writes[0].buffer
    assert new.elem_offset.dtype == old.elem_offset.dtype
    same_results(parse(SCALAR), sch.mod["main"])


BOUND = """
def main(A: T.Buffer((6, 20), "float32"), B: T.Buffer((6,), "float32")):
    for i in T.thread_binding(6, thread="threadIdx.x"):
        for k in range(20):
            with T.block("B"):
                vi, vk = T.axis.remap("SR", [i, k])
                with T.init():
                    B[vi] = T.float32(0)
                B[vi] = B[vi] + A[vi, vk]
"""


def test_149_the_init_has_a_thread_binding_of_its_own() -> None:
    sch = schedule(BOUND)
    sch.decompose_reduction("B", loops(sch, "B")[0])
    first, second = [sch.get(loops(sch, name)[0]) for name in ("B_init", "B_update")]
    assert first.thread_binding.thread_tag == second.thread_binding.thread_tag == "threadIdx.x"
    assert first.thread_binding is not second.thread_binding
    assert first.thread_binding.var is not second.thread_binding.var and first.loop_var is not second.loop_var
