"""Calls in processes of their own, by `contrib.popen_pool`."""

from __future__ import annotations

import pytest

from tvmagic.contrib.popen_pool import PopenPoolExecutor, PopenWorker, StatusKind
from tvmagic.testing import identity_after, terminate_self


def test_a_call_may_raise_and_its_process_may_die() -> None:
    worker = PopenWorker()
    worker.send(identity_after, (1, 0))
    assert worker.recv() == 1
    worker.send(int, ("x",))
    with pytest.raises(ValueError, match="invalid literal"):
        worker.recv()
    worker.send(terminate_self)
    with pytest.raises(ChildProcessError):
        worker.recv()
    assert not worker.is_alive()


def test_a_pool_says_how_each_call_ended() -> None:
    with PopenPoolExecutor(max_workers=1, timeout=5) as pool:
        ends = list(pool.map_with_error_catching(int, ["1", "a"]))
    assert [end.status for end in ends] == [StatusKind.COMPLETE, StatusKind.EXCEPTION] and ends[0].value == 1
