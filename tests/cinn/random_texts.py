"""Random programs in CINN's text, with every form that it has."""

from __future__ import annotations

import random
import re

import numpy as np

FLOATS = ("float16", "bfloat16", "float32", "float64")
SIGNED = ("int8", "int16", "int32", "int64")
UNSIGNED = ("uint8", "uint16", "uint32", "uint64")
TYPES = (*FLOATS, *SIGNED, *UNSIGNED, "bool")
OF_FLOATS = (
    "exp exp2 exp10 log log2 log10 sqrt rsqrt sigmoid tanh tan sin cos sinh cosh asin acos atan asinh acosh atanh erf floor ceil "
    "round trunc nearbyint abs"
).split()
OF_TWO_INTEGERS = ("bitwise_and", "bitwise_or", "bitwise_xor", "left_shift", "right_shift")
BINDS = ("blockIdx.x", "blockIdx.y", "threadIdx.x", "threadIdx.z")


class _Writer:
    """Writes one program; tensors `A0`, `A1`, ... are of one type each, which literals tell."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.lines: list[str] = []
        self.dtype = self.random.choice(["float32", "float32", "float32", *TYPES])
        self.symbolic = self.dtype == "float32" and self.random.random() < 0.2
        self.count = 0
        self.tensors: list[tuple[str, tuple[int | str, ...]]] = [("A0", (6, 5)), ("A1", (6,))]
        if self.symbolic:
            self.tensors = [("A0", ("n", 5)), ("A1", ("n",))]

    def line(self, depth: int, text: str) -> None:
        self.lines.append("  " * depth + text)

    # ------------------------------------------------------------------ expressions

    def literal(self) -> str:
        if self.dtype == "bool":
            return self.random.choice(["true", "false"])
        if self.dtype in FLOATS:
            value = self.random.choice([0.1, 1.0, -2.5, 3e4, 1e-3, 7.0, 12345.678, 0.0])
            if self.dtype == "float16":
                return f"(float16){float(np.float16(value)):.5g}f"
            if self.dtype == "bfloat16":
                bits = np.float32(value).view("uint32") & np.uint32(0xFFFF0000)
                return f"(bfloat16){float(bits.view('float32')):#.9g}f"
            if self.dtype == "float32":
                return f"{float(np.float32(value)):#.9g}f"
            return f"{value:#.17g}"
        number = self.random.choice([-9, -2, -1, 0, 1, 3, 8] if self.dtype in SIGNED else [0, 1, 3, 8, 200])
        if self.dtype in ("int32", "uint32"):
            return str(number)
        if self.dtype in ("int64", "uint64"):
            return f"{number}{'u' if self.dtype == 'uint64' else ''}ll"
        return f"({self.dtype}_t){number}"

    def load(self, names: list[str]) -> str:
        tensor, shape = self.random.choice(self.tensors)
        if "n" in shape:  # whose sizes nothing but plain indices tell
            same = [(t, s) for t, s in self.tensors if len(s) <= len(names)]
            tensor, shape = self.random.choice(same) if same else ("A1", ("n",))
            return f"{tensor}[{', '.join(n if s == 'n' else f'({n} % {s})' for n, s in zip(names, shape))}]"
        if len(names) >= len(shape) and self.random.random() < 0.5:
            return f"{tensor}[{', '.join([f'({n} % {s})' for n, s in zip(names, shape)])}]"
        return f"{tensor}[{', '.join([f'({self.random.choice(names)} % {s})' for s in shape])}]"

    def expression(self, names: list[str], depth: int = 3) -> str:
        if self.dtype == "bool":
            return self.condition(names, depth) if self.random.random() < 0.7 else self.load(names)
        pick = self.random.random()
        if depth == 0 or pick < 0.25:
            return self.load(names) if self.random.random() < 0.7 else self.literal()
        a, b = self.expression(names, depth - 1), self.expression(names, depth - 1)
        if pick < 0.5:
            return f"({a} {self.random.choice('+-*')} {b})"
        if pick < 0.6:
            return self.of_family(a, b)
        if pick < 0.68:
            return f"{self.random.choice(['cinn_min', 'cinn_max'])}({a}, {b})"
        if pick < 0.78:
            return self.random.choice([f"-({a})", f"-({self.load(names)})", f"-({self.literal()})"])
        if pick < 0.9:
            return f"select({self.condition(names)}, {a}, {b})"
        return f"{self.dtype}({self.random.choice(names)})"

    def of_family(self, a: str, b: str) -> str:
        """What is of floats alone, or of integers alone."""
        if self.dtype in FLOATS:
            return self.random.choice(
                [f"({a} / {b})", f"pow({a}, {b})", *(f"{f}({a})" for f in self.random.sample(OF_FLOATS, 3))]
            )
        whole = self.literal()
        divisor = whole if int(re.sub(r"\(.*\)|[ul]", "", whole)) > 0 else "(1 + 2)"
        if divisor != whole or self.random.random() < 0.3:
            return f"{self.random.choice(OF_TWO_INTEGERS)}({a}, {b})"
        return f"({a} {self.random.choice('/%')} {divisor})"

    def condition(self, names: list[str], depth: int = 2) -> str:
        if depth == 0 or self.random.random() < 0.4:
            op = self.random.choice(["==", "!=", "<", "<=", ">", ">="])
            if self.dtype != "bool" and self.random.random() < 0.3:
                return f"({self.load(names)} {op} {self.literal()})"
            return f"({self.random.choice(names)} {op} {self.random.randrange(6)})"
        a, b = self.condition(names, depth - 1), self.condition(names, depth - 1)
        return f"!{a}" if self.random.random() < 0.2 else f"({a} {self.random.choice(['and', 'or'])} {b})"

    # ------------------------------------------------------------------ statements

    def store(self, depth: int, target: str, names: list[str]) -> None:
        """A store, perhaps of temporaries, in conditions, beside others."""
        form = self.random.random()
        if form < 0.12:
            self.count += 1
            value = f" = {self.expression(names, 1)}" if self.random.random() < 0.8 else ""
            self.line(depth, f"{self.dtype} x{self.count}{value}")
            if self.random.random() < 0.4:
                self.line(depth, f"{self.dtype} y{self.count} = select(true, x{self.count}, {self.load(names)})")
                self.line(depth, f"{target} = select({self.condition(names)}, y{self.count}, x{self.count})")
            else:
                self.line(depth, f"{target} = cinn_max(x{self.count}, {self.load(names)})")
        elif form < 0.3:
            self.branch(depth, target, names)
        else:
            self.line(depth, f"{target} = {self.expression(names)}")

    def branch(self, depth: int, target: str, names: list[str]) -> None:
        """An if, perhaps with an else, perhaps in others; a part may be a list in its own braces."""
        self.line(depth, f"if ({self.condition(names)}) {{")
        if self.random.random() < 0.3:
            self.branch(depth + 1, target, names)
        else:
            self.line(depth + 1, f"{target} = {self.expression(names)}")
        if self.random.random() < 0.5:
            self.line(depth, "} else {")
            self.line(depth + 1, "{")
            self.line(depth + 2, f"{target} = {self.literal()}")
            self.line(depth + 1, "}")
        self.line(depth, "}")

    def block(self, depth: int, loops: list[str], name: str) -> None:
        names = [f"i{n}" for n in range(len(loops))]
        self.line(depth, f"ScheduleBlock({name})")
        self.line(depth, "{")
        self.line(depth + 1, f"{', '.join(names)} = axis.bind({', '.join(loops)})")
        if self.random.random() < 0.3:
            attrs = ["compute_at_extra_var:ax0,ax1", "empty:", "fast:1", f"step:{self.random.randrange(9)}"]
            self.line(depth + 1, f"attrs({', '.join(sorted(self.random.sample(attrs, 2)))})")
        target = f"{name}[{', '.join(names)}]"
        if self.random.random() < 0.15:
            self.line(depth + 1, "{")
            self.line(depth + 2, f"{target} = {self.expression(names)}")
            if self.random.random() < 0.3:
                self.line(depth + 2, "__syncthreads()")
            self.line(depth + 1, "}")
        else:
            self.store(depth + 1, target, names)
        self.line(depth, "}")

    def nest(self, depth: int) -> None:
        shapes: list[tuple[int | str, ...]] = [(6,), (6, 5), (3, 4, 2), (8, 1)]
        shape = self.random.choice([("n",), ("n", 5)] if self.symbolic else shapes)
        name = f"T{self.count}"
        self.count += 1
        loops = ["i", "j", "k"][: len(shape)]
        kinds = ["serial"] * 4 + ["unroll", "parallel", "vectorize[4]", "vectorize[3]", "default"]
        outer = ["serial"] * 5 + ["parallel", *(f"thread_bind[{axis}]" for axis in BINDS)]
        for level, (loop, size) in enumerate(zip(loops, shape)):
            inner_kinds = kinds if size != "n" else ["serial", "parallel"]
            kind = self.random.choice(inner_kinds if level == len(shape) - 1 else outer if level == 0 else ["serial"])
            self.line(depth + level, f"{kind} for ({loop}, 0, {size})")
            self.line(depth + level, "{")
        inner = depth + len(shape)
        if not self.symbolic and self.random.random() < 0.25:
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
        name, rows = f"R{self.count}", "n" if self.symbolic else 6
        self.count += 1
        for text in (f"serial for (i, 0, {rows})", "{"):
            self.line(depth, text)
        self.line(depth + 1, f"ScheduleBlock({name}__reduce_init)")
        for text in ("{", "  i0 = axis.bind(i)", f"  {name}__reduce_init[i0] = {self.literal()}", "}"):
            self.line(depth + 1, text)
        twice = self.random.random() < 0.3  # two loops that reduce
        for place, (loop, size) in enumerate([("k0", 5), ("k1", 3)][: 1 + twice]):
            self.line(depth + 1 + place, f"serial for ({loop}, 0, {size})")
            self.line(depth + 1 + place, "{")
        inner = depth + 2 + twice
        self.line(inner, f"ScheduleBlock({name})")
        op = self.random.choice(["({0} + {1})", "({0} * {1})", "cinn_max({0}, {1})", "cinn_min({0}, {1})"])
        if self.dtype == "bool":
            op = self.random.choice(["({0} and {1})", "({0} or {1})"])
        read = "A0[i0, ((i1 + i2) % 5)]" if twice else "A0[i0, i1]"
        bound = "  i0, i1, i2 = axis.bind(i, k0, k1)" if twice else "  i0, i1 = axis.bind(i, k0)"
        added = op.format(f"{name}[i0]", read)
        for text in ("{", bound, f"  {name}[i0] = {added}", "}"):
            self.line(inner, text)
        for place in range(twice, -1, -1):
            self.line(depth + 1 + place, "}")
        self.line(depth, "}")
        self.tensors.append((name, (rows,)))

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
    """A program's text, and the shapes and the type of the tensors that it reads; of symbolic sizes nothing is known."""
    writer = _Writer(seed)
    text = writer.program()
    known = {name: (shape, writer.dtype) for name, shape in writer.tensors[:2] if not writer.symbolic}
    return text, known  # type: ignore[return-value]
