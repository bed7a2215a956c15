"""The magics: each parses its line, calls a function of `commands`, and shows the result."""

from __future__ import annotations

import difflib
import keyword
import re
from typing import Any

import numpy as np
import traitlets
from IPython.core.error import UsageError
from IPython.core.magic import Magics, cell_magic, line_magic, magics_class
from IPython.display import display

from tvmagic.errors import TVMagicError
from tvmagic.notebook import commands
from tvmagic.notebook.arguments import Arguments, Choice, did_you_mean, documented, duration, positive
from tvmagic.notebook.results import Parts, Passes, Shown
from tvmagic.operators import Operator, Source, Version, operator_from_cell
from tvmagic.operators.expressions import DTYPES
from tvmagic.operators.races import refuse_races
from tvmagic.operators.scheduling import schedule_from_cell
from tvmagic.passes import Record

__all__ = ["MAGICS", "TensorMagics"]

MAGICS = ("tensor", "schedule", "passes", "bounds", "graph", "asm", "llvm", "bench", "compare", "tune")


def _named(magic: str, description: str, *, version: bool = True) -> Arguments:
    """The parser of a magic that takes an operator, and which of its schedules."""
    parser = Arguments(magic, description)
    parser.add_argument("name", metavar="NAME", help="the operator")
    if version:
        parser.add_argument("-v", "--version", metavar="V", help="which of its schedules (the last unless told)")
    return parser


def _tensor_parser() -> Arguments:
    text = (
        "Define an operator by index notation, calls of te, or a @T.prim_func function. What is read and then written "
    )
    text += "is an argument and a result: NAME(a) gives new values in an array of their own, NAME(a, out=a) writes them in place."
    parser = Arguments("%%tensor", text)
    parser.add_argument("name", metavar="NAME", help="the name of the operator")
    parser.add_argument("-q", "--quiet", action="store_true", help="show nothing")
    parser.add_argument("-c", "--code", action="store_true", help="show the plain loops, unfolded")
    return parser


def _schedule_parser() -> Arguments:
    parser = Arguments("%%schedule", "Schedule an operator by calls on `s` (TE) or `sch` (TensorIR), and compile it.")
    parser.add_argument("name", metavar="NAME", help="the operator")
    parser.add_argument("-p", "--passes", metavar="A,B", help="show only these passes")
    parser.add_argument("-n", "--name", dest="version", metavar="V", default="default", help="keep the schedule as V")
    parser.add_argument(
        "-c", "--check", action="store_true", help="compare with NumPy on random inputs, look for races"
    )
    parser.add_argument("-t", "--time", action="store_true", help="measure, with NumPy beside it")
    parser.add_argument("--verify", action="store_true", help="run the program after every step and compare with NumPy")
    parser.add_argument("--play", action="store_true", help="make sliders of knob(32, [8, 16, 32, 64])")
    parser.add_argument("--cost", action="store_true", help="count what each loop costs")
    parser.add_argument("--size", type=positive, default=16, metavar="N", help="the value of symbolic sizes (16)")
    parser.add_argument("--target", metavar="T", help="what to compile for (this machine)")
    parser.add_argument("--hide", action="store_true", help="hide passes that changed nothing")
    parser.add_argument("-q", "--quiet", action="store_true", help="do not show the timeline")
    return parser


def _passes_parser() -> Arguments:
    parser = _named("%passes", "Step through the schedule calls and passes of an operator.")
    parser.add_argument("-p", "--passes", metavar="A,B", help="show only these passes")
    parser.add_argument("--target", metavar="T", help="what to compile for (this machine)")
    parser.add_argument("--hide", action="store_true", help="hide passes that changed nothing")
    parser.add_argument("--verify", action="store_true", help="run the program after every step and compare with NumPy")
    parser.add_argument("--text", action="store_true", help="show text instead of the stepper")
    return parser


def _bounds_parser() -> Arguments:
    parser = _named("%bounds", "The ranges of all iteration variables, and the phases of InferBound.")
    parser.add_argument("-r", "--ranges", action="store_true", help="the ranges alone, without the phases")
    return parser


_VIEWS = ("stages", "iters", "blocks", "regions", "access")


def _graph_parser() -> Arguments:
    parser = _named("%graph", "Pictures of an operator and its schedule.")
    parser.add_argument(
        "-k", "--kind", type=Choice(*_VIEWS), default=None, metavar="KIND", help=f"one of {', '.join(_VIEWS)}"
    )
    parser.add_argument("-s", "--stage", metavar="STAGE", help="the stage or buffer to draw")
    return parser


def _code_parser(magic: str, what: str) -> Arguments:
    parser = _named(magic, f"The {what} of an operator, for this machine or another.")
    known = ", ".join(commands.TARGETS)
    parser.add_argument("--target", metavar="T", help=f"{known}, or a full target such as 'llvm -mcpu=znver4'")
    if magic == "%llvm":
        parser.add_argument("--raw", action="store_true", help="before LLVM's own passes")
    return parser


def _bench_parser() -> Arguments:
    parser = _named("%bench", "Measure the schedules of an operator beside NumPy.")
    parser.add_argument(
        "--against", metavar="F", help="a function of the inputs to compare with besides, such as np.dot"
    )
    parser.add_argument("--seconds", type=duration, metavar="S", help="how long to measure each (0.2)")
    parser.add_argument("--size", type=positive, default=256, metavar="N", help="the value of symbolic sizes (256)")
    return parser


def _compare_parser() -> Arguments:
    parser = Arguments("%compare", "Two schedules side by side: the first pass where they part, and their costs.")
    parser.add_argument(
        "first", metavar="A", help="an operator, a version that one operator alone has, or OPERATOR:VERSION"
    )
    parser.add_argument("second", metavar="B", help="an operator, a version of the first, or OPERATOR:VERSION")
    parser.add_argument("-t", "--time", action="store_true", help="measure both")
    return parser


def _tune_parser() -> Arguments:
    parser = Arguments("%tune", "Search for a fast schedule of an operator.")
    parser.add_argument("name", metavar="NAME", help="the operator")
    parser.add_argument("--trials", type=positive, default=64, metavar="N", help="how many schedules to try (64)")
    parser.add_argument(
        "--seconds", type=duration, default=60.0, metavar="S", help="begin no more after this time (60)"
    )
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="where the random choices start (0)")
    parser.add_argument("-n", "--name", dest="version", metavar="V", default="tuned", help="keep the best as V (tuned)")
    parser.add_argument("--size", type=positive, default=256, metavar="N", help="the value of symbolic sizes (256)")
    return parser


PARSERS = {
    "tensor": _tensor_parser(),
    "schedule": _schedule_parser(),
    "passes": _passes_parser(),
    "bounds": _bounds_parser(),
    "graph": _graph_parser(),
    "asm": _code_parser("%asm", "assembly"),
    "llvm": _code_parser("%llvm", "LLVM IR"),
    "bench": _bench_parser(),
    "compare": _compare_parser(),
    "tune": _tune_parser(),
}


@magics_class
class TensorMagics(Magics):
    """The magics of tvmagic; the traits below are their defaults (`%config TensorMagics`)."""

    target = traitlets.Unicode("", help="The target that is compiled for; empty for this machine.").tag(config=True)
    dtype = traitlets.Enum(
        sorted(DTYPES), "float32", help="The data type of declarations without one, such as X: [128, 256]."
    ).tag(config=True)
    show_unchanged = traitlets.Bool(True, help="Show passes that changed nothing (dimmed).").tag(config=True)
    show_graph = traitlets.Bool(True, help="Show the graph of stages after %%tensor.").tag(config=True)
    show_code = traitlets.Bool(True, help="End a timeline with LLVM IR and assembly.").tag(config=True)
    bench_seconds = traitlets.Float(0.2, min=1e-3, help="How long %bench and --time measure each, in seconds.").tag(
        config=True
    )
    theme = traitlets.Enum(
        ["auto", "light", "dark"], "auto", help="Colours: those of the page (auto), light or dark."
    ).tag(config=True)

    @traitlets.observe("theme")
    def _theme_changed(self, change: Any) -> None:
        from tvmagic.notebook.html import set_theme

        set_theme(change["new"])

    # ------------------------------------------------------------------------ cells

    @documented(PARSERS["tensor"])
    @cell_magic
    def tensor(self, line: str, cell: str) -> None:
        arguments = PARSERS["tensor"].read(line)
        name = arguments.name
        if not name.isidentifier() or keyword.iskeyword(name):
            raise UsageError(f"%%tensor: `{name}` is not a name that Python can use (see %%tensor?)")
        source = Source(f"tensor {name}", f"%%tensor {line}\n{cell}")
        op = operator_from_cell(source, name, self.namespace, self.dtype)
        self.namespace[name] = op
        if not arguments.quiet:
            display(self._operator_view(op, arguments.code))

    def _operator_view(self, op: Operator, unfolded: bool) -> Shown:
        from tvmagic.notebook.display import operator_view

        return operator_view(op, graph=self.show_graph, unfolded=unfolded)

    @documented(PARSERS["schedule"])
    @cell_magic
    def schedule(self, line: str, cell: str) -> None:
        arguments = PARSERS["schedule"].read(line)
        op = self._operator(arguments.name, "%%schedule")
        if not re.fullmatch(r"[\w.-]+", arguments.version):
            raise UsageError(f"%%schedule: `{arguments.version}` cannot be the name of a schedule (see %%schedule?)")
        source = Source(f"schedule {op.name}", f"%%schedule {line}\n{cell}")
        if arguments.play:
            from tvmagic.notebook.playing import playground

            display(playground(op, source, arguments.version, self.namespace))
            return
        record = Record(title=op.name)
        only = self._pass_names(arguments.passes)
        try:
            version = schedule_from_cell(op, source, arguments.version, self.namespace, record)
            record = commands.record_of(version, self._target(arguments.target), self.show_code)
            refuse_races(version)
        except TVMagicError:
            if op.attempt is not None and record.steps and not arguments.quiet:
                display(Passes(record, None, self.show_unchanged))
            raise
        version.record = record
        op.add_version(version)
        self._show_version(version, arguments, only)

    def _show_version(self, version: Version, arguments: Any, only: list[str] | None) -> None:
        record = version.record
        assert record is not None
        marks = commands.verify_marks(record, version.operator) if arguments.verify else ()
        if not arguments.quiet:
            display(Passes(record, only, self.show_unchanged and not arguments.hide, marks))
        parts: list[Shown] = []
        if arguments.quiet and arguments.verify:
            parts.append(commands.verify_table(version, marks))
        if arguments.check:
            parts.append(commands.check_result(version, sizes=arguments.size))
        if arguments.cost:
            from tvmagic.notebook.costs import cost_view

            parts.append(cost_view(version))
        if arguments.time:
            parts.append(commands.bench(version, seconds=self.bench_seconds, size=max(arguments.size, 16)))
        if parts:
            display(Parts(*parts, title=version.operator.name))

    # ------------------------------------------------------------------------ lines

    @documented(PARSERS["passes"])
    @line_magic
    def passes(self, line: str) -> Any:
        arguments = PARSERS["passes"].read(line)
        version = self._version(arguments, "%passes")
        shown = commands.passes(
            version,
            self._pass_names(arguments.passes),
            target=self._target(arguments.target),
            show_unchanged=self.show_unchanged and not arguments.hide,
            code=self.show_code,
            verify=arguments.verify,
        )
        if arguments.text:
            print(shown.text())
            return None
        return shown

    @documented(PARSERS["bounds"])
    @line_magic
    def bounds(self, line: str) -> Shown:
        arguments = PARSERS["bounds"].read(line)
        return commands.bounds(self._version(arguments, "%bounds"), phases=not arguments.ranges)

    @documented(PARSERS["graph"])
    @line_magic
    def graph(self, line: str) -> Shown:
        arguments = PARSERS["graph"].read(line)
        from tvmagic.notebook.pictures import graph

        return graph(self._version(arguments, "%graph"), arguments.kind, arguments.stage)

    @documented(PARSERS["asm"])
    @line_magic
    def asm(self, line: str) -> Shown:
        arguments = PARSERS["asm"].read(line)
        return commands.asm(self._version(arguments, "%asm"), arguments.target or self.target)

    @documented(PARSERS["llvm"])
    @line_magic
    def llvm(self, line: str) -> Shown:
        arguments = PARSERS["llvm"].read(line)
        version = self._version(arguments, "%llvm")
        return commands.llvm(version, arguments.target or self.target, optimize=not arguments.raw)

    @documented(PARSERS["bench"])
    @line_magic
    def bench(self, line: str) -> Shown:
        arguments = PARSERS["bench"].read(line)
        op = self._operator(arguments.name, "%bench")
        versions = [arguments.version] if arguments.version else None
        against = self._function(arguments.against) if arguments.against else None
        return commands.bench(op, versions, arguments.seconds or self.bench_seconds, arguments.size, against)

    @documented(PARSERS["compare"])
    @line_magic
    def compare(self, line: str) -> Shown:
        arguments = PARSERS["compare"].read(line)
        from tvmagic.notebook.comparing import compare

        first = self._version_text(arguments.first, None)
        second = self._version_text(arguments.second, first.operator)
        return compare(first, second, time=arguments.time)

    @documented(PARSERS["tune"])
    @line_magic
    def tune(self, line: str) -> Any:
        arguments = PARSERS["tune"].read(line)
        from tvmagic.notebook.tuning import tune

        op = self._operator(arguments.name, "%tune")
        return tune(op, arguments.trials, arguments.seconds, arguments.seed, arguments.version, arguments.size)

    # ------------------------------------------------------------------------ names

    @property
    def namespace(self) -> dict[str, Any]:
        """The user's names."""
        assert self.shell is not None
        return self.shell.user_ns

    def operators(self) -> dict[str, Operator]:
        """The operators among the user's names."""
        return {n: v for n, v in self.namespace.items() if isinstance(v, Operator) and not n.startswith("_")}

    def _operator(self, name: str, magic: str) -> Operator:
        found = self.namespace.get(name)
        if isinstance(found, Operator):
            return found
        known = sorted(self.operators())
        close = difflib.get_close_matches(name, known, n=1, cutoff=0.4)
        hint = (
            f"; did you mean `{close[0]}`?"
            if close
            else f"; there are {', '.join(known)}"
            if known
            else "; write %%tensor first"
        )
        raise UsageError(f"{magic}: there is no operator `{name}`{hint}")

    def _version(self, arguments: Any, magic: str) -> Version:
        op = self._operator(arguments.name, magic)
        try:
            return op.version(arguments.version)
        except TVMagicError as error:
            raise UsageError(f"{magic}: {error.message}; {error.hint}") from None

    def _function(self, text: str) -> tuple[str, Any]:
        """A function of the user by its name, such as `f` or `np.dot`."""
        first, *rest = text.split(".")
        value = np if first == "np" else self.namespace.get(first)
        for name in rest:
            value = getattr(value, name, None)
        if not callable(value):
            hidden = self.shell.user_ns_hidden if self.shell is not None else {}
            known = [n for n, v in self.namespace.items() if callable(v) and n not in hidden]
            raise UsageError(f"%bench: there is no function `{text}`{did_you_mean(text, known)}")
        return text, value

    def _version_text(self, text: str, default: Operator | None) -> Version:
        """`OPERATOR`, `OPERATOR:VERSION`, or a version of `default`."""
        name, _, version = text.partition(":")
        if name not in self.operators():
            if default is not None and (text in default.versions or text == "plain"):
                return default.version(text)
            owners = {id(op): op for op in self.operators().values() if text in op.versions}
            if len(owners) == 1:
                return next(iter(owners.values())).version(text)
            if owners:
                known = " and ".join(f"`{op.name}:{text}`" for op in owners.values())
                raise UsageError(f"%compare: there are {known}; write one of them")
        op = self._operator(name, "%compare")
        try:
            return op.version(version or None)
        except TVMagicError as error:
            raise UsageError(f"%compare: {error.message}; {error.hint}") from None

    def _target(self, text: str | None) -> str | None:
        return commands.target_text(text or self.target)

    @staticmethod
    def _pass_names(text: str | None) -> list[str] | None:
        return [name.strip() for name in (text or "").split(",") if name.strip()] or None
