"""How our objects show themselves when a cell ends with one: in a notebook and in a terminal."""

from __future__ import annotations

from collections.abc import Callable
from importlib.resources import files
from typing import Any

from tvmagic.errors import TVMagicError
from tvmagic.ir.views import view_of, watch_views
from tvmagic.notebook.html import escape, frame
from tvmagic.notebook.program_text import program_of
from tvmagic.notebook.results import Listing, Parts, Passes, Shown, Table, about, definition
from tvmagic.operators import Operator, Version
from tvmagic.script.printer.show import set_show_hook


class _Operator(Shown):
    """An operator: its signature, the graph of its stages, its plain loops."""

    def __init__(self, op: Operator, graph: bool, unfolded: bool) -> None:
        self.op, self.unfolded = op, unfolded
        self.title = op.signature
        program = program_of(op.to_prim_func() if op.prim_func is not None else op.te_schedule(), op.notation)
        self.loops = Listing(program.lines, program.language)
        self.picture = _operator_picture(op) if graph else None

    def html(self, styled: bool = True) -> str:
        parts = [f'<div class="tm-title"><code>{escape(self.op.signature)}</code></div>']
        if self.picture is not None:
            parts.append(self.picture.html(styled=False))
        state = " open" if self.unfolded else ""
        parts.append(f"<details{state}><summary>Plain loops</summary>{self.loops.html(styled=False)}</details>")
        if self.op.versions:
            parts.append(f'<div class="tm-meta">schedules: {escape(", ".join(self.op.versions))}</div>')
        return frame("".join(parts), f"Operator {self.op.name}", styled, added=["tm-stale"])

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, Any]:
        bundle = super()._repr_mimebundle_(include, exclude)
        if "text/html" not in bundle or self.op.source is None:
            return bundle
        script = (files("tvmagic.notebook") / "static" / "stale.js").read_text(encoding="utf-8")
        page = about(bundle["text/html"], definition(self.op.name, self.op.source.text), "data-defines")
        return {**bundle, "text/html": f"{page}<script>{script}</script>"}

    def text(self, colour: bool | None = None) -> str:
        parts = [self.op.signature]
        if self.picture is not None and len(self.op.tensors) > 1:
            parts.append(self.picture.words)
        return "\n".join([*parts, self.loops.text(colour)])


def _operator_picture(op: Operator) -> Any:
    from tvmagic.notebook.pictures import block_tree, picture, stage_graph

    try:
        if op.prim_func is not None:
            return picture(block_tree(op.prim_func))
        return picture(stage_graph(op.te_schedule(), op.outputs), " ")
    except TVMagicError:
        return None


def operator_view(op: Operator, graph: bool = True, unfolded: bool = False) -> Shown:
    """What is shown of an operator: its signature, its stages as a graph, its plain loops."""
    return _Operator(op, graph, unfolded)


def _version_view(version: Version) -> Shown:
    if version.record is not None:
        return Passes(version.record)
    return operator_view(version.operator)


def _schedule_view(sch: Any) -> Shown:
    from tvmagic.notebook.pictures import picture, stage_graph

    program = program_of(sch)
    return Parts(
        picture(stage_graph(sch), "Stages"), Listing(program.lines, program.language, "Loops"), title="Schedule"
    )


def _stage_view(stage: Any) -> Shown:
    from tvmagic.notebook.pictures import iteration_graph, picture

    return picture(iteration_graph(stage))


def _iter_var_view(iv: Any) -> Shown:
    from tvmagic.notebook.commands import KINDS

    dom = f"{iv.dom.min} .. +{iv.dom.extent}" if iv.dom is not None else "follows from others"
    return Table(
        ["variable", "domain", "kind", "thread"],
        [[iv.var.name, dom, KINDS.get(iv.iter_type, ""), iv.thread_tag or "-"]],
    )


def _program_view(node: Any) -> Shown:
    program = program_of(node)
    return Listing(program.lines, program.language)


def _tir_schedule_view(sch: Any) -> Shown:
    program = program_of(sch.mod)
    return Parts(
        Listing(program.lines, program.language, "Program"),
        Listing("\n".join(trace_lines(sch.trace)), "python", "Trace"),
        title="TensorIR schedule",
    )  # fmt: skip


def _asc_graph_view(graph: Any) -> Shown:
    from tvmagic.notebook.pictures import asc_axes, asc_nodes, picture

    text = Listing(str(graph), "python", "Text")
    return Parts(picture(asc_nodes(graph)), picture(asc_axes(graph)), text, title=f"Graph {graph.name}")


def _tiling_view(tiling: Any) -> Shown:
    from tvmagic.notebook.pictures.tiles import tiling_view

    return tiling_view(tiling)


def trace_lines(trace: Any) -> list[str]:
    """A trace as the Python calls that make it again."""
    lines = trace.as_python() if hasattr(trace, "as_python") else str(trace)
    return lines.split("\n") if isinstance(lines, str) else [str(line) for line in lines]


def _trace_view(trace: Any) -> Shown:
    return Listing("\n".join(trace_lines(trace)) or "# empty", "python", "Trace")


def _cinn_schedule_view(sch: Any) -> Shown:
    text, steps = Listing(str(sch), "cinn", "Program"), str(sch.get_trace_desc())
    return Parts(text, Listing(steps, "text", "Steps"), title="Schedule of CINN") if steps else text


def _cinn_module_view(module: Any) -> Shown:
    return Listing(str(module), "cinn", "Program")


def _steps_view(steps: Any) -> Shown:
    return Listing(str(steps) or "no step", "text", "Steps")


def _int_set_view(found: Any) -> Shown:
    return Listing(str(found), "tvmscript", "Integer set")


def _module_view(module: Any) -> Shown:
    names = ", ".join(abi.name for abi in module.abis)
    language, form = ("asm", "asm") if "asm" in module.sources else ("opencl", "cl")
    return Listing(module.get_source(form), language, f"Compiled module: {names}")


def _kernel_view(kernel: Any) -> Shown:
    return Listing(repr_text(kernel), "text", "Compiled function")


def repr_text(value: Any) -> str:
    """`repr`, asked for without going through the display again."""
    return object.__repr__(value) if type(value).__repr__ is object.__repr__ else repr(value)


def _benchmark_view(result: Any) -> Shown:
    from tvmagic.notebook.commands import bench_table

    return bench_table(result)


def _check_view(result: Any) -> Shown:
    from tvmagic.notebook.commands import CheckTable

    return CheckTable(result)


def _explanation_view(explanation: Any) -> Shown:
    from tvmagic.notebook.why import explanation_view

    return explanation_view(explanation)


# The views by the names that classes give to `viewed`.
VIEWS: dict[str, Callable[[Any], Shown]] = {
    "operator": operator_view,
    "version": _version_view,
    "benchmark": _benchmark_view,
    "check": _check_view,
    "explanation": _explanation_view,
    "record": Passes,
    "te schedule": _schedule_view,
    "te stage": _stage_view,
    "iteration variable": _iter_var_view,
    "program": _program_view,
    "tir schedule": _tir_schedule_view,
    "trace": _trace_view,
    "integer set": _int_set_view,
    "cinn schedule": _cinn_schedule_view,
    "cinn program": _cinn_module_view,
    "cinn steps": _steps_view,
    "ascend graph": _asc_graph_view,
    "ascend implementation": lambda impl: _asc_graph_view(impl.graph),
    "ascend tiling": _tiling_view,
    "compiled module": _module_view,
    "compiled function": _kernel_view,
}


def shown(value: Any) -> Shown | None:
    """Return the view of an object of ours, or None for anything else."""
    name = view_of(value)
    return None if name is None else VIEWS[name](value)


def install(shell: Any) -> Callable[[], None]:
    """Register the views with IPython's formatters. Returns a function that removes them."""
    formatters = shell.display_formatter.formatters
    bundle = shell.display_formatter.mimebundle_formatter
    registered: list[tuple[Any, type]] = []

    def add(formatter: Any, cls: type, show: Callable[..., Any]) -> None:
        formatter.for_type(cls, show)
        registered.append((formatter, cls))

    def register(cls: type, name: str) -> None:
        view = VIEWS[name]
        add(formatters["text/html"], cls, lambda value: _safely(view, value, "html"))
        add(formatters["text/plain"], cls, lambda value, p, cycle: p.text(_plain_text(view, value, p)))
        if view in (_version_view, Passes):
            add(bundle, cls, lambda value, **_: view(value)._repr_mimebundle_())

    unwatch = watch_views(register)
    set_show_hook(_show)

    def forget() -> None:
        unwatch()
        set_show_hook(None)
        for formatter, cls in registered:
            formatter.type_printers.pop(cls, None)

    return forget


def _show(text: str, node: Any, style: str | None) -> None:
    """What `show()` of a program does: in colours, as at the end of a cell."""
    from IPython.display import display

    display(Listing(text, "python" if node is None else "tvmscript"))


def _plain_text(view: Callable[[Any], Shown], value: Any, printer: Any) -> str:
    """The view as text; inside a list or a dictionary the `repr` alone."""
    outermost = len(getattr(printer, "stack", ())) <= 1
    return _safely(view, value, "text") if outermost else repr_text(value)


def _safely(view: Callable[[Any], Shown], value: Any, form: str) -> str:
    """The view as text; the plain `repr` where the object is in a state that cannot be drawn."""
    try:
        made = view(value)
        return made.html() if form == "html" else made.text()
    except TVMagicError as error:
        words = f"{type(value).__name__}: {error.message}"
        return frame(escape(words), type(value).__name__) if form == "html" else words
