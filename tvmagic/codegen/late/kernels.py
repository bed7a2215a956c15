"""A function divided for a GPU: kernels, and what the host does between their launches."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from tvmagic import ir
from tvmagic.codegen.late.work_estimate import constant_elements
from tvmagic.errors import BuildError
from tvmagic.tir.transform.threads.kernel_threads import is_launch
from tvmagic.tir.transform.use_def import free_vars, loads_memory, used_vars

# Bytes of memory of its own that a kernel may have; more is global memory that the host allocates.
_OWN_BYTES = 16 * 1024


@dataclass(frozen=True)
class Kernel:
    """What all threads of a launch run: the `launches` of its axes, and the statements below them."""

    name: str
    launches: tuple[ir.AttrStmt, ...]
    body: ir.Stmt

    @property
    def axes(self) -> dict[str, tuple[ir.Var, ir.PrimExpr]]:
        """The variables of the axes and their extents, by tag."""
        return {launch.node.thread_tag: (launch.node.var, launch.value) for launch in self.launches}


@dataclass(frozen=True)
class Launch:
    """The host launches a kernel and waits for it."""

    kernel: Kernel


@dataclass(frozen=True)
class Allocation:
    """Global memory for `steps`: elements of the pointer's type, as many as the product of `extents`."""

    node: ir.Allocate
    steps: tuple[Step, ...]


@dataclass(frozen=True)
class Repeat:
    """A loop of the host."""

    node: ir.For
    steps: tuple[Step, ...]


@dataclass(frozen=True)
class Branch:
    """A branch of the host."""

    condition: ir.PrimExpr
    then: tuple[Step, ...]
    other: tuple[Step, ...]


@dataclass(frozen=True)
class Binding:
    """A variable that the host computes for `steps`."""

    var: ir.Var
    value: ir.PrimExpr
    steps: tuple[Step, ...]


@dataclass(frozen=True)
class Check:
    """The host stops with `message` unless the condition holds."""

    condition: ir.PrimExpr
    message: str


Step = Launch | Allocation | Repeat | Branch | Binding | Check


def divided(func: ir.PrimFunc, name: str) -> tuple[list[Kernel], tuple[Step, ...]]:
    """The kernels of a function in order, and what the host does. The first is called `name`_kernel, as TVM's are.

    What is outside launches becomes kernels of one thread. Raises BuildError if the host would have to read
    what kernels computed.
    """
    body = _VectorsInKernels().visit(func.body)
    around = _Around()
    around.visit(body)
    divider = _Divider(name, around.found)
    return divider.kernels, divider.steps(body)


class _VectorsInKernels(ir.Mutator):
    """Kernels compute the vectors that are bound around them: the host has none."""

    @ir.handles(ir.AttrStmt)
    def launch(self, node: ir.AttrStmt) -> ir.Stmt:
        return node if is_launch(node) else self.visit_children(node)

    @ir.handles(ir.LetStmt)
    def bound(self, node: ir.LetStmt) -> ir.Stmt:
        if node.var.dtype.lane_code == 1:
            return self.visit_children(node)
        return self.visit(ir.substitute(node.body, {node.var: _of_host(node.value, node)}))


def is_one_kernel(steps: Sequence[Step]) -> bool:
    """Whether the host does nothing but launch one kernel."""
    return len(steps) == 1 and isinstance(steps[0], Launch)


def kernel_functions(func: ir.PrimFunc, name: str) -> list[ir.PrimFunc]:
    """The kernels of a function as functions, each with its parameters and, after them, what the host gives besides.

    A function that is one kernel keeps its name.
    """
    kernels, steps = divided(func, name)
    if is_one_kernel(steps):
        return [func]
    made: list[ir.PrimFunc] = []
    known = {*func.params, *(buffer.data for buffer in func.buffer_map.values())}
    known.update(
        var
        for buffer in func.buffer_map.values()
        for part in (*buffer.shape, *buffer.strides, buffer.elem_offset)
        for var in used_vars(part)
    )
    for kernel in kernels:
        body = kernel.body
        for launch in reversed(kernel.launches):
            body = launch.replace(body=body)
        inside = {launch.node.var for launch in kernel.launches}
        extra = [var for var in free_vars(body) if var not in known and var not in inside]
        made.append(func.replace(params=(*func.params, *extra), body=body).with_attr("global_symbol", kernel.name))
    return made


@dataclass
class _Divider:
    name: str
    around: set[ir.Stmt]
    kernels: list[Kernel] = field(default_factory=list[Kernel])

    def steps(self, stmt: ir.Stmt) -> tuple[Step, ...]:
        """What the host does for a statement."""
        parts = stmt.seq if isinstance(stmt, ir.SeqStmt) else (stmt,)
        found: list[Step] = []
        together: list[ir.Stmt] = []
        for part in parts:
            if part not in self.around:
                together.append(part)
                continue
            found += self._alone(together)
            together = []
            found += self._step(part)
        return (*found, *self._alone(together))

    def _alone(self, stmts: Sequence[ir.Stmt]) -> list[Step]:
        """Statements without a launch, as a kernel of one thread."""
        some = [s for s in stmts if not (isinstance(s, ir.Evaluate) and isinstance(s.value, ir.IntImm))]
        return [self._launch((), ir.SeqStmt.flatten(*some))] if some else []

    def _launch(self, launches: tuple[ir.AttrStmt, ...], body: ir.Stmt) -> Launch:
        number = f"_{len(self.kernels)}" if self.kernels else ""
        self.kernels.append(Kernel(f"{self.name}_kernel{number}", launches, body))
        return Launch(self.kernels[-1])

    def _step(self, stmt: ir.Stmt) -> Sequence[Step]:
        if is_launch(stmt):
            launches: list[ir.AttrStmt] = []
            body: Any = stmt
            while is_launch(body):
                launches.append(body)
                body = body.body
            return [self._launch(tuple(launches), body)]
        if isinstance(stmt, ir.Allocate):
            return [Allocation(stmt, self.steps(stmt.body))]
        if isinstance(stmt, ir.For):
            return [Repeat(stmt, self.steps(stmt.body))]
        if isinstance(stmt, ir.IfThenElse):
            other = self.steps(stmt.else_case) if stmt.else_case is not None else ()
            return [Branch(_of_host(stmt.condition, stmt), self.steps(stmt.then_case), other)]
        if isinstance(stmt, ir.LetStmt):
            return [Binding(stmt.var, _of_host(stmt.value, stmt), self.steps(stmt.body))]
        if isinstance(stmt, ir.AssertStmt):
            message = stmt.message.value if isinstance(stmt.message, ir.StringImm) else str(stmt.message)
            return [Check(_of_host(stmt.condition, stmt), message), *self.steps(stmt.body)]
        if isinstance(stmt, (ir.AttrStmt, ir.DeclBuffer)):
            return self.steps(stmt.body)
        raise BuildError(
            f"there are no launches inside a `{type(stmt).__name__}`", node=stmt, code="codegen.launch_in_statement"
        )


def _of_host(value: ir.PrimExpr, stmt: ir.Stmt) -> ir.PrimExpr:
    if loads_memory(value):
        raise BuildError(
            f"whether and how kernels are launched depends on what is in memory: `{value}`",
            node=stmt,
            hint="bind a loop around this to threads, so that one kernel does all of it",
            code="codegen.launch_depends_on_memory",
        )
    return value


class _Around(ir.Visitor):
    """The statements that one kernel of one thread cannot do: they launch threads, allocate much memory, or may fail."""

    def __init__(self) -> None:
        self.found: set[ir.Stmt] = set()
        self.path: list[ir.Stmt] = []

    @ir.handles(ir.PrimExpr)
    def leaf(self, node: ir.PrimExpr) -> None:
        pass

    @ir.handles(ir.Stmt)
    def statement(self, node: ir.Stmt) -> None:
        self.path.append(node)
        if is_launch(node) or isinstance(node, ir.AssertStmt) or isinstance(node, ir.Allocate) and not _is_small(node):
            for stmt in reversed(self.path):
                if stmt in self.found:
                    break
                self.found.add(stmt)
        if not is_launch(node):
            self.visit_children(node)
        self.path.pop()


def _is_small(node: ir.Allocate) -> bool:
    count = constant_elements(node)
    return count is not None and count * node.dtype.bytes <= _OWN_BYTES
