"""What a pass is, the pipeline that runs passes, and the record that is kept of a run.

A pass takes a module to a module. `Sequential` runs several; `PassContext` holds the options.
While `recording()` is open every pass that runs is kept as a `Step`: the program before and
after, the time it took, whether it changed anything, and its notes. A note is one step inside a
pass. Nothing is kept, and nothing is spent, if nobody records.
"""

from __future__ import annotations

import contextlib
import contextvars
import functools
import itertools
import re
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import FrameType
from typing import Any, TypeVar

from tvmagic.errors import TVMagicError, WrongOptionError, did_you_mean
from tvmagic.ir import IRModule, Mutator, PrimFunc, Span, Stmt
from tvmagic.ir.deep_recursion import deep
from tvmagic.ir.hooks import provided
from tvmagic.ir.node import parents_of_origins
from tvmagic.ir.origins import separate_copies
from tvmagic.ir.views import viewed
from tvmagic.pass_options import options_of

__all__ = [
    "ApplyPassToFunction",
    "ModulePass",
    "Note",
    "Pass",
    "PassContext",
    "PassInfo",
    "PrimFuncPass",
    "Record",
    "Sequential",
    "Step",
    "is_recording",
    "is_watched",
    "module_pass",
    "note",
    "prim_func_pass",
    "recording",
    "run_step",
    "user_span",
]

_T = TypeVar("_T")


@dataclass
class Note:
    """One step inside a pass, for people: what was done, to what, with which facts.

    `topic`: a short key by which tests and views find notes (`infer_bound.leaf`, `rule`);
    `text`: one sentence; `facts`: the values it speaks of, by name, in the order to show them;
    `node`: the IR node concerned, if one is.
    """

    topic: str
    text: str
    facts: dict[str, Any] = field(default_factory=dict)
    node: Any = None


@dataclass
class Step:
    """One pass, or one schedule call, as it ran.

    `kind` is `pass`, `schedule` or `codegen`. `before` and `after` are the programs (IR objects,
    schedules or texts); `after` is None if it failed, and `error` says why. `seconds` is the
    time it took. `span` is the place in the user's cell that asked for it.
    """

    name: str
    kind: str = "pass"
    before: Any = None
    after: Any = None
    seconds: float = 0.0
    changed: bool = True
    notes: list[Note] = field(default_factory=list)
    options: dict[str, Any] = field(default_factory=dict)
    error: Exception | None = None
    span: Any = None


@viewed("record")
@dataclass
class Record:
    """The steps of a run in order. Everything that a notebook shows of a run comes from here.

    `notation` is that of what the user wrote, `tvmscript` or `cinn`; None if it is not known.
    """

    steps: list[Step] = field(default_factory=list)
    title: str = ""
    sources: dict[str, str] = field(default_factory=dict)
    sides: tuple[str, str] | None = None  # of a comparison: what its programs before and after are of
    notation: str | None = None
    lowered: int = 0  # the number of steps that end with the lowered program; the passes for a target follow
    parents: dict[int, tuple[int, ...]] = field(default_factory=dict, repr=False)  # of origins that others became
    _open: list[Step] = field(default_factory=list, repr=False)

    def __iter__(self) -> Iterator[Step]:
        return iter(self.steps)

    def __len__(self) -> int:
        return len(self.steps)

    def __getitem__(self, key: int | str) -> Step:
        """A step by its place or by its name (with or without a prefix such as `tir.`)."""
        if isinstance(key, int):
            return self.steps[key]
        for step in self.steps:
            if key in (step.name, step.name.rsplit(".", 1)[-1]):
                return step
        names = list(dict.fromkeys(s.name for s in self.steps))
        meant = [n for n in names if str(key).lower() in n.lower()]
        hint = "did you mean " + " or ".join(f"`{n}`" for n in meant) + "?" if meant and key else None
        hint = hint or did_you_mean(str(key), [n.rsplit(".", 1)[-1] for n in names])
        passes = list(
            dict.fromkeys(s.name for s in self.steps if s.kind != "schedule")
        )  # calls are found by their line
        known = "the passes are " + ", ".join(f"`{n}`" for n in passes or names)
        raise TVMagicError(f"no step `{key}` ran", hint=hint or known, code="pass.step_did_not_run")

    def notes(self, topic: str | None = None) -> list[Note]:
        """The notes of all steps; those of one topic if it is given."""
        return [n for s in self.steps for n in s.notes if topic is None or n.topic == topic]


_record: contextvars.ContextVar[Record | None] = contextvars.ContextVar("tvmagic_record", default=None)


@contextlib.contextmanager
def recording(title: str = "", record: Record | None = None) -> Iterator[Record]:
    """Keep a record of every pass that runs inside the `with`."""
    record = Record(title=title) if record is None else record
    token, kept = _record.set(record), parents_of_origins.set(record.parents)
    try:
        yield record
    finally:
        parents_of_origins.reset(kept)
        _record.reset(token)


def is_recording() -> bool:
    """Whether notes are kept now; ask before building a costly note."""
    record = _record.get()
    return record is not None and bool(record._open)


def is_watched() -> bool:
    """Whether somebody keeps a record now."""
    return _record.get() is not None


def user_span() -> Any:
    """The line of the user's code that led here, for calls that a user writes.

    It is the nearest frame outside this package; None if there is none.
    """
    frame = _user_frame()
    return None if frame is None else Span(frame.f_code.co_filename, frame.f_lineno)


def user_call() -> Any:
    """As `user_span`, with the column at which the call begins, counted in bytes; slower."""
    frame = _user_frame()
    if frame is None:
        return None
    place = next(itertools.islice(frame.f_code.co_positions(), frame.f_lasti // 2, None), (None, None, None, None))
    column = place[2] if place[0] == frame.f_lineno else None
    return Span(frame.f_code.co_filename, frame.f_lineno, (column or 0) + 1)


def _user_frame() -> FrameType | None:
    """The nearest frame outside this package."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and f"{frame.f_globals.get('__name__', '')}.".startswith("tvmagic."):
        frame = frame.f_back
    return frame


def note(topic: str, text: str, node: Any = None, **facts: Any) -> None:
    """Add a note to the pass that is running, if somebody records."""
    record = _record.get()
    if record is not None and record._open:
        record._open[-1].notes.append(Note(topic, text, facts, node))


def run_step(
    name: str,
    run: Callable[[], _T],
    *,
    before: Any = None,
    after: Callable[[_T], Any] | None = None,
    kind: str = "pass",
    changed: Callable[[_T], bool] | None = None,
    options: Mapping[str, Any] | None = None,
    span: Any = None,
) -> _T:
    """Run one step of a pipeline; kept in the record if somebody records.

    `before` is the program it starts from; `after` makes the program to show from the result
    (the result itself by default); `changed` tells whether anything changed (`before is not
    after` by default). Statements of which a pass made several are told apart by their origins from here on.
    """
    record = _record.get()
    if record is None:
        return run()
    step = Step(name, kind, before, options=dict(options or {}), span=span)
    record.steps.append(step)
    record._open.append(step)
    start = time.perf_counter()
    try:
        result: Any = run()
        step.seconds = time.perf_counter() - start
        if kind == "pass" and result is not before and isinstance(result, (IRModule, PrimFunc, Stmt)):
            result = separate_copies(result)
        step.after = result if after is None else after(result)
        step.changed = step.after is not before if changed is None else changed(result)
        return result
    except Exception as error:
        step.seconds = time.perf_counter() - start
        step.error = error
        raise
    finally:
        record._open.pop()


# ---------------------------------------------------------------------------- context


class PassContext:
    """Options for the passes that run inside `with PassContext(...)`.

    Parameters
    ----------
    opt_level: passes of a higher level do not run.
    required_pass, disabled_pass: names of passes to run, or to leave out, whatever their level.
    instruments: objects with any of `enter_pass_ctx`, `exit_pass_ctx`, `should_run`,
        `run_before_pass`, `run_after_pass`, called as TVM calls them.
    config: options by key; the keys are in `PassContext.list_configs()`.
    """

    _keys: dict[str, str] = {}
    _groups: dict[str, Mapping[str, Any]] = {}
    _current: contextvars.ContextVar[PassContext | None] = contextvars.ContextVar("pass_context", default=None)

    def __init__(
        self,
        opt_level: int = 2,
        required_pass: Sequence[str] | None = None,
        disabled_pass: Sequence[str] | None = None,
        instruments: Sequence[Any] | None = None,
        config: Mapping[str, Any] | None = None,
    ) -> None:
        self.opt_level = opt_level
        self.required_pass = tuple(required_pass or ())
        self.disabled_pass = tuple(disabled_pass or ())
        self.instruments = tuple(instruments or ())
        self.config: dict[str, Any] = dict(config or {})
        if not self._keys.keys() >= self.config.keys():
            provided("pass options")()
        for key, value in self.config.items():
            if key not in self._keys:
                hint = did_you_mean(key, self._keys) or "see PassContext.list_configs()"
                raise WrongOptionError(f"there is no option `{key}`", hint=hint, code="pass.unknown_option")
            if key in self._groups:
                self.config[key] = options_of(key, {} if value is None else value, self._groups[key])

    def __repr__(self) -> str:
        parts = {
            "opt_level": self.opt_level,
            "required passes": list(self.required_pass),
            "disabled passes": list(self.disabled_pass),
            "instruments": list(self.instruments),
            "config": self.config,
        }
        return "Pass context information: \n" + "".join(f"\t{name}: {value}\n" for name, value in parts.items())

    @staticmethod
    def register_config_option(key: str, description: str, options: Mapping[str, Any] | None = None) -> None:
        """Make an option known; `options` are the defaults, by name, of one that is a group of options."""
        PassContext._keys[key] = description
        if options is not None:
            PassContext._groups[key] = options

    @staticmethod
    def list_configs() -> dict[str, str]:
        """The known options, each with a sentence on it."""
        provided("pass options")()

        return dict(PassContext._keys)

    @staticmethod
    def current() -> PassContext:
        """The innermost context that is open, or one with the defaults."""
        return PassContext._current.get() or _DEFAULT_CONTEXT

    def option(self, key: str, default: _T) -> _T:
        """The value of an option as a plain Python value."""
        value = self.config.get(key, default)
        return getattr(value, "value", value)

    def __enter__(self) -> PassContext:
        self._token = PassContext._current.set(self)
        try:
            self._enter_instruments()
        except BaseException:
            PassContext._current.reset(self._token)
            raise
        return self

    def __exit__(self, *_: object) -> None:
        try:
            self._exit_instruments()
        finally:
            PassContext._current.reset(self._token)

    def override_instruments(self, instruments: Sequence[Any] | None) -> None:
        """Exchange the instruments; those given so far are told that the context ends for them."""
        self._exit_instruments()
        self.instruments = tuple(instruments or ())
        self._enter_instruments()

    def _enter_instruments(self) -> None:
        """Open all instruments, or none: if one fails, those opened before are closed, and all are out of use."""
        entered: list[Any] = []
        try:
            for instrument in self.instruments:
                _call(instrument, "enter_pass_ctx")
                entered.append(instrument)
        except BaseException:
            self.instruments = ()
            for instrument in entered:
                _call(instrument, "exit_pass_ctx")
            raise

    def _exit_instruments(self) -> None:
        """Close the instruments; if one fails, all are out of use."""
        try:
            for instrument in self.instruments:
                _call(instrument, "exit_pass_ctx")
        except BaseException:
            self.instruments = ()
            raise

    def instrumented(self, info: PassInfo, mod: IRModule, run: Callable[[], IRModule]) -> IRModule:
        """What `run` makes of `mod`, with the instruments told before and after; `mod` if one of them says no."""
        if not self.instruments:
            return run()
        refusals = [_call(instrument, "should_run", mod, info) is False for instrument in self.instruments]
        if any(refusals):  # all were asked
            return mod
        for instrument in self.instruments:
            _call(instrument, "run_before_pass", mod, info)
        result = run()
        for instrument in self.instruments:
            _call(instrument, "run_after_pass", result, info)
        return result

    def enabled(self, info: PassInfo) -> bool:
        """Whether a pass runs in this context."""
        if info.name in self.disabled_pass:
            return False
        return info.name in self.required_pass or self.opt_level >= info.opt_level


def _call(instrument: Any, name: str, *args: Any) -> Any:
    method = getattr(instrument, name, None)
    return method(*args) if method is not None else None


_DEFAULT_CONTEXT = PassContext()


# ---------------------------------------------------------------------------- passes


@dataclass(frozen=True)
class PassInfo:
    """What is known of a pass: its name, the level from which it runs, what must run before."""

    name: str
    opt_level: int = 0
    required: tuple[str, ...] = ()

    def __str__(self) -> str:
        required = "".join([f"\n{name}, " for name in self.required]) + ("\n" if self.required else "")
        return (
            f"The meta data of the pass - pass name: {self.name}, opt_level: {self.opt_level}, "
            f"required passes: [{required}]\n"
        )


class Pass:
    """A function from module to module, with a name. Call it on a module to run it."""

    def __init__(
        self,
        name: str,
        run: Callable[[IRModule, PassContext], IRModule],
        opt_level: int = 0,
        required: Sequence[str] = (),
        options: Mapping[str, Any] | None = None,
        doc: str | None = None,
    ) -> None:
        self.info = PassInfo(name, opt_level, tuple(required))
        self.run = run
        self.options = dict(options or {})
        self.__doc__ = doc or self.__doc__

    @property
    def name(self) -> str:
        """Its name."""
        return self.info.name

    def __call__(self, mod: IRModule | PrimFunc) -> IRModule:
        if isinstance(mod, PrimFunc):
            mod = IRModule.from_expr(mod)
        context = PassContext.current()
        run = functools.partial(deep(self.run), mod, context)
        step = functools.partial(run_step, self.info.name, run, before=mod, options=self.options)
        return context.instrumented(self.info, mod, step)

    def __repr__(self) -> str:
        return f"Run Module pass: {self.info.name} at the optimization level {self.info.opt_level}"


class _MadePass(Pass):
    """A pass made of a user's function; or of an object, whose attributes it has too."""

    made_of: Any = None

    def __getattr__(self, name: str) -> Any:
        made_of = self.__dict__.get("made_of")
        if made_of is None or name.startswith("__"):
            raise AttributeError(f"pass `{type(self).__name__}` has no attribute `{name}`")
        return getattr(made_of, name)


class ModulePass(_MadePass):
    """A pass that `module_pass` makes of a function from module to module, or of a class."""


class PrimFuncPass(_MadePass):
    """A pass that `prim_func_pass` makes of a function from function to function, or of a class."""

    def __repr__(self) -> str:
        return f"PrimFuncPass({self.info.name}, opt_level={self.info.opt_level})"


class Sequential(Pass):
    """Passes run one after the other; each is a step of its own in the record."""

    def __init__(
        self, passes: Sequence[Pass] = (), opt_level: int = 0, name: str = "sequential", required: Sequence[str] = ()
    ) -> None:
        self.passes = tuple(passes)
        super().__init__(name, self._run_all, opt_level, required)

    def __repr__(self) -> str:
        names = " ".join([*(step.name for step in self.passes), ""])
        level = f"at the optimization level {self.info.opt_level}"
        return f"Run Sequential pass: {self.info.name} {level}. The passes will be executed are: [{names}]"

    def _run_all(self, mod: IRModule, context: PassContext) -> IRModule:
        for step in self.passes:
            if context.enabled(step.info):
                mod = step(mod)
        return mod

    def __call__(self, mod: IRModule | PrimFunc) -> IRModule:
        mod = IRModule.from_expr(mod) if isinstance(mod, PrimFunc) else mod
        context = PassContext.current()
        return context.instrumented(self.info, mod, functools.partial(self._run_all, mod, context))


class ApplyPassToFunction(Pass):
    """A pass run on the functions of a module whose names match a regular expression from end to end.

    The others stay as they are, and no function is added or taken away but those that the pass adds or takes.

    transform: the pass.
    func_name_regex: the names, as in Python's `re`.
    error_if_no_function_matches_regex: whether it is an error, TVMagicError, that no name matches.
    """

    def __init__(self, transform: Pass, func_name_regex: str, error_if_no_function_matches_regex: bool = False) -> None:
        self.transform = transform
        self.names = re.compile(func_name_regex)
        self.must_match = error_if_no_function_matches_regex
        super().__init__(f"ApplyPassTo{func_name_regex}", self._run_on_chosen, transform.info.opt_level)

    def _run_on_chosen(self, mod: IRModule, context: PassContext) -> IRModule:
        chosen = {var: func for var, func in mod.functions.items() if self.names.fullmatch(var.name_hint)}
        if not chosen and self.must_match:
            raise TVMagicError(
                f"no function of the module has a name that matches `{self.names.pattern}`",
                hint=f"its functions are {', '.join(f'`{var.name_hint}`' for var in mod.functions)}",
                code="pass.no_matching_function",
            )
        if not chosen:
            return mod
        after = self.transform(IRModule(chosen, mod.attrs, mod.global_infos))
        left = {var: func for var, func in mod.functions.items() if var not in chosen or var in after}
        return IRModule({**left, **after.functions}, mod.attrs, mod.global_infos)


PassFunction = Callable[[PrimFunc, IRModule, PassContext], PrimFunc]


def prim_func_pass(
    pass_func: PassFunction | None = None,
    opt_level: int = 0,
    name: str | None = None,
    required: Sequence[str] | None = None,
    traceable: bool = False,
    options: Mapping[str, Any] | None = None,
) -> Any:
    """A pass from a function `(func, mod, ctx) -> func`, which is called on each function.

    Used plainly or as a decorator with arguments. A class becomes what makes the pass: its objects'
    `transform_function` is called; those of a `Mutator` without one rewrite the body.
    """

    def create(function: Any) -> Any:
        if isinstance(function, type):
            return _pass_class(function, opt_level, name, required)
        pass_name = name or _pass_name(function)

        def run(mod: IRModule, context: PassContext) -> IRModule:
            return mod.map_functions(lambda func: function(func, mod, context))

        return PrimFuncPass(pass_name, run, opt_level, required or (), options, function.__doc__)

    return create if pass_func is None else create(pass_func)


def module_pass(
    pass_func: Any = None,
    opt_level: int = 0,
    name: str | None = None,
    required: Sequence[str] | None = None,
    traceable: bool = False,
) -> Any:
    """A pass from a function `(mod, ctx) -> mod`.

    Used plainly or as a decorator with arguments. A class becomes what makes the pass: its objects'
    `transform_module` is called.
    """

    def create(function: Any) -> Any:
        if isinstance(function, type):
            return _module_pass_class(function, opt_level, name, required)
        return ModulePass(name or _pass_name(function), function, opt_level, required or (), None, function.__doc__)

    return create if pass_func is None else create(pass_func)


def _module_pass_class(cls: type, opt_level: int, name: str | None, required: Sequence[str] | None) -> Any:
    run = "transform_module"
    if not hasattr(cls, run):
        raise TVMagicError(
            f"the class `{cls.__name__}` of a pass has no method `{run}`",
            hint=f"give it {run}(self, mod, ctx)",
            code="pass.missing_method",
        )

    def construct(*args: Any, **kwargs: Any) -> Pass:
        made = cls(*args, **kwargs)
        new = module_pass(getattr(made, run), opt_level, name or cls.__name__, required)
        new.made_of = made
        return new

    construct.__name__, construct.__doc__ = cls.__name__, cls.__doc__
    return construct


def _pass_class(cls: type, opt_level: int, name: str | None, required: Sequence[str] | None) -> Any:
    def construct(*args: Any, **kwargs: Any) -> Pass:
        def rewrite(func: PrimFunc, mod: IRModule, context: PassContext) -> PrimFunc:
            return func.with_body(cls(*args, **kwargs).visit(func.body))  # a fresh object: it may keep what it meets

        made = cls(*args, **kwargs)
        run = getattr(made, "transform_function", rewrite if issubclass(cls, Mutator) else None)
        if run is None:
            raise TVMagicError(
                f"the class `{cls.__name__}` of a pass has no method `transform_function`",
                hint="give it transform_function(self, func, mod, ctx), or derive it from Mutator",
                code="pass.missing_method",
            )
        new = prim_func_pass(run, opt_level, name or cls.__name__, required)
        new.made_of = made
        return new

    construct.__name__, construct.__doc__ = cls.__name__, cls.__doc__
    return construct


def _pass_name(function: Any) -> str:
    return re.sub(r"\W", "", getattr(function, "__name__", type(function).__name__))
