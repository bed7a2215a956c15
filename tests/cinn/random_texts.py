"""Random programs in CINN's text, with every form that it has."""

from __future__ import annotations

import random

import numpy as np

__all__ = ["random_text"]

TYPES = ("float32", "float64", "int32", "int64", "bool")


class _Writer:
    """Writes one program; tensors `A0`, `A1`, ... are of one type each, which literals tell."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.lines: list[str] = []
        self.dtype = self.random.choice(["float32", "float32", "float64", "int32", "int64"])
        self.count = 0
        self.tensors: list[tuple[str, tuple[int, ...]]] = [("A0", (6, 5)), ("A1", (6,))]

    def line(self, depth: int, text: str) -> None:
        self.lines.append("  " * depth + text)

    # ------------------------------------------------------------------ expressions

    def literal(self) -> str:
        value = self.random.choice([0.1, 1.0, -2.5, 3e10, 1e-20, 7.0, 123456.789])
        if self.dtype == "float32":
            return f"{float(np.float32(value)):#.9g}f"
        if self.dtype == "float64":
            return f"{value:#.17g}"
        number = self.random.choice([-9, -2, -1, 1, 3, 8])  # what is taken from 0 is printed as `-(x)`
        return f"{number}ll" if self.dtype == "int64" else str(number)

    def index(self, names: list[str], size: int) -> str:
        name = self.random.choice(names)
        return self.random.choice([name, name, f"({name} % {size})", f"({size - 1} - ({name} % {size}))", "0"])

    def load(self, names: list[str]) -> str:
        tensor, shape = self.random.choice(self.tensors)
        if len(names) >= len(shape) and self.random.random() < 0.5:
            return f"{tensor}[{', '.join([f'({n} % {s})' for n, s in zip(names, shape)])}]"
        return f"{tensor}[{', '.join([f'({self.random.choice(names)} % {s})' for s in shape])}]"

    def expression(self, names: list[str], depth: int = 3) -> str:
        pick = self.random.random()
        if depth == 0 or pick < 0.25:
            return self.load(names) if self.random.random() < 0.7 else self.literal()
        a, b = self.expression(names, depth - 1), self.expression(names, depth - 1)
        if pick < 0.6:
            return f"({a} {self.random.choice('+-*')} {b})"
        if pick < 0.7:
            return f"{self.random.choice(['cinn_min', 'cinn_max'])}({a}, {b})"
        if pick < 0.78:
            return f"-({self.load(names)})"
        if pick < 0.9:
            return f"select({self.condition(names)}, {a}, {b})"
        return f"{self.dtype}({self.random.choice(names)})"

    def condition(self, names: list[str], depth: int = 2) -> str:
        if depth == 0 or self.random.random() < 0.4:
            op = self.random.choice(["==", "!=", "<", "<=", ">", ">="])
            return f"({self.random.choice(names)} {op} {self.random.randrange(6)})"
        a, b = self.condition(names, depth - 1), self.condition(names, depth - 1)
        return f"!{a}" if self.random.random() < 0.2 else f"({a} {self.random.choice(['and', 'or'])} {b})"

    # ------------------------------------------------------------------ statements

    def store(self, depth: int, target: str, names: list[str]) -> None:
        if self.random.random() < 0.15:
            self.line(depth, f"{self.dtype} x{self.count} = {self.expression(names, 1)}")
            self.line(depth, f"{target} = (x{self.count} + {self.load(names)})")
        else:
            self.line(depth, f"{target} = {self.expression(names)}")

    def block(self, depth: int, loops: list[str], name: str) -> None:
        names = [f"i{n}" for n in range(len(loops))]
        self.line(depth, f"ScheduleBlock({name})")
        self.line(depth, "{")
        self.line(depth + 1, f"{', '.join(names)} = axis.bind({', '.join(loops)})")
        if self.random.random() < 0.3:
            attrs = ["compute_at_extra_var:ax0,ax1", "empty:", "fast:1", f"step:{self.random.randrange(9)}"]
            self.line(depth + 1, f"attrs({', '.join(sorted(self.random.sample(attrs, 2)))})")
        target = f"{name}[{', '.join(names)}]"
        form = self.random.random()
        if form < 0.2:
            self.line(depth + 1, f"if ({self.condition(names)}) {{")
            self.store(depth + 2, target, names)
            if self.random.random() < 0.5:
                self.line(depth + 1, "} else {")
                self.line(depth + 2, "{")
                self.line(depth + 3, f"{target} = {self.literal()}")
                self.line(depth + 2, "}")
            self.line(depth + 1, "}")
        elif form < 0.35:
            self.line(depth + 1, "{")
            self.line(depth + 2, f"{target} = {self.expression(names)}")
            self.line(depth + 1, "}")
        else:
            self.line(depth + 1, f"{target} = {self.expression(names)}")
        self.line(depth, "}")

    def nest(self, depth: int) -> None:
        shape = self.random.choice([(6,), (6, 5), (3, 4, 2), (8, 1)])
        name = f"T{self.count}"
        self.count += 1
        loops = ["i", "j", "k"][: len(shape)]
        kinds = ["serial"] * 4 + ["unroll", "parallel", "vectorize[4]", "default"]
        for level, (loop, size) in enumerate(zip(loops, shape)):
            kind = self.random.choice(kinds) if level == len(shape) - 1 else "serial"
            self.line(depth + level, f"{kind} for ({loop}, 0, {size})")
            self.line(depth + level, "{")
        inner = depth + len(shape)
        if self.random.random() < 0.25:
            self.line(inner, f"if ((({loops[0]} + 1) <= {shape[0]})) {{")
            self.line(inner + 1, "{")
            self.block(inner + 2, loops, name)
            self.line(inner + 1, "}")
            self.line(inner, "}")
        else:
            self.block(inner, loops, name)
        if self.random.random() < 0.15:
            self.line(inner, "__syncthreads()")
        for level in reversed(range(len(shape))):
            self.line(depth + level, "}")
        self.tensors.append((name, shape))

    def reduction(self, depth: int) -> None:
        name = f"R{self.count}"
        self.count += 1
        for text in ("serial for (i, 0, 6)", "{"):
            self.line(depth, text)
        self.line(depth + 1, f"ScheduleBlock({name}__reduce_init)")
        for text in ("{", "  i0 = axis.bind(i)", f"  {name}__reduce_init[i0] = {self.literal()}", "}"):
            self.line(depth + 1, text)
        self.line(depth + 1, "serial for (k0, 0, 5)")
        self.line(depth + 1, "{")
        self.line(depth + 2, f"ScheduleBlock({name})")
        op = self.random.choice(["({0} + {1})", "({0} * {1})", "cinn_max({0}, {1})", "cinn_min({0}, {1})"])
        added = op.format(f"{name}[i0]", "A0[i0, i1]")
        for text in ("{", "  i0, i1 = axis.bind(i, k0)", f"  {name}[i0] = {added}", "}"):
            self.line(depth + 2, text)
        self.line(depth + 1, "}")
        self.line(depth, "}")
        self.tensors.append((name, (6,)))

    def program(self) -> str:
        count = self.random.randrange(1, 5)
        self.line(0, "{")
        self.line(1, "ScheduleBlock(root)")
        self.line(1, "{")
        extra = int(count > 1 or self.random.random() < 0.2)
        if extra:
            self.line(2, "{")
        for _ in range(count):
            (self.reduction if self.random.random() < 0.3 else self.nest)(2 + extra)
        if extra:
            self.line(2, "}")
        self.line(1, "}")
        self.line(0, "}")
        return "\n".join(self.lines)


def random_text(seed: int) -> tuple[str, dict[str, tuple[tuple[int, ...], str]]]:
    """A program's text, and the shapes and the type of the tensors that it reads."""
    writer = _Writer(seed)
    text = writer.program()
    return text, {name: (shape, writer.dtype) for name, shape in writer.tensors[:2]}
