"""Calls of schedules lead to the loops and statements that they made, in every later program."""

from __future__ import annotations

import pytest

from tvmagic.notebook.view import View, make_view
from tvmagic.operators import operator
from tvmagic.operators.scheduling import schedule

DENSE = """X: float32[48, 32]
W: float32[32, 64]
Y[i, j] += X[i, k] * W[k, j]
Z[i, j] = max(Y[i, j], 0)"""

# A schedule, and for each call what the lines that it made begin with.
CALLS = {
    "stages": [
        ("io, jo, ii, ji = s[Z].tile(*s[Z].op.axis, 6, 16)", ["for i_outer, j_outer, i_inner, j_inner in"]),
        ("s[Y].vectorize(s[Y].op.axis[1])", []),
    ],
    "cache_write": [
        ("local = s.cache_write(Y, 'local')", ["with T.ProducerRealize(Y.local", "for i_c, j_c", "Y.local[i_c, j_c] =", "Y[i, j] = Y.local"]),
        ("s[local].split(s[local].op.axis[0], 4)", ["for i_c_outer, i_c_inner, j_c in"]),
        ("s[Z].fuse(*s[Z].op.axis)", ["for i_j_fused in"]),
    ],
    "cache_read": [("s.cache_read(X, 'global', [Y])", ["with T.ProducerRealize(X.global", "for ax0, ax1", "X.global[ax0, ax1] ="])],
    "blocks": [
        ("a, b = sch.split(sch.get_loops(sch.get_block('Z'))[0], [None, 6])", ["for i_0, i_1, j in"]),
        ("sch.decompose_reduction(sch.get_block('Y'), sch.get_loops(sch.get_block('Y'))[2])", ['with T.block("Y_init"):']),
    ],
}  # fmt: skip


def shown(text: str) -> View:
    op = operator("dense", DENSE)
    return make_view(op.passes(schedule(op, text), code=False))


@pytest.mark.parametrize("name", CALLS)
def test_calls_lead_to_what_they_made(name: str) -> None:
    view = shown("\n".join(call for call, _ in CALLS[name]))
    steps = [step for step in view.steps if step.kind == "schedule"]
    for step, (call, expected) in zip(steps, CALLS[name], strict=True):
        groups = view.made_by(step)
        assert step.after is not None
        threads = view.texts[step.after].threads
        lines = [line.strip() for line, group in zip(view.text_lines(step.after), threads) if group in groups]
        for begin in expected:
            assert any(line.startswith(begin) for line in lines), f"{call} made {begin}, not only {lines}"
        assert bool(lines) == bool(expected), f"{call} made nothing"
        last = view.texts[view.steps[-1].after or 0].threads
        assert not expected or groups & set(last), f"{call}: something is left in the last program"


def test_partial_results_lead_back_to_their_reduction() -> None:
    view = shown("ko, ki = s[Y].split(s[Y].op.reduce_axis[0], 4)\ns.rfactor(Y, ko)")
    split, factor = [step for step in view.steps if step.kind == "schedule"]
    assert split.after is not None and factor.after is not None
    old, new = view.text_lines(split.after), view.text_lines(factor.after)
    update = next(i for i, line in enumerate(old) if line.strip().startswith("Y[i, j] = Y[i, j] +"))
    partial = next(i for i, line in enumerate(new) if line.strip().startswith("Y.rf[k_outer, i, j] = Y.rf"))
    assert view.texts[factor.after].threads[partial] in view.followed(view.texts[split.after].threads[update])


def test_copies_of_cache_write_lead_back_to_the_statement_that_they_replace() -> None:
    view = shown("s.cache_write(Y, 'local')")
    (call,) = [step for step in view.steps if step.kind == "schedule"]
    assert call.before is not None and call.after is not None
    for begin, copy in (("Y[i, j] = T.float32", "Y.local[i_c, j_c] = T.float32"), ("for i, j", "for i_c, j_c")):
        (line, *_) = [i for i, t in enumerate(view.text_lines(call.before)) if t.strip().startswith(begin)]
        (made,) = [i for i, t in enumerate(view.text_lines(call.after)) if t.strip().startswith(copy)]
        followed = view.followed(view.texts[call.before].threads[line])
        assert view.texts[call.after].threads[made] in followed, begin
