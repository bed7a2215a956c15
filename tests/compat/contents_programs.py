"""Random programs of stores, loops and branches, and what they compute, for the analysis of buffers' contents."""

from __future__ import annotations

import random
from typing import Any

from tvmagic import ir
from tvmagic.ir.semantics import compute

SIZE = 6


class Generator:
    """Writes one random program over two buffers of `SIZE` elements and a size `n`."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.buffers = [ir.decl_buffer((SIZE,), "int32", name) for name in "AB"]
        self.size = ir.Var("n", "int32")
        self.names = 0

    def function(self) -> ir.PrimFunc:
        """The program."""
        handles = [ir.Var(b.name, "handle") for b in self.buffers]
        body = self.block([], 1, self.random.randint(2, 3))
        return ir.PrimFunc([*handles, self.size], body, buffer_map=dict(zip(handles, self.buffers)))

    def block(self, scope: list[ir.Var], depth: int, count: int) -> Any:
        """Several statements."""
        return ir.SeqStmt.flatten(*[self.statement(scope, depth) for _ in range(count)])

    def statement(self, scope: list[ir.Var], depth: int) -> Any:
        """A store, a loop, a branch or a let."""
        kind = self.random.choice(["store", "loop", "loop", "if", "let"] if depth > 0 else ["store", "store", "if"])
        if kind == "store" or depth < -1:
            buffer = self.random.choice(self.buffers)
            return ir.BufferStore(buffer, self.value(scope, 2), [self.index(scope)])
        if kind == "if":
            other = self.block(scope, depth - 1, 1) if self.random.random() < 0.4 else None
            return ir.IfThenElse(self.condition(scope), self.block(scope, depth - 1, self.random.randint(1, 2)), other)
        if kind == "let":
            var = self.variable("v")
            value = self.value(scope, 1)
            return ir.LetStmt(var, value, self.block([*scope, var], depth - 1, 2))
        extent: Any = self.random.choice([SIZE, SIZE, 3, SIZE - 1, self.size, *scope[:1]])
        var = self.variable("k" if any(extent is v for v in scope) else "i")
        return ir.For(var, 0, extent, 0, self.block([*scope, var], depth - 1, self.random.randint(1, 2)))

    def variable(self, name: str) -> ir.Var:
        """A new variable."""
        self.names += 1
        return ir.Var(f"{name}{self.names}", "int32")

    def index(self, scope: list[ir.Var]) -> ir.PrimExpr:
        """An index inside a buffer."""
        loops = [v for v in scope if v.name.startswith("i")]  # they run over at most SIZE values
        if not loops or self.random.random() < 0.2:
            return ir.IntImm("int32", self.random.randrange(SIZE))
        var = self.random.choice(loops)
        kind = self.random.random()
        if kind < 0.1:
            return ir.ops.floormod(ir.BufferLoad(self.random.choice(self.buffers), [var]), SIZE)
        return ir.ops.floordiv(var, 2) if kind < 0.2 else SIZE - 1 - var if kind < 0.4 else var

    def value(self, scope: list[ir.Var], depth: int) -> ir.PrimExpr:
        """A value to store."""
        kind = self.random.random()
        if kind < 0.35 or not depth:
            return ir.IntImm("int32", self.random.randrange(4))
        if kind < 0.6 and scope:
            return self.random.choice(scope)
        if kind < 0.8:
            return ir.BufferLoad(self.random.choice(self.buffers), [self.index(scope)])
        return self.value(scope, depth - 1) + self.value(scope, depth - 1)

    def condition(self, scope: list[ir.Var]) -> ir.PrimExpr:
        """A condition on loops, sizes or what a buffer holds."""
        load = ir.BufferLoad(self.random.choice(self.buffers), [self.index(scope)])
        left = self.random.choice([load, load, self.size, *scope, *scope])
        return self.random.choice([ir.ops.equal, ir.ops.less, ir.ops.not_equal])(left, self.value(scope, 1))


class Machine:
    """Runs such a program on lists."""

    def __init__(self, buffers: dict[str, list[int]], size: int) -> None:
        self.memory, self.size = buffers, size
        self.values: dict[ir.Var, int] = {}

    def run(self, function: ir.PrimFunc) -> dict[str, list[int]]:
        """The buffers behind the program."""
        self.values[function.params[-1]] = self.size
        self.do(function.body)
        return self.memory

    def do(self, s: Any) -> None:
        """Run a statement."""
        if isinstance(s, ir.SeqStmt):
            for part in s.seq:
                self.do(part)
        elif isinstance(s, ir.BufferStore):
            self.memory[s.buffer.name][self.of(s.indices[0])] = self.of(s.value)
        elif isinstance(s, ir.IfThenElse):
            branch = s.then_case if self.of(s.condition) else s.else_case
            if branch is not None:
                self.do(branch)
        elif isinstance(s, ir.For):
            low = self.of(s.min)
            for i in range(low, low + self.of(s.extent)):
                self.values[s.loop_var] = i
                self.do(s.body)
        elif isinstance(s, ir.LetStmt):
            self.values[s.var] = self.of(s.value)
            self.do(s.body)
        elif isinstance(s, ir.While):
            while self.of(s.condition):
                self.do(s.body)
        else:
            assert isinstance(s, ir.Evaluate), s

    def of(self, e: Any) -> int:
        """The value of an expression."""
        if isinstance(e, ir.IntImm):
            return e.value
        if isinstance(e, ir.Var):
            return self.values[e]
        if isinstance(e, ir.BufferLoad):
            return self.memory[e.buffer.name][self.of(e.indices[0])]
        if isinstance(e, ir.Not):
            return not self.of(e.a)
        if isinstance(e, ir.And):
            return self.of(e.a) and self.of(e.b)
        if isinstance(e, ir.Or):
            return self.of(e.a) or self.of(e.b)
        return compute(type(e), self.of(e.a), self.of(e.b), e.a.dtype)
