"""The file of results: found again, written by several processes at once, damaged lines told."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from refusals import refuses

from tvmagic.errors import TVMagicError
from tvmagic.operators import Operator, operator
from tvmagic.tune import Database, Entry, load
from tvmagic.tune.database import VARIABLE, default_path
from tvmagic.tune.problem import program_key
from tvmagic.tune.worker import machine_kind

TRACE = [[["GetBlock", [], ["Y", "main"], ["b0"]]], []]


def entry(seconds: float = 1.0, program: str = "p", target: str = "llvm", machine: str = "here") -> Entry:
    return Entry(program, target, machine, TRACE, seconds, [seconds, 2 * seconds], "f")


def test_entries_are_found_by_program_target_and_machine(tmp_path: Path) -> None:
    database = Database(tmp_path / "folder" / "results.jsonl")
    assert database.entries() == []
    for one in (
        entry(3.0),
        entry(1.0),
        entry(2.0, program="q"),
        entry(0.5, machine="there"),
        entry(0.1, target="llvm -x"),
    ):
        database.add(one)
    again = Database(tmp_path / "folder" / "results.jsonl")
    assert again.entries("p", "llvm", "here") == [entry(1.0), entry(3.0)]
    assert [e.seconds for e in again.entries("p", "llvm")] == [0.5, 1.0, 3.0]
    assert len(again.entries()) == 5 and again.damaged == []


WRITER = """
import sys
from tvmagic.tune.database import Database, Entry
database = Database(sys.argv[1])
print("ready", flush=True)
for n in range(int(sys.argv[3])):
    database.add(Entry(sys.argv[2], "llvm", "here", [[["GetBlock", [], ["Y" * 3000, "main"], ["b0"]]], []], n + 1.0))
"""


def test_the_best_of_a_search_is_before_lucky_times(tmp_path: Path) -> None:
    database = Database(tmp_path / "results.jsonl")
    for one in (entry(0.9), replace(entry(1.0), best=True), entry(0.8)):
        database.add(one)
    assert [e.seconds for e in database.entries("p")] == [1.0, 0.8, 0.9]


def test_two_processes_write_at_once(tmp_path: Path) -> None:
    path, count = tmp_path / "results.jsonl", 300
    command = [sys.executable, "-c", WRITER, str(path)]
    both = [subprocess.Popen([*command, name, str(count)], stdout=subprocess.DEVNULL) for name in "ab"]
    assert [process.wait(60) for process in both] == [0, 0]
    database = Database(path)
    for name in "ab":
        assert [e.seconds for e in database.entries(name)] == [n + 1.0 for n in range(count)]
    assert database.damaged == []


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="needs signals")
def test_a_process_that_is_killed_while_it_writes_loses_its_own_line_at_most(tmp_path: Path) -> None:
    path = tmp_path / "results.jsonl"
    command = [sys.executable, "-c", WRITER, str(path), "a", "1000000"]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        time.sleep(0.3)
        process.kill()
    Database(path).add(entry(0.5, program="b"))
    database = Database(path)
    assert [e.seconds for e in database.entries("b")] == [0.5]
    seconds = [e.seconds for e in database.entries("a")]
    assert seconds == [n + 1.0 for n in range(len(seconds))] and len(database.damaged) <= 1


def test_a_torn_line_does_not_take_the_next_one_with_it(tmp_path: Path) -> None:
    database = Database(tmp_path / "results.jsonl")
    database.add(entry(1.0))
    whole = database.path.read_bytes()
    for cut in (1, 2, len(whole) // 2, len(whole) - 2):
        database.path.write_bytes(whole + whole[:cut])
        database.add(entry(2.0))
        assert [e.seconds for e in database.entries()] == [1.0, 2.0]
        assert [number for number, _ in database.damaged] == [2]


@pytest.mark.parametrize(
    "line, why",
    [
        (b"{", "it is not JSON"),
        (b"\xff\xfe{}", "it is not"),
        (b"[1]", "it is not an object"),
        (b"{}", "`program` is missing"),
        (b'{"program": 1}', "`program` is a int"),
        (b"[" * 100_000, "recursion"),
        (json.dumps({**entry().__dict__, "seconds": -1}).encode(), "`seconds` is not a time"),
        (json.dumps({**entry().__dict__, "seconds": float("nan")}).encode(), "`seconds` is not a time"),
        (json.dumps({**entry().__dict__, "trace": "x"}).encode(), "`trace` is a str"),
    ],
)
def test_a_damaged_line_is_told_with_its_number_and_skipped(tmp_path: Path, line: bytes, why: str) -> None:
    database = Database(tmp_path / "results.jsonl")
    database.add(entry(1.0))
    with database.path.open("ab") as file:
        file.write(b"\n" + line + b"\n")
    database.add(entry(2.0))
    assert [e.seconds for e in database.entries()] == [1.0, 2.0]
    ((number, reason),) = database.damaged
    assert number == 3 and why in reason
    assert database.notes() == [f"line 3 of {database.path} is damaged and was skipped: {reason}"]


def test_unknown_fields_of_later_versions_are_ignored(tmp_path: Path) -> None:
    path = tmp_path / "results.jsonl"
    path.write_text(json.dumps({**entry(1.0).__dict__, "colour": "red"}) + "\n")
    assert Database(path).entries() == [entry(1.0)]


def test_a_place_that_cannot_be_written_or_read_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with refuses("tune.file_not_writable"):
        Database(tmp_path / "file" / "results.jsonl").add(entry())
    with refuses("tune.file_not_readable"):
        Database(tmp_path).entries()


def test_the_default_file(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv(VARIABLE, str(tmp_path / "mine.jsonl"))
    assert default_path() == tmp_path / "mine.jsonl" == Database().path
    monkeypatch.delenv(VARIABLE)
    monkeypatch.setenv("TVMAGIC_CACHE", str(tmp_path))
    assert default_path() == tmp_path / "tuned.jsonl"


# ---------------------------------------------------------------------------- load


@pytest.fixture
def op() -> Operator:
    return operator("rows", "X: float32[60, 640]\nY[i] += X[i, k]")


def kept(op: Operator, path: Path, machine: str = "", seconds: float = 1.0, change: str = "") -> Database:
    """A database with a schedule of the operator."""
    from tvmagic.target import resolved

    sch = op.schedule()
    sch.parallel(sch.get_loops(sch.get_block("Y"))[0])
    trace = json.loads(json.dumps(sch.trace.as_json()).replace("Y", change or "Y"))
    database = Database(path)
    key = program_key(op.to_prim_func())
    database.add(Entry(key, str(resolved(None)), machine or machine_kind(), trace, seconds, [seconds], op.name))
    return database


def test_load_finds_a_schedule_without_a_trial(op: Operator, tmp_path: Path) -> None:
    database = kept(op, tmp_path / "results.jsonl")
    other = operator("another_name", "X: float32[60, 640]\nY[i] += X[i, k]")  # the structure is what counts
    result = load(other, database.path, name="fast")
    assert result.trials == () and [i.kind.method for i in result.version.schedule.trace.insts][-1] == "parallel"
    assert (other.current is result.version) == result.choice.current
    assert {s.name for s in result.choice.standings} >= {"plain", "NumPy"}
    (x,) = other.random_inputs(0)
    np.testing.assert_allclose(result.version(x), x.sum(1), rtol=1e-4, atol=1e-4)


def test_load_says_what_it_does_not_find(op: Operator, tmp_path: Path) -> None:
    with pytest.raises(TVMagicError, match="`.*nothing.jsonl`"):
        load(op, tmp_path / "nothing.jsonl")
    (tmp_path / "empty.jsonl").write_text("")
    with pytest.raises(TVMagicError, match="`rows`"):
        load(op, tmp_path / "empty.jsonl")
    database = kept(op, tmp_path / "results.jsonl", change="nobody")
    with pytest.raises(TVMagicError, match="`rows`"):
        load(op, database.path)
    assert not op.versions


def test_a_schedule_of_another_machine_is_told(op: Operator, tmp_path: Path) -> None:
    database = kept(op, tmp_path / "results.jsonl", machine="z80, 1 threads")
    with database.path.open("a") as file:
        file.write("oops\n")
    notes = load(op, database.path).notes
    assert any("another kind of machine: z80" in note for note in notes)
    assert any("line 2" in note for note in notes)
    assert os.path.exists(database.path)
