"""The magics, each in one declaration: it calls a function of `commands` and shows the result."""

from __future__ import annotations

import os
from argparse import Namespace
from typing import Any

from IPython.core.error import UsageError
from IPython.core.magic import magics_class
from IPython.display import display

from tvmagic.ir.schedulable import NOTATIONS
from tvmagic.notebook import commands, editing, pages, proofs
from tvmagic.notebook.arguments import PARSERS, Choice, Idle, argument, duration, magic, natural, positive, size
from tvmagic.notebook.magic_arguments import (
    ASM_TARGET,
    CHECK,
    CODE_TARGET,
    HIDE,
    INPUTS,
    NAME,
    ONLY,
    PROVE,
    RUN_TARGET,
    SIZE,
    TARGET,
    TIME,
    VERIFY,
    VERSION,
    kept,
    knob,
    operator_names,
    pass_names,
    puzzle_numbers,
    target_names,
    version_names,
)
from tvmagic.notebook.results import Beside, Parts, Shown, Table
from tvmagic.notebook.scheduling_magics import SchedulingMagics
from tvmagic.operators import Operator, Source, Version

_VIEWS = ("stages", "iters", "blocks", "regions", "access")


@magics_class
class TensorMagics(SchedulingMagics):
    """All magics of tvmagic."""

    @magic(
        "The machine that schedules are made for: vectors, caches, cores, what it reaches, and a roofline.",
        argument(
            "names", metavar="NAME", nargs="*", help="operators to place on the roofline", completes=operator_names
        ),
        TARGET,
        argument("--again", action="store_true", help="measure again what is kept from an earlier session"),
        SIZE,
        example="%machine dense",
    )
    def machine(self, arguments: Namespace) -> Shown:
        from tvmagic.notebook.machine import machine

        operators = [self._operator(name, "%machine") for name in arguments.names]
        size = self._size_for(arguments, "%machine", *operators)
        return machine(self._target(arguments.target), operators, size, arguments.again)

    @magic(
        "Step through the schedule calls and passes of an operator.",
        NAME,
        VERSION,
        ONLY,
        TARGET,
        HIDE,
        VERIFY,
        argument("--text", action="store_true", help="show text instead of the stepper"),
        argument(
            "--notation",
            type=Choice(*NOTATIONS),
            metavar="N",
            help="how programs are written: tvmscript, classic (TVM before TVMScript) or cinn; by default cinn for an operator "
            "that is written in CINN's text, as long as that says the whole program, else tvmscript",
        ),
        argument(
            "--html", metavar="FILE", help="write a page that shows all steps and runs the operator in WebAssembly"
        ),
        argument(
            "--knob",
            action="append",
            metavar="K=A,B",
            help="with --html: a slider with these values for a knob of the schedule's cell",
        ),
        argument("--size", type=size, metavar="N", help=f"with --html: the value of symbolic sizes ({pages.SIZE})"),
        INPUTS,
        argument(
            "--llvm",
            type=Choice("loops", "all", "none"),
            metavar="W",
            help="LLVM's own passes: loops (those that change loops, the others between them as one step), all or none; "
            "loops by default, none with --html",
        ),
        example="%passes dense -p InferBound,VectorizeLoop",
        idle=[
            Idle(("--knob", "--size", "--inputs"), ("--html",), without=True),
            # the page has all passes, for wasm32
            Idle(("--passes", "--target", "--hide", "--verify", "--text", "--notation"), ("--html",)),
        ],
    )
    def passes(self, arguments: Namespace) -> Any:
        version = self._version(arguments, "%passes")
        if arguments.html:
            return self._page(version, arguments)
        shown = commands.passes(
            version,
            self._pass_names(arguments.passes),
            target=self._target(arguments.target),
            show_unchanged=self.show_unchanged and not arguments.hide,
            code=self.show_code,
            verify=arguments.verify,
            notation=arguments.notation,
            llvm=arguments.llvm or "loops",
        )
        if arguments.text:
            print(shown.text())
            return None
        return shown

    def _page(self, version: Version, arguments: Namespace) -> None:
        """Write the page of a version."""
        knobs = dict(knob(text) for text in arguments.knob) if arguments.knob else None
        path = pages.page(
            version,
            os.path.expanduser(arguments.html),
            knobs,
            arguments.size or pages.SIZE,
            arguments.llvm or "none",
            self._inputs(arguments, "%passes"),
        )
        print(f"{path}: {path.stat().st_size / 1e6:.2f} MB; it needs no kernel and no network")

    @magic(
        "Prove that every step of a schedule and of the passes computes what the operator's definition says, for all inputs.",
        NAME,
        VERSION,
        argument("--seconds", type=duration, metavar="S", default=60.0, help="time for all steps (60)"),
        argument("--size", type=size, metavar="N", help="the value of symbolic sizes, by default several small ones"),
        argument("--terms", metavar="ELEMENT", help="show the term of an element such as C[3,5] after each step"),
        example="%prove dense",
    )
    def prove(self, arguments: Namespace) -> Shown:
        version = self._version(arguments, "%prove")
        return proofs.prove(version, seconds=arguments.seconds, size=arguments.size, element=arguments.terms)

    @magic(
        "The program after a step of the passes: %program NAME STEP writes it as a cell to edit, and that cell runs the "
        "passes that are left on it, compares the result with NumPy and both timelines with each other.",
        NAME,
        argument(
            "step",
            metavar="STEP",
            help="the number of a step, its name such as UnrollLoop, or Simplify:2 for the second of that name",
            completes=pass_names,
        ),
        VERSION,
        argument("--as", dest="kept", metavar="V", default="edited", help="keep the result as V (edited)"),
        TIME,
        PROVE,
        argument("-q", "--quiet", action="store_true", help="do not show the timelines"),
        either=True,
        example="%program dense VectorizeLoop",
    )
    def program(self, arguments: Namespace, cell: str | None = None) -> None:
        version = self._version(arguments, "%program")
        if cell is None:
            assert self.shell is not None
            if (flag := _given(arguments, "time", "prove", "quiet")) is not None or arguments.kept != "edited":
                raise UsageError(
                    f"%program: `--{flag or 'as'}` is for the cell that is written, whose first line it goes to"
                )
            self.shell.set_next_input(editing.cell_to_edit(version, arguments.step))
            return
        self._check_name(arguments.kept, "%%program")
        op = version.operator
        source = Source(f"program {op.name}", f"%%program {arguments.line}\n{cell}")
        source.remember()
        made = editing.edited(version, arguments.step, cell, arguments.kept, source)
        if not arguments.quiet:
            display(editing.timelines(made, self.show_code))
        parts: list[Shown] = [commands.check_result(made, sizes=op.usual_size)]
        if arguments.prove:
            parts.insert(0, proofs.prove(made))
        if arguments.time:
            parts.append(
                commands.bench(
                    op, list(dict.fromkeys([made.schedule.origin, made.name])), self.bench_seconds, op.usual_size
                )
            )
        display(Parts(*parts, title=op.name))

    @magic(
        "The ranges of all iteration variables, and the phases of InferBound.",
        NAME,
        VERSION,
        argument("-r", "--ranges", action="store_true", help="the ranges alone, without the phases"),
        example="%bounds dense",
    )
    def bounds(self, arguments: Namespace) -> Shown:
        return commands.bounds(self._version(arguments, "%bounds"), phases=not arguments.ranges)

    @magic(
        "Pictures of an operator and its schedule.",
        NAME,
        VERSION,
        argument(
            "-k", "--kind", type=Choice(*_VIEWS), default=None, metavar="KIND", help=f"one of {', '.join(_VIEWS)}"
        ),
        argument("-s", "--stage", metavar="STAGE", help="the stage or buffer to draw"),
        example="%graph dense --kind access",
    )
    def graph(self, arguments: Namespace) -> Shown:
        from tvmagic.notebook.pictures import graph

        return graph(self._version(arguments, "%graph"), arguments.kind, arguments.stage)

    @magic(
        "The assembly of an operator, for this machine or another.",
        NAME,
        VERSION,
        ASM_TARGET,
        argument(
            "--beside", metavar="T", help="show the code for a second target on the right", completes=target_names
        ),
        argument(
            "--loop",
            action="store_true",
            help="show the innermost loop alone; of several the hottest by the model",
        ),
        example="%asm dense --target aarch64",
    )
    def asm(self, arguments: Namespace) -> Shown:
        version = self._version(arguments, "%asm")
        target, loop = arguments.target or self.target, arguments.loop
        if not arguments.beside:
            return commands.asm(self._coded(arguments.name, version, target), target, loop=loop)
        left, right = (
            commands.code_listing(self._coded(arguments.name, version, t), t, loop=loop)
            for t in (target, arguments.beside)
        )
        return Beside(left, right, left.title)

    @magic(
        "The LLVM IR of an operator, for this machine or another.",
        NAME,
        VERSION,
        CODE_TARGET,
        argument("--raw", action="store_true", help="before LLVM's own passes"),
        example="%llvm dense --raw",
    )
    def llvm(self, arguments: Namespace) -> Shown:
        version = self._version(arguments, "%llvm")
        return commands.llvm(version, self._target(arguments.target), optimize=not arguments.raw)

    @magic(
        "Compare an operator with NumPy on random inputs, by a bound on rounding errors, and look for races in its loops.",
        NAME,
        VERSION,
        argument("--seed", type=natural, default=0, metavar="N", help="which random inputs (0)"),
        argument(
            "--against", metavar="F", help="compare with a function of the inputs instead of NumPy, such as np.dot"
        ),
        SIZE,
        INPUTS,
        RUN_TARGET,
        example="%check dense:auto",
    )
    def check(self, arguments: Namespace) -> Shown:
        version = self._version(arguments, "%check")
        size = self._size_for(arguments, "%check", version.operator)
        target, against = self._named_target(arguments.target), self._against(arguments)
        inputs = self._inputs(arguments, "%check")
        return commands.check_result(version, arguments.seed, size, target, against, inputs)

    @magic(
        "Measure the schedules of an operator beside NumPy: times and ratios, GFLOP/s or GB/s, and the share of this "
        "machine's peak.",
        NAME,
        argument(
            "others",
            metavar="W",
            nargs="*",
            help="with versions named, such as `%%bench dense:plain mine`: those to measure, alone",
            completes=version_names,
        ),
        VERSION,
        argument("--against", metavar="F", help="a function of the inputs to compare with besides, such as np.dot"),
        argument("--seconds", type=duration, metavar="S", help="how long to measure each (0.2)"),
        argument("--plot", action="store_true", help="draw the speeds as bars"),
        CHECK,
        SIZE,
        INPUTS,
        example="%bench dense",
    )
    def bench(self, arguments: Namespace) -> Shown:
        chosen = self._version(arguments, "%bench")
        op = chosen.operator
        named = bool(arguments.version or ":" in arguments.name or arguments.others)
        for text in arguments.others:
            if text not in self.operators() and self._is_function(text):
                raise UsageError(f"%bench: `{text}` is a function; write `%bench {arguments.name} --against {text}`")
        others = [self._version_text(text, op, "%bench") for text in arguments.others]
        if (strange := next((v for v in others if v.operator is not op), None)) is not None:
            raise UsageError(
                f"%bench: `{strange.operator.name}` is another operator than `{op.name}`; `%compare {op.name} "
                f"{strange.operator.name} --time` measures two"
            )
        versions = list(dict.fromkeys(v.name for v in (chosen, *others))) if named else None
        against, size = self._against(arguments), self._size_for(arguments, "%bench", op)
        inputs = self._inputs(arguments, "%bench")
        times = commands.bench(op, versions, arguments.seconds or self.bench_seconds, size, against, inputs)
        parts: list[Shown] = [times, times.plot()] if arguments.plot else [times]
        if arguments.check:
            checked = [chosen, *others] if named else [*op.versions.values()] or [chosen]
            parts = [*(commands.check_result(v, sizes=size, against=against, inputs=inputs) for v in checked), *parts]
        return parts[0] if len(parts) == 1 else Parts(*parts, title=times.title)

    @magic(
        "Two schedules side by side: the first pass at which they diverge, and their costs.",
        argument(
            "first",
            metavar="A",
            help="an operator, a version that one operator alone has, or OPERATOR:VERSION",
            completes=operator_names,
        ),
        argument(
            "second",
            metavar="B",
            help="an operator, a version of the first, or OPERATOR:VERSION",
            completes=lambda magics, op: [*version_names(magics, op), *operator_names(magics, op)],
        ),
        argument("-t", "--time", action="store_true", help="measure both"),
        example="%compare dense:plain dense:auto",
    )
    def compare(self, arguments: Namespace) -> Shown:
        from tvmagic.notebook.version_comparison import compare

        first = self._version_text(arguments.first, None)
        second = self._version_text(arguments.second, first.operator)
        return compare(first, second, time=arguments.time)

    @magic(
        "Why an operator takes the time that it does: where the time goes, what is wrong in words, and the calls that "
        "would help.",
        NAME,
        VERSION,
        CODE_TARGET,
        argument("--no-run", dest="run", action="store_false", help="do not measure; all follows from models"),
        SIZE,
        INPUTS,
        example="%why dense:auto",
    )
    def why(self, arguments: Namespace) -> Shown:
        from tvmagic.notebook.why import why

        version = self._version(arguments, "%why")
        size = self._size_for(arguments, "%why", version.operator)
        inputs = self._inputs(arguments, "%why")
        return why(version, self._target(arguments.target), size, arguments.run, inputs)

    @magic(
        "Search for a fast schedule of an operator: it starts from the instant schedule, measures changes of it and other "
        "structures in processes of their own, and keeps the fastest. Results are kept in a file.",
        NAME,
        argument("--seconds", type=duration, default=60.0, metavar="S", help="how long it may take in all (60)"),
        argument("--trials", type=positive, metavar="N", help="how many schedules to try at most"),
        argument("--seed", type=natural, default=0, metavar="N", help="where the random choices start (0)"),
        kept("tuned"),
        CHECK,
        argument(
            "--from",
            dest="source",
            nargs="?",
            const="",
            metavar="FILE",
            help="take it from a file of results, without a trial",
        ),
        argument("--database", metavar="FILE", help="the file in which results are kept"),
        argument("--cell", action="store_true", help="write the schedule as a cell; a search only if none is known"),
        argument("--on", metavar="ADDRESS", help="let a Dask cluster measure, such as tcp://scheduler:8786"),
        TARGET,
        SIZE,
        INPUTS,
        example="%tune dense --seconds 20",
        idle=[
            Idle(("--seconds", "--trials", "--seed", "--on"), ("--from",)),
            Idle(("--check",), ("--cell",)),
        ],
    )
    def tune(self, arguments: Namespace) -> Any:
        op, target = self._operator(arguments.name, "%tune"), self._target(arguments.target)
        self._check_name(arguments.version, "%tune")
        if arguments.source and arguments.database:
            raise UsageError("%tune: `--from FILE` and `--database FILE` name two files; write one of them")
        arguments.size = self._size_for(arguments, "%tune", op)
        arguments.inputs = self._inputs(arguments, "%tune")
        if not arguments.cell:
            found = self._tuned(op, arguments, target)
            if arguments.check:
                display(
                    commands.check_result(op.version(arguments.version), sizes=arguments.size, inputs=arguments.inputs)
                )
            return found
        from tvmagic.notebook.tuning import is_known

        if arguments.source is None and is_known(op, arguments.database, target):
            arguments.source = arguments.database or ""
        found = self._tuned(op, arguments, target)
        if self.shell is not None:
            self.shell.set_next_input(found.cell, replace=False)
        return found

    def _tuned(self, op: Operator, arguments: Namespace, target: str | None) -> Any:
        from tvmagic.notebook.tuning import tune

        places = {"database": arguments.database, "source": arguments.source, "on": arguments.on, "target": target}
        limits = {"trials": arguments.trials, "seconds": arguments.seconds, "seed": arguments.seed}
        return tune(op, name=arguments.version, size=arguments.size, inputs=arguments.inputs, **limits, **places)

    @magic(
        "The magics with an example of each, and the operators that are defined.",
        argument(
            "--tutorials",
            nargs="?",
            const="tutorials",
            metavar="FOLDER",
            help="copy the tutorials into a folder instead (tutorials), to run and to change",
        ),
        example="%tvmagic --tutorials",
    )
    def tvmagic(self, arguments: Namespace) -> Shown:
        from tvmagic.notebook.overview import overview
        from tvmagic.notebook.tutorials import copy_tutorials

        if arguments.tutorials:
            return Table(["copied"], [[str(path)] for path in copy_tutorials(arguments.tutorials)])
        return overview(PARSERS.values(), self.operators())

    # ------------------------------------------------------------------------ puzzles

    @magic(
        "Puzzles that grade themselves: %puzzle lists them, %puzzle 7 sets the task, and a cell %%puzzle 7 is the answer. It has "
        "to be legal, equal to NumPy, and within the puzzle's bounds on what the program does; nothing is timed.",
        argument(
            "puzzle", nargs="?", metavar="N", help="the puzzle's number, or the file of one", completes=puzzle_numbers
        ),
        argument("--hint", nargs="?", type=positive, const=0, metavar="K", help="the next hint, or hint K"),
        argument("--solution", action="store_true", help="show the solution"),
        argument("--cell", action="store_true", help="write the cell that one starts with"),
        argument("--forget", action="store_true", help="forget which puzzles were solved"),
        either=True,
        example="%puzzle 7",
        idle=[Idle(("--solution", "--cell"), ("--hint",)), Idle(("--cell",), ("--solution",))],
    )
    def puzzle(self, arguments: Namespace, cell: str | None = None) -> Shown | None:
        from tvmagic.notebook import puzzle_view

        if arguments.puzzle is None:
            if cell is not None:
                raise UsageError("%%puzzle: which puzzle is it? Write its number, such as %%puzzle 1")
            if (flag := _given(arguments, "hint", "solution", "cell")) is not None:
                raise UsageError(
                    f"%puzzle: which puzzle is `--{flag}` for? Write its number, such as %puzzle 1 --{flag}"
                )
            return puzzle_view.overview(arguments.forget)
        if arguments.forget:
            raise UsageError("%puzzle: `--forget` is for all puzzles; write %puzzle --forget")
        if cell is not None and (flag := _given(arguments, "hint", "solution", "cell")) is not None:
            raise UsageError(f"%%puzzle: `--{flag}` would do nothing here: the cell is the answer")
        subject = puzzle_view.puzzle_of(arguments.puzzle)
        if (op := subject.operator()) is not None and cell is None:
            self.namespace.setdefault(op.name, op)
        if cell is not None:
            judged = puzzle_view.judged(subject, cell, self.namespace)
            if judged.operator is not None:
                self.namespace[judged.operator.name] = judged.operator
            return judged
        if arguments.hint is not None:
            return puzzle_view.hint(subject, arguments.hint)
        if arguments.solution:
            return puzzle_view.solution(subject)
        if arguments.cell:
            assert self.shell is not None
            self.shell.set_next_input(puzzle_view.answer_cell(subject, subject.start))
        return puzzle_view.Task(subject)


def _given(arguments: Namespace, *names: str) -> str | None:
    """The first of some options that has a value."""
    return next(
        (name for name in names if getattr(arguments, name) is not None and getattr(arguments, name) is not False), None
    )


MAGICS = tuple(PARSERS)
