"""The magics that define operators and schedule them: %%tensor, %%schedule and %auto."""

from __future__ import annotations

import builtins
import inspect
import keyword
import re
import sys
from argparse import Namespace
from collections.abc import Sequence
from typing import Any

from IPython.core.error import UsageError
from IPython.display import display

from tvmagic.errors import TVMagicError
from tvmagic.notebook import commands
from tvmagic.notebook.arguments import Idle, argument, magic
from tvmagic.notebook.magic_arguments import (
    AGAINST,
    CHECK,
    CHECK_TARGET,
    HIDE,
    IDLE,
    INPUTS,
    NAME,
    ONLY,
    PROVE,
    SHOWS,
    SIZE,
    TIME,
    VERIFY,
    kept,
)
from tvmagic.notebook.magic_names import MagicNames
from tvmagic.notebook.proofs import proof_marks, prove
from tvmagic.notebook.results import Parts, Passes, Shown, Table
from tvmagic.operators import Operator, Source, Version, operator_from_cell
from tvmagic.operators.inputs import Inputs
from tvmagic.operators.races import refuse_races
from tvmagic.operators.scheduling import blame, schedule_from_cell
from tvmagic.passes import Record

_TAKEN = (
    "s",
    "sch",
    "ir_sch",
    "T",
    "I",
    "te",
    "tir",
    "np",
    "tvmagic",
    "tvm",
    "knob",
)  # what cells have without an import


class SchedulingMagics(MagicNames):
    """The magics whose cells make operators and versions of them."""

    @magic(
        "Define an operator by index notation, calls of te, or a @T.prim_func function. What is read and then written "
        "is an argument and a result: NAME(a) gives new values in an array of their own, NAME(a, out=a) writes them in "
        "place.",
        argument("name", metavar="NAME", help="the name of the operator"),
        argument("-q", "--quiet", action="store_true", help="show nothing"),
        argument("--code", action="store_true", help="show the plain loops, unfolded"),
        argument("--auto", action="store_true", help="go on with %%auto NAME --check --time"),
        CHECK,
        AGAINST,
        TIME,
        SIZE,
        cell=True,
        example="%%tensor dense",
        idle=[
            Idle(("--code",), ("--quiet",)),
            Idle(("--size",), ("--check", "--time", "--auto"), without=True),
            Idle(("--against",), ("--check", "--auto"), without=True),
        ],
    )
    def tensor(self, arguments: Namespace, cell: str) -> None:
        name = arguments.name
        if not name.isidentifier() or keyword.iskeyword(name):
            raise UsageError(f"%%tensor: `{name}` is not a name that Python can use (see %%tensor?)")
        hidden = self._hidden_by(name)
        source = Source(f"tensor {name}", f"%%tensor {arguments.line}\n{cell}")
        op = operator_from_cell(source, name, self.namespace, self.dtype)
        self.namespace[name] = op
        if hidden:
            print(f"`{name}` was {hidden}; now it is this operator", file=sys.stderr)
        for remark in op.remarks:
            print(remark, file=sys.stderr)
        if not arguments.quiet:
            display(self._operator_view(op, arguments.code))
        if arguments.auto:
            assert self.shell is not None
            size = f" --size {arguments.size}" if arguments.size else ""
            against = f" --against {arguments.against}" if arguments.against else ""
            self.shell.run_line_magic("auto", f"{name} --check --time{size}{against}{' --quiet' * arguments.quiet}")
        elif arguments.check or arguments.time:
            self._show_plain(op, arguments)

    def _show_plain(self, op: Operator, arguments: Namespace) -> None:
        """Check and measure an operator before anything is scheduled."""
        size = self._size_for(arguments, "%%tensor", op)
        parts: list[Shown] = (
            [commands.check_result(op.plain, sizes=size, against=self._against(arguments))] if arguments.check else []
        )
        if arguments.time:
            parts.append(commands.bench(op.plain, seconds=self.bench_seconds, size=size))
        shown = Parts(*parts, title=op.name)
        shown.of = self.definition_of(op.name)
        display(shown)

    def _hidden_by(self, name: str) -> str:
        """What of the user's an operator of this name would replace, in words; a name that cells need is refused."""
        old = self.namespace.get(name, getattr(builtins, name, None))
        if inspect.ismodule(old) or name in _TAKEN:
            what = f"the module {old.__name__}" if inspect.ismodule(old) else "a name that cells have"
            raise UsageError(f"%%tensor: `{name}` is {what}; give the operator another name")
        if old is None or isinstance(old, Operator):
            return ""
        kind = "function" if callable(old) else type(old).__name__
        return f"{'an' if kind[0] in 'aeiou' else 'a'} {kind}"

    def _operator_view(self, op: Operator, unfolded: bool) -> Shown:
        from tvmagic.notebook.display import operator_view

        return operator_view(op, graph=self.show_graph, unfolded=unfolded)

    @magic(
        "Schedule an operator by calls on `s` (TE), `sch` (TensorIR) or `ir_sch` (CINN), and compile it.",
        NAME,
        ONLY,
        kept("default"),
        CHECK,
        AGAINST,
        TIME,
        VERIFY,
        PROVE,
        argument("--play", action="store_true", help="make sliders of knob(32, [8, 16, 32, 64])"),
        argument("--cost", action="store_true", help="count what each loop costs"),
        SIZE,
        CHECK_TARGET,
        HIDE,
        argument("-q", "--quiet", action="store_true", help="do not show the timeline"),
        cell=True,
        example="%%schedule dense --check --time",
        idle=[Idle((*SHOWS, "--target", "--quiet"), ("--play",)), *IDLE],
    )
    def schedule(self, arguments: Namespace, cell: str) -> None:
        op = self._operator(arguments.name, "%%schedule")
        self._check_name(arguments.version, "%%schedule")
        self._size_for(arguments, "%%schedule", op)
        source = Source(f"schedule {op.name}", f"%%schedule {arguments.line}\n{cell}")
        if arguments.play:
            from tvmagic.notebook.knob_playground import playground

            display(playground(op, source, arguments.version, self.namespace))
            return
        self._schedule(op, source, arguments)

    def _check_name(self, version: str, magic: str) -> None:
        if magic == "%tune" and version.isdigit():
            raise UsageError(
                f"{magic}: `{version}` cannot be the name of a schedule; `--trials {version}` is how many to try"
            )
        if not re.fullmatch(r"[\w.-]+", version):
            raise UsageError(f"{magic}: `{version}` cannot be the name of a schedule (see {magic}?)")

    def _schedule(
        self,
        op: Operator,
        source: Source,
        arguments: Namespace,
        decisions: Sequence[str] = (),
        inputs: Inputs | None = None,
    ) -> None:
        """Run a schedule's cell, keep the version and show what it was."""
        record = Record(title=op.name)
        only = self._pass_names(arguments.passes)
        try:
            version = schedule_from_cell(op, source, arguments.version, self.namespace, record)
            record = commands.record_of(version, self._target(arguments.target), self.show_code)
            refuse_races(version)
        except TVMagicError as error:
            blame(record, error)
            if op.attempt is not None and record.steps and not arguments.quiet:
                display(Passes(record, None, self.show_unchanged))
            raise
        version.record = record
        op.add_version(version)
        self._show_version(version, arguments, only, decisions, inputs)

    @magic(
        "Schedule an operator at once, by rules and a model of the machine; nothing is measured.",
        NAME,
        ONLY,
        argument("--cell", action="store_true", help="write the schedule as a cell to edit, and run nothing"),
        kept("auto"),
        CHECK,
        AGAINST,
        TIME,
        VERIFY,
        PROVE,
        argument("--cost", action="store_true", help="count what each loop costs"),
        SIZE,
        INPUTS,
        CHECK_TARGET,
        HIDE,
        argument("-q", "--quiet", action="store_true", help="do not show the timeline"),
        example="%auto dense --check --time",
        idle=[
            Idle((*SHOWS, "--quiet", "--inputs"), ("--cell",)),
            Idle(("--inputs",), ("--check", "--time"), without=True),
            *IDLE,
        ],
    )
    def auto(self, arguments: Namespace) -> None:
        from tvmagic.notebook.machine import auto_source, source_of

        op = self._operator(arguments.name, "%auto")
        self._check_name(arguments.version, "%auto")
        self._size_for(arguments, "%auto", op)
        text, instant = auto_source(op, self._target(arguments.target), arguments.version)
        if arguments.cell:
            assert self.shell is not None
            self.shell.set_next_input(text)
            return
        self._schedule(op, source_of(op, text), arguments, instant.texts, self._inputs(arguments, "%auto"))

    def _show_version(
        self,
        version: Version,
        arguments: Any,
        only: list[str] | None,
        decisions: Sequence[str] = (),
        inputs: Inputs | None = None,
    ) -> None:
        record = version.record
        assert record is not None
        marks = commands.verify_marks(record, version.operator) if arguments.verify else ()
        proved = prove(version) if arguments.prove else None
        if proved is not None:
            marks = proof_marks(record, proved.proof, marks)
        if not arguments.quiet:
            shown = Passes(record, only, self.show_unchanged and not arguments.hide, marks)
            shown.version = version
            display(shown)
        parts: list[Shown] = [] if proved is None else [proved]
        if decisions:
            rows = [[number + 1, text] for number, text in enumerate(decisions)]
            parts.append(Table(["", "decision"], rows, f"{version.operator.name}: the instant schedule"))
        if arguments.quiet and arguments.verify:
            parts.append(commands.verify_table(version, marks))
        size = self._size_for(arguments, "%%schedule", version.operator)
        if arguments.check:
            target, against = self._named_target(arguments.target), self._against(arguments)
            parts.append(commands.check_result(version, sizes=size, target=target, against=against, inputs=inputs))
        if arguments.cost:
            from tvmagic.notebook.costs import cost_view

            parts.append(cost_view(version))
        if arguments.time:
            times = commands.bench(version, seconds=self.bench_seconds, size=size, inputs=inputs)
            if arguments.target and commands.target_text(arguments.target) != commands.target_text(self.target):
                times.notes.append(f"the times are those of code for this machine, not for `{arguments.target}`")
            parts.append(times)
        if parts:
            checked = Parts(*parts, title=version.operator.name)
            checked.of = self.definition_of(version.operator.name)
            display(checked)
