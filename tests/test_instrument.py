"""Instruments of passes."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

import tvmagic
from tvmagic import tir
from tvmagic.instrument import (
    DumpIR,
    PassInstrument,
    PassPrintingInstrument,
    PassTimingInstrument,
    PrintAfterAll,
    PrintBeforeAll,
    pass_instrument,
)
from tvmagic.ir import IRModule, PrimFunc
from tvmagic.passes import PassContext, Sequential

MODULE = IRModule({"main": PrimFunc([], tir.Evaluate(1))})
PASSES = Sequential([tir.transform.Simplify(), tir.transform.RemoveNoOp()])


@pass_instrument
class Calls:
    """Keeps what it is told."""

    def __init__(self, skipped: str = "", failing: str = "") -> None:
        self.skipped, self.failing = skipped, failing
        self.told: list[str] = []

    def tell(self, call: str, info: Any = None) -> None:
        self.told.append(call if info is None else f"{call} {info.name}")
        if call == self.failing:
            raise ValueError(f"{call} fails")

    def enter_pass_ctx(self) -> None:
        self.tell("enter")

    def exit_pass_ctx(self) -> None:
        self.tell("exit")

    def should_run(self, mod: Any, info: Any) -> bool:
        return info.name != self.skipped

    def run_before_pass(self, mod: Any, info: Any) -> None:
        self.tell("before", info)

    def run_after_pass(self, mod: Any, info: Any) -> None:
        self.tell("after", info)


def test_an_instrument_sees_passes_and_those_that_they_run() -> None:
    calls = Calls()
    assert isinstance(calls, PassInstrument) and calls.name == "Calls"
    with PassContext(instruments=[calls]):
        PASSES(MODULE)
    names = ["before sequential", "before tir.Simplify", "after tir.Simplify", "before tir.RemoveNoOp"]
    assert calls.told == ["enter", *names, "after tir.RemoveNoOp", "after sequential", "exit"]


def test_one_instrument_that_says_no_is_enough() -> None:
    first, second = Calls(skipped="tir.Simplify"), Calls()
    with PassContext(instruments=[first, second]):
        PASSES(MODULE)
    assert not any("tir.Simplify" in call for call in first.told + second.told)
    assert "after tir.RemoveNoOp" in second.told


def test_instruments_that_fail_are_out_of_use() -> None:
    first, second, third = Calls(), Calls(failing="enter"), Calls()
    context = PassContext(instruments=[first, second, third])
    with pytest.raises(ValueError, match="enter fails"), context:
        pass
    assert (first.told, second.told, third.told) == (["enter", "exit"], ["enter"], [])
    assert context.instruments == () and PassContext.current() is not context

    first, second = Calls(failing="exit"), Calls()
    context = PassContext(instruments=[first, second])
    with pytest.raises(ValueError, match="exit fails"), context:
        PASSES(MODULE)
    assert second.told[-1] == "after sequential" and context.instruments == ()
    assert PassContext.current() is not context


def test_instruments_are_exchanged() -> None:
    first, second = Calls(), Calls()
    with PassContext(instruments=[first]) as context:
        context.override_instruments([second])
        tir.transform.Simplify()(MODULE)
    assert first.told == ["enter", "exit"]
    assert second.told == ["enter", "before tir.Simplify", "after tir.Simplify", "exit"]


def test_times_of_passes() -> None:
    with PassContext(instruments=[PassTimingInstrument()]):
        PASSES(MODULE)
        text = PassTimingInstrument.render()
    lines = text.splitlines()
    assert [line.split(":")[0] for line in lines] == ["sequential", "\ttir.Simplify", "\ttir.RemoveNoOp"]
    assert all(re.fullmatch(r"\t?[\w.]+: \d+us \[\d+us\] \([\d.]+%; [\d.]+%\)", line) for line in lines)
    assert PassTimingInstrument.render() == ""


def test_what_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    with PassContext(instruments=[PrintBeforeAll(), PrintAfterAll()]):
        tir.transform.Simplify()(MODULE)
    printed = capsys.readouterr().out
    info = "The meta data of the pass - pass name: tir.Simplify, opt_level: 0, required passes: []"
    assert f"Before Running Pass: {info}\n" in printed and f"After Running Pass: {info}\n" in printed
    with PassContext(instruments=[PassPrintingInstrument(["tir.Simplify"], ["tir.RemoveNoOp"])]):
        PASSES(MODULE)
    printed = capsys.readouterr().out
    assert re.findall(r"Print IR \w+: .*", printed) == [
        "Print IR before: tir.Simplify",
        "Print IR after: tir.RemoveNoOp",
    ]


def test_programs_are_written_to_a_folder(tmp_path: Path) -> None:
    for _ in range(2):
        with PassContext(instruments=[DumpIR(tmp_path / "ir", refresh=True)]):
            PASSES(MODULE)
    files = sorted((tmp_path / "ir").iterdir())
    assert [f.name for f in files] == ["000_tir.Simplify.py", "001_tir.RemoveNoOp.py", "002_sequential.py"]
    assert tvmagic.script.from_source(files[0].read_text())


def test_the_decorator_takes_classes() -> None:
    class Quiet(PassInstrument):
        pass

    assert pass_instrument(Quiet) is Quiet and pass_instrument()(Quiet) is Quiet
    with pytest.raises(TypeError, match="`pass_instrument`.*`int`"):
        pass_instrument(3)
