"""A search on the workers of a Dask cluster: a local one, of which a worker is killed in the middle."""

from __future__ import annotations

import os
import signal
import sys
import time
import warnings
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from refusals import refuses

from tvmagic.errors import TVMagicError
from tvmagic.operators import operator
from tvmagic.tune import CostModel, tune_operator
from tvmagic.tune.problem import Problem

distributed = pytest.importorskip("distributed")
pytest.importorskip("cloudpickle").register_pickle_by_value(
    sys.modules[__name__]
)  # the workers cannot import the tests
pytestmark = [
    pytest.mark.filterwarnings("ignore"),  # what Dask warns of is not ours
    pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="needs signals"),
]

ROWS = "X: float32[40, 24]\nY[i] += X[i, k]"


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    """The scheduler of a cluster of two workers, each with two threads, which must not measure at once."""
    root = str(Path(__file__).parent.parent.parent)
    before = os.environ.get("PYTHONPATH")
    main: Any = sys.modules["__main__"]
    if not hasattr(main, "__spec__"):  # IPython's module, left by tests of magics; processes are started by it
        main.__spec__ = None
    os.environ["PYTHONPATH"] = os.pathsep.join([root, *([before] if before else [])])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with distributed.LocalCluster(
            n_workers=2, threads_per_worker=2, processes=True, dashboard_address=None, silence_logs=50
        ) as cluster:
            yield cluster.scheduler_address
    os.environ.pop("PYTHONPATH")
    if before is not None:
        os.environ["PYTHONPATH"] = before


def pids(address: str) -> list[int]:
    with distributed.Client(address, set_as_default=False) as client:
        return list(client.run(os.getpid).values())


def test_a_worker_that_is_killed_loses_no_trial_and_none_counts_twice(address: str) -> None:
    op, killed, done = operator("rows", ROWS), list[int](), list[int]()

    def kill(trial: Any, best: Any) -> None:
        done.append(trial.number)
        if trial.number == 4:
            killed.append(pids(address)[0])
            os.kill(killed[0], signal.SIGKILL)

    result = tune_operator(op, 10, seconds=240, threads=1, on=address, progress=kill, model=CostModel(False))
    assert killed and done == list(range(1, 11)) == [t.number for t in result.trials]
    assert max(Counter(t.candidate.text for t in result.trials).values()) == 1
    assert [t.error for t in result.trials if "lost" in t.error or "Worker" in t.error] == []
    assert len(result.good) >= 7 and {t.machine.split(", ")[1] for t in result.good} == {"1 threads"}
    assert result.version.name == "tuned"


def test_one_task_at_a_time_on_each_worker(address: str, tmp_path: Path) -> None:
    """Each worker of the cluster has two threads; its one process gets the next task when the one before is done."""
    from tvmagic.tune.cluster import Cluster

    cluster = Cluster(address)
    try:
        assert cluster.count == 2
        cluster.open(Problem.of(operator("rows", ROWS), 0, 16, 1).to_bytes())
        tasks = [{"id": n, "do": "try", "candidate": {"trace": [[], []]}, "limit": 60.0} for n in range(8)]
        found = list(cluster.run(tasks, time.monotonic() + 120))
        assert sorted(t["id"] for t, _ in found) == list(range(8)) and all(r["seconds"] > 0 for _, r in found)
        assert list(cluster.run([{**tasks[0], "id": 99}], time.monotonic() - 1)) == [], "no time, no result"
    finally:
        cluster.close()


def test_nobody_at_the_address(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(TVMagicError, match="`tcp://127.0.0.1:1`"):
        tune_operator(operator("rows", ROWS), 2, on="tcp://127.0.0.1:1")
    with refuses("tune.no_scheduler"):
        tune_operator(operator("rows", ROWS), 2, on="nonsense://x")


def test_without_dask_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "distributed", None)
    with refuses("tune.missing_package") as caught:
        tune_operator(operator("rows", ROWS), 2, on="tcp://127.0.0.1:1")
    assert "tvmagic[cluster]" in str(caught.value)


def test_a_result_that_went_with_its_worker_is_lost_and_not_an_error() -> None:
    """The task was done, and its worker is killed before the result has been fetched: Dask cancels the future then."""
    from concurrent.futures import CancelledError

    from tvmagic.tune.cluster import result_of

    class Fetched:
        status = "finished"

        def result(self) -> None:
            raise CancelledError("_work-1 cancelled for reason: unknown.")

    assert result_of(Fetched()) is None
