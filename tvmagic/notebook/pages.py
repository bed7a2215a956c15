"""A page that computes: an operator with its passes and its code in WebAssembly, in one file that needs nothing else.

The page makes inputs, runs the operator, compares it with plain loops in JavaScript that are written from its
definition, and shows the times of both. Knobs of its schedule are sliders; all that they choose is in the page.
"""

from __future__ import annotations

import ast
import base64
import itertools
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from tvmagic.errors import TVMagicError
from tvmagic.files import write_file
from tvmagic.notebook.commands import version_of
from tvmagic.notebook.errors import error_lines
from tvmagic.notebook.html import escape, theme, view_html
from tvmagic.notebook.html import page as whole_page
from tvmagic.notebook.live import live_html, packed
from tvmagic.notebook.pictures import graph
from tvmagic.notebook.stepper import packed_view
from tvmagic.notebook.view import View, make_view
from tvmagic.operators import Operator, Source, Version
from tvmagic.operators.arrays import array_dtype, chosen_sizes, empty_outputs, shapes_of, size_values
from tvmagic.operators.inputs import make_inputs
from tvmagic.operators.javascript import javascript
from tvmagic.operators.knobs import Knobs
from tvmagic.operators.races import refuse_races
from tvmagic.operators.scheduling import blame, schedule_from_cell
from tvmagic.passes import Record
from tvmagic.runtime.kernel import checker_of
from tvmagic.runtime.wasm import STACK
from tvmagic.runtime.wasm_host import linked
from tvmagic.target.names import TARGETS

TARGET = TARGETS["wasm32"]
SIZE = 64  # what symbolic sizes are in the page
MOST = 32  # choices of all knobs together
MOST_INPUTS = 8 << 20  # bytes of inputs that a page has
MEMORY = 1 << 32  # bytes that WebAssembly can address with pointers of 32 bits


def page(
    value: Operator | Version,
    file: str | Path,
    knobs: Mapping[str, Sequence[Any]] | None = None,
    sizes: Mapping[str, int] | int = SIZE,
    llvm: str = "none",
    inputs: Any = None,
) -> Path:
    """Write a page that shows every schedule call and pass of an operator, and runs it; it needs no network.

    Parameters
    ----------
    value: the operator, with its last schedule, or one of its versions.
    file: where the page goes.
    knobs: for each knob its values; a knob is the name of a `knob(...)` call, or of a number that the schedule's cell
        assigns (`tile = 8`). By default the knobs of the cell with all their choices.
    sizes: what symbolic sizes are in the page, by name or one for all.
    llvm: LLVM's own passes: `loops` (those that change loops, the others between them as one step), `all` or `none`.
    inputs: those that the page computes on, by default the operator's `example_inputs`; see `make_inputs`. Without any, or if
        they are too large for a page, it makes random ones, as long as its cell asserts nothing.

    Raises TVMagicError if a knob is not one of the cell's, or if the knobs have more than 32 choices together.
    """
    version = version_of(value)
    path = Path(file)
    text = whole_page(
        f"<h1>{escape(version.operator.name)}</h1>{page_html(version, knobs, sizes, llvm, inputs)}",
        version.operator.name,
    )
    return write_file(path, text)


def page_html(
    version: Version,
    knobs: Mapping[str, Sequence[Any]] | None = None,
    sizes: Mapping[str, int] | int = SIZE,
    llvm: str = "none",
    inputs: Any = None,
) -> str:
    """What is in the page of a version, as one element."""
    op = version.operator
    arrays = PageArrays.of(op, sizes, inputs)
    sliders = Sliders(version, knobs)
    variants = [PageVariant.of(v, r, e, arrays, llvm) for v, r, e in sliders.versions()]
    first = variants[sliders.first]
    data = {
        "title": op.name,
        "theme": theme(),
        "about": _about(op, arrays),
        "knobs": sliders.shown(),
        "variants": [packed(json.dumps(v.data(), separators=(",", ":"))) for v in variants],
        "params": argument_data(op, arrays),
        "preconditions": _preconditions(op, arrays.sizes),
        **reference_data(op, arrays.sizes),
    }
    return live_html("page", data, view_html(first.view, styled=False), f"{op.name}, computed in this page")


def show_operators(names: Mapping[str, Any]) -> None:
    """Show the page of each operator among `names`, in a notebook that becomes a page itself."""
    from IPython.display import HTML, display

    for name, value in names.items():
        if isinstance(value, Operator) and not name.startswith("_"):
            try:
                text = f"<h3>{escape(name)}</h3>{page_html(value.current)}"
            except TVMagicError as error:
                text = f"<h3>{escape(name)}</h3><p>{escape(error.message)}</p>"
            display(HTML(text))


@dataclass(frozen=True)
class PageArrays:
    """The arrays of the page: the values of the symbolic sizes, and the shape of each argument of the compiled function.

    `given`: the inputs that the page has, if it does not make them itself. `missing`: why it has none, if it should.
    """

    sizes: dict[Any, int]
    shapes: list[tuple[int, ...]]
    given: list[np.ndarray] | None = None
    missing: str = ""

    @staticmethod
    def of(op: Operator, sizes: Mapping[str, int] | int = SIZE, inputs: Any = None) -> PageArrays:
        values = chosen_sizes(op.inputs, sizes)
        if inputs is None and op.example_inputs is None and not op.assertions:
            return PageArrays(values, shapes_of(op.args, values))
        try:
            given = make_inputs(op, 0, sizes, inputs)
        except TVMagicError as error:
            if inputs is not None:
                raise
            return PageArrays(values, shapes_of(op.args, values), None, f"it has no inputs: {error.message}")
        values = size_values(op.inputs, given)
        shapes, total = shapes_of(op.args, values), sum(a.nbytes for a in given)
        if total > MOST_INPUTS:
            return PageArrays(
                values,
                shapes,
                None,
                f"its inputs take {total / 2**20:.1f} MiB, more than the {MOST_INPUTS >> 20} MiB that a page has",
            )
        return PageArrays(values, shapes, given)


def _about(op: Operator, arrays: PageArrays) -> str:
    """What the page computes, in a sentence."""
    texts = [f"`{t.name}: {t.dtype}[{', '.join(map(str, shape))}]`" for t, shape in zip(op.args, arrays.shapes)]
    made = f"from {', '.join(texts[: len(op.inputs)])}" if op.inputs else "from nothing"
    inputs = "takes the inputs that the page has" if arrays.given is not None else "makes inputs"
    missing = f" The page cannot run it: {arrays.missing}." if arrays.missing else ""
    return (
        f"`{op.name}` {made}, compiled to WebAssembly. Run {inputs}, computes, and compares with plain loops that "
        f"were written from the definition; all of it happens in this page.{missing}"
    )


def argument_data(op: Operator, arrays: PageArrays) -> list[dict[str, Any]]:
    """What the page has to know of each argument."""
    return [
        {
            "name": tensor.name,
            "dtype": str(tensor.dtype),
            "shape": list(shape),
            "input": op.is_input(tensor),
            "updated": op.is_input(tensor) and any(tensor is t for t in op.outputs),
            "limit": op.accesses.limit(tensor, arrays.sizes) or 0,
            **({"data": base64.b64encode(array.tobytes()).decode()} if array is not None else {}),
        }
        for tensor, shape, array in itertools.zip_longest(op.args, arrays.shapes, arrays.given or [])
    ]


def _preconditions(op: Operator, sizes: Mapping[Any, int]) -> dict[str, Any] | None:
    """The test of the operator's assertions in JavaScript, and what is said of each that fails; None if there are none."""
    if not op.assertions or not op.check_bounds:
        return None
    try:
        return op.preconditions.script(sizes)
    except TVMagicError:  # it has no form in JavaScript; the arrays of the page have passed the test
        return None


def reference_data(op: Operator, sizes: Mapping[Any, int]) -> dict[str, Any]:
    """The plain loops, or why there are none."""
    try:
        return {"plain": javascript(op, sizes), "bounds": javascript(op, sizes, bounds=True), "missing": ""}
    except TVMagicError as error:
        return {"plain": "", "bounds": "", "missing": f"there is no reference: {error.message}"}


# ---------------------------------------------------------------------------- one choice of the knobs


@dataclass
class PageVariant:
    """What the page shows for one choice of the knobs: the passes, the code if there is some, else why there is none."""

    view: View
    kernel: dict[str, Any] | None
    pictures: str = ""
    error: TVMagicError | None = None

    @staticmethod
    def of(
        version: Version | None,
        record: Record,
        error: TVMagicError | None,
        arrays: PageArrays,
        llvm: str = "none",
    ) -> PageVariant:
        if version is None or error is not None:
            return PageVariant(make_view(record), None, "", error)
        op, kernel = version.operator, None
        try:
            if arrays.missing:
                raise TVMagicError(
                    f"the page cannot run it: {arrays.missing}",
                    hint="give smaller `inputs`, or set `example_inputs`",
                    code="page.cannot_run",
                )
            kernel = kernel_data(version, arrays)
        except TVMagicError as refusal:
            error = refusal
        view = make_view(op.passes(version, TARGET, kernel is not None, llvm))
        return PageVariant(view, kernel, _picture(version), error)

    def data(self) -> dict[str, Any]:
        lines = error_lines(self.error, colour=False) if self.error is not None else []
        failure = "".join(f"<div class='tm-error'><pre>{escape(line)}</pre></div>" for line in lines)
        return {"stepper": packed_view(self.view), "kernel": self.kernel, "pictures": self.pictures, "failure": failure}


def _picture(version: Version) -> str:
    try:
        return graph(version).html(styled=False)
    except TVMagicError:
        return ""  # what cannot be drawn is not in the page


def kernel_data(version: Version, arrays: PageArrays) -> dict[str, Any]:
    """The compiled function for the page: its module, and how it is called."""
    op = version.operator
    if strided := next((t for t in op.args if getattr(t, "strides", ())), None):
        raise TVMagicError(
            f"`{strided.name}` has strides, and the arrays of a page have none", code="page.strided_array"
        )
    _refuse_too_much(op, arrays)  # before there is any array
    built = version.build(TARGET)
    module = linked(built)
    abi = next(a for a in built.abis if a.name == built.entry)
    values, _, _ = checker_of(abi).check(tuple(empty_outputs(op.args, arrays.sizes)))
    sizes = zip(abi.sizes, values[len(abi.params) :])
    return {
        "code": base64.b64encode(module.code).decode(),
        "symbol": abi.symbol,
        "stack": STACK,
        "heap": module.heap,
        "error": module.addresses.get("__tvmagic_error", 0),
        "sites": [_site_text(site) for site in built.sites],
        "sizes": [{"value": int(value), "wide": var.dtype.bits == 64} for var, value in sizes],
        "outputs": [next(n for n, t in enumerate(op.args) if t is output) for output in op.outputs],
    }


def _refuse_too_much(op: Operator, arrays: PageArrays) -> None:
    """Refuse arrays that a module cannot address, with a page kept for each array's alignment and the module's own data."""
    bytes_ = sum(math.prod(shape) * array_dtype(t).itemsize for t, shape in zip(op.args, arrays.shapes))
    if bytes_ >= MEMORY - (len(op.args) + 16) * (1 << 16):
        raise TVMagicError(
            f"its arrays take {bytes_ / 2**30:.1f} GiB, and WebAssembly has 4 GiB",
            hint="write the page of an operator with smaller arrays; `--size` is for symbolic sizes",
            code="page.arrays_too_large",
        )


def _site_text(site: Any) -> str:
    """What is said when the function stops at a place."""
    line = f" (line {site.line})" if site.line else ""
    if site.kind == "assert":
        return f"an assertion does not hold{line}: {site.message}"
    if site.kind == "zero":
        return f"division by zero{line}"
    if site.kind == "memory":
        return "there is no memory for its intermediate results"
    if site.kind == "reach":
        return f"`{site.message}` has more elements than its indices reach"
    if site.kind == "count":
        return f"loop `{site.message}` has more iterations than its variable counts"
    name = getattr(site.buffer, "name", "") or site.message
    return f"an access of `{name}` is outside its shape{line}" if name else f"an access is outside its buffer{line}"


# ---------------------------------------------------------------------------- knobs


@dataclass
class Sliders:
    """The knobs of a version's cell with their values, and the versions for all choices."""

    version: Version
    given: Mapping[str, Sequence[Any]] | None
    choices: dict[str, list[Any]] = field(default_factory=dict)
    assigned: dict[str, ast.expr] = field(default_factory=dict)
    start: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        source = self.version.source
        if source is None:
            if self.given:
                raise TVMagicError(
                    "knobs are those of a schedule's cell, and this version is from none", code="page.no_schedule_cell"
                )
            return
        self.assigned = _assigned_numbers(source)
        found = Knobs(source)
        if self.given is None or set(self.given) - set(self.assigned):
            self._run(found, {})
        self.start = {**{n: ast.literal_eval(v) for n, v in self.assigned.items()}, **found.chosen()}
        if self.given is None:
            self.choices = {name: list(knob.choices) for name, knob in found.found.items()}
        else:
            self._take(self.given, found)
        count = math.prod(len(c) for c in self.choices.values())
        if count > MOST:
            raise TVMagicError(
                f"the knobs have {count} choices together, a page holds {MOST}",
                hint="name some of their values, such as "
                + " ".join(f"--knob {n}={c[0]}" for n, c in self.choices.items()),
                code="page.too_many_choices",
            )

    def _take(self, given: Mapping[str, Sequence[Any]], found: Knobs) -> None:
        for name, values in given.items():
            if name not in self.start:
                known = ", ".join(f"`{n}`" for n in self.start)
                hint = f"there are {known}" if known else "write `tile = knob(8, [4, 8, 16])` in the cell"
                raise TVMagicError(f"the schedule's cell has no knob `{name}`", hint=hint, code="page.unknown_knob")
            if not values:
                raise TVMagicError(
                    f"the knob `{name}` needs at least one value",
                    hint=f"write --knob {name}=4,8",
                    code="page.knob_without_values",
                )
            self.choices[name] = list(values)

    @property
    def first(self) -> int:
        """The number of the choice that is shown first."""
        number = 0
        for _, choices, at in self.shown():
            number = number * len(choices) + at
        return number

    def shown(self) -> list[tuple[str, list[str], int]]:
        """Each knob with the texts of its values, and which one is shown first."""
        return [
            (name, [str(v) for v in values], values.index(self.start[name]) if self.start[name] in values else 0)
            for name, values in self.choices.items()
        ]

    def versions(self) -> list[tuple[Version | None, Record, TVMagicError | None]]:
        """For each choice the version and its record, with the error if the cell failed."""
        if not self.choices:
            return [(self.version, self.version.record or Record(title=self.version.operator.name), None)]
        assert self.version.source is not None
        made: list[tuple[Version | None, Record, TVMagicError | None]] = []
        for values in itertools.product(*self.choices.values()):
            chosen = dict(zip(self.choices, values))
            made.append(self._run(Knobs(self.version.source, chosen, any_value=True), chosen))
        self.version.source.remember()
        return made

    def _run(self, knobs: Knobs, chosen: Mapping[str, Any]) -> tuple[Version | None, Record, TVMagicError | None]:
        """The cell with values for its knobs."""
        version, op = self.version, self.version.operator
        assert version.source is not None
        source = _with_numbers(version.source, {n: v for n, v in chosen.items() if n in self.assigned}, self.assigned)
        record = Record(title=op.name)
        try:
            made = schedule_from_cell(op, source, version.name, version.scope, record, {"knob": knobs.knob})
            made.record = record
            refuse_races(made)
            return made, record, None
        except TVMagicError as error:
            blame(record, error)
            return None, record, error


def _assigned_numbers(source: Source) -> dict[str, ast.expr]:
    """The numbers that a cell assigns to names, each once."""
    found: dict[str, ast.expr] = {}
    names: list[str] = []
    for node in ast.walk(source.parse()):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            names.append(node.id)
        if isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.targets[0], ast.Name):
            if isinstance(node.value, ast.Constant) and isinstance(node.value.value, (int, float)):
                found[node.targets[0].id] = node.value
    return {name: value for name, value in found.items() if names.count(name) == 1}


def _with_numbers(source: Source, values: Mapping[str, Any], places: Mapping[str, ast.expr]) -> Source:
    """The cell with other numbers for some of its names."""
    if not values:
        return source
    lines = source.text.split("\n")
    for name, value in sorted(values.items(), key=lambda item: -places[item[0]].col_offset):
        node = places[name]
        assert node.end_col_offset is not None
        line = lines[node.lineno - 1].encode()
        lines[node.lineno - 1] = (line[: node.col_offset] + repr(value).encode() + line[node.end_col_offset :]).decode()
    return Source(source.name, "\n".join(lines))
