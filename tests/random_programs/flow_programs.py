"""Random functions of plain statements: loops, branches, lets, memory of their own, and the passes that move these about.

TVMScript is Python's syntax. So what a text means is computed by running it as Python, with a `T` that has loops as ranges
and memory as lists: our parser and printer have no part in it. Numbers stay small and every place is inside its array, so
that both sides of a choice may be computed.
"""

from __future__ import annotations

import importlib.util
import random
import types
from collections.abc import Sequence
from typing import Any

import numpy as np
from outcomes import TARGETS, Argument, check_call, guarded_call

HEAD = """@T.prim_func
def main(X: T.Buffer((16,), "int32"), Y: T.Buffer((16,), "int32"), Z: T.Buffer((32,), "int32"), n: T.int32):
    T.func_attr({"global_symbol": "main", "tir.noalias": T.bool(True)})
"""
SIZES = {"X": 16, "Y": 16}  # other memory has 8 elements
WITH_CONTENTS = importlib.util.find_spec("tvmagic.compat") is not None  # the options that need compat
# Passes of the user's choice, by name, and switches; each program has one of these.
CHOICES: tuple[tuple[str, dict[str, Any]], ...] = (
    ("", {}),
    ("HoistExpression", {}),
    ("HoistIfThenElse", {}),
    ("RenormalizeSplitPattern", {}),
    ("RemoveNoOp", {"tir.RemoveNoOp": {"use_dataflow_analysis": WITH_CONTENTS}}),
    ("Simplify", {"tir.Simplify": {
        "transitively_prove_inequalities": True, "convert_boolean_to_and_of_ors": True,
        "apply_constraints_to_boolean_branches": True,
        "propagate_knowns_to_prove_conditional": WITH_CONTENTS,
        "propagate_knowns_to_simplify_expressions": WITH_CONTENTS}}),
    ("", {"tir.UnrollLoop": {"auto_max_step": 64, "auto_max_extent": 8, "explicit_unroll": True}}),
    ("", {"tir.LoopPartition": {"partition_const_loop": True}}),
    ("", {"tir.disable_cse_tir": True}),
)  # fmt: skip


def meaning() -> Any:
    """The `T` under which a text runs as Python."""
    loops = {kind: lambda *ends, annotations=None: range(*ends) for kind in ("serial", "unroll", "vectorized")}

    def either(condition: Any, yes: Any, no: Any) -> Any:
        return yes if condition else no

    return types.SimpleNamespace(
        prim_func=lambda f: f, Buffer=lambda *_: None, int32=int, bool=bool, func_attr=lambda _: None, min=min, max=max,
        Select=either, if_then_else=either, likely=bool, evaluate=lambda _: None,
        decl_buffer=lambda shape, _: [0] * shape[0], **loops,
    )  # fmt: skip


class Case:
    """The program of a seed: `lines` of the body of `HEAD`."""

    builds = 2  # as it takes longer than others

    def __init__(self, seed: int, without: frozenset[str] = frozenset()) -> None:
        self.seed, self.rng = seed, random.Random(seed)
        self.lines: list[str] = []
        self.names = 0
        self.left = self.rng.randint(8, 40)  # statements to write
        self.runs = 1  # how often the present one runs
        self.lane = ""  # the variable of the loop in vectors around it, in which only `Z` is written
        self.memory: list[str] = []
        self.block((), 1, self.rng.randint(2, 6))
        self.choice = self.rng.choice(CHOICES)

    # ------------------------------------------------------------------ statements

    def write(self, depth: int, text: str) -> None:
        self.lines.append("    " * depth + text)

    def name(self, letter: str) -> str:
        self.names += 1
        return f"{letter}{self.names}"

    def block(self, names: Sequence[str], depth: int, count: int = 0) -> None:
        """Some statements; what one defines, the ones after it may use."""
        scope, memory = list(names), len(self.memory)
        for _ in range(count or self.rng.choice((1, 1, 1, 2, 2, 3))):
            self.statement(scope, depth)
        del self.memory[memory:]

    def statement(self, names: list[str], depth: int) -> None:
        rng, kind = self.rng, self.rng.random()
        self.left -= 1
        if self.left < 0 or depth > 6 or kind < 0.25:
            self.store(names, depth)
        elif kind < 0.55 and self.runs < 3000:
            self.loop(names, depth)
        elif kind < 0.8:
            self.write(depth, f"if {self.condition(names)}:")
            self.block(names, depth + 1)
            if rng.random() < 0.5:
                self.write(depth, "else:")
                self.block(names, depth + 1)
        elif kind < 0.9:
            let = self.name("v")
            self.write(depth, f"{let}: T.int32 = {self.index(names) if rng.random() < 0.6 else self.value(names)}")
            names.append(let)
        elif self.lane:
            self.store(names, depth)
        elif kind < 0.96:
            made, i = self.name("t"), self.name("i")
            self.write(depth, f'{made} = T.decl_buffer((8,), "int32")')
            self.write(depth, f"for {i} in T.serial(8):")
            self.write(depth + 1, f"{made}[{i}] = {i}")
            self.memory.append(made)
        else:
            self.repeat(names, depth)

    def repeat(self, names: Sequence[str], depth: int) -> None:
        """A loop of which the condition is asked for each time."""
        count = self.name("w")
        self.write(depth, f'{count} = T.decl_buffer((1,), "int32")')
        self.write(depth, f"{count}[0] = 0")
        self.write(depth, f"while {count}[0] < {self.rng.randint(1, 4)}:")
        self.write(depth + 1, f"{count}[0] = {count}[0] + {self.rng.randint(1, 2)}")
        self.runs *= 4
        self.block([*names, f"{count}[0]"], depth + 1)
        self.runs //= 4

    def loop(self, names: Sequence[str], depth: int) -> None:
        rng, var, before = self.rng, self.name("i"), self.runs
        if not self.lane and rng.random() < 0.2:
            lanes = rng.choice((2, 3, 4, 8))
            self.write(depth, f"for {var} in T.vectorized({lanes}):")
            self.lane, self.runs = var, before * lanes
            self.block([*names, var], depth + 1)
            self.lane, self.runs = "", before
            return
        unrolled, extent = rng.random() < 0.2, str(rng.randint(1, 5))
        if not unrolled and not self.lane and rng.random() < 0.3:
            extent = f"({rng.choice([*names, 'n'])} % 4 + {rng.randint(0, 3)})"
        first = rng.randint(1, 3) if rng.random() < 0.2 else 0
        ends = f"{first}, {first} + {extent}" if first else extent
        hint = ', annotations={"pragma_loop_partition_hint": 1}' if not unrolled and rng.random() < 0.2 else ""
        self.write(depth, f"for {var} in T.{'unroll' if unrolled else 'serial'}({ends}{hint}):")
        self.runs *= 5
        self.block([*names, var], depth + 1)
        self.runs = before

    def store(self, names: Sequence[str], depth: int) -> None:
        value = self.value(names)
        if self.lane:  # each lane has elements of its own
            at = self.index([n for n in names if n != self.lane], 1)
            self.write(depth, f"Z[({at}) % 4 * 8 + {self.lane}] = ({value}) % 101")
            return
        memory = self.rng.choice(["Y", *self.memory])
        self.write(depth, f"{memory}[({self.index(names, 1)}) % {SIZES.get(memory, 8)}] = ({value}) % 101")

    # ------------------------------------------------------------------ expressions

    def index(self, names: Sequence[str], depth: int = 0) -> str:
        rng = self.rng
        if depth > 2 or rng.random() < 0.3:
            kind = rng.random()
            return rng.choice(names) if names and kind < 0.6 else "n" if kind < 0.75 else str(rng.randint(0, 6))
        a, b, c = self.index(names, depth + 1), self.index(names, depth + 1), rng.randint(1, 5)
        kinds = (f"({a} + {b})", f"({a} - {b})", f"({a} * {c})", f"({a} // {c})", f"({a} % {c})",
                 f"T.max({a}, {b})", f"T.min({a}, {b})")  # fmt: skip
        return rng.choice(kinds) if rng.random() < 0.9 else f"T.Select({self.condition(names, 2)}, {a}, {b})"

    def condition(self, names: Sequence[str], depth: int = 0) -> str:
        rng, kind = self.rng, self.rng.random()
        if depth < 2 and kind < 0.25:
            word = rng.choice(("and", "or"))
            return f"({self.condition(names, depth + 1)} {word} {self.condition(names, depth + 1)})"
        if depth < 2 and kind < 0.32:
            return f"(not {self.condition(names, depth + 1)})"
        if kind < 0.5:
            return f"{self.load(names)} {rng.choice(('<', '>', '==', '!='))} {rng.randint(0, 9)}"
        limit = self.index(names, 2) if rng.random() < 0.5 else str(rng.randint(0, 8))
        text = f"{self.index(names, 1)} {rng.choice(('<', '<=', '>', '>=', '==', '!='))} {limit}"
        return f"T.likely({text})" if rng.random() < 0.1 else f"({text})"

    def load(self, names: Sequence[str]) -> str:
        memory = self.rng.choice(["X"] if self.lane else ["X", "Y", *self.memory])
        return f"{memory}[({self.index(names, 1)}) % {SIZES.get(memory, 8)}]"

    def value(self, names: Sequence[str], depth: int = 0) -> str:
        rng, kind = self.rng, self.rng.random()
        if depth > 2 or kind < 0.35:
            return self.load(names)
        if kind < 0.5:
            return self.index(names, 1)
        a, b = self.value(names, depth + 1), self.value(names, depth + 1)
        if kind < 0.62:
            return f"T.if_then_else({self.condition(names, 1)}, {a}, {b})"
        return rng.choice((f"({a} + {b})", f"({a} - {b})", f"T.max({a}, {b})", f"T.min({a}, {b})"))

    # ------------------------------------------------------------------ the check

    @property
    def source(self) -> str:
        """The function in TVMScript."""
        return "\n".join([HEAD.rstrip("\n"), *self.lines]) + "\n"

    def text(self) -> str:
        """A file that makes the function."""
        return f'from tvmagic.script import from_source\n\nmain = from_source("""\\\n{self.source}""")\n'

    def make(self) -> Any:
        """The function after the passes of its choice, and the switches."""
        from tvmagic.transform import PassContext

        import tvmagic
        from tvmagic import tir
        from tvmagic.script import from_source

        name, switches = self.choice
        mod = tvmagic.IRModule({"main": from_source(self.source)})
        with PassContext(config=switches):
            return getattr(tir.transform, name)()(mod) if name else mod

    def check(self) -> None:
        """Raise `Wrong` unless compiled code leaves in memory what the text does."""
        from tvmagic.transform import PassContext

        import tvmagic

        numbers = np.random.default_rng(self.seed)
        x, n = numbers.integers(0, 10, 16), int(numbers.integers(0, 6))
        y, z = list(range(16)), [0] * 32
        names: dict[str, Any] = {"T": meaning()}
        exec(self.source, names)
        names["main"](x.tolist(), y, z, n)
        arguments = [
            Argument(x.astype("int32"), False),
            Argument(np.array(y, "int32"), True, start=np.arange(16, dtype="int32")),
            Argument(np.array(z, "int32"), True, start=np.zeros(32, "int32")),
            n,
        ]
        module = guarded_call("pass", self.make)
        for target in (TARGETS[0], self.rng.choice(TARGETS[1:])):
            with PassContext(config=self.choice[1]):
                built = guarded_call("build", lambda t=target: tvmagic.build(module, target=t))
            check_call(built, arguments, self.rng)

    def holders(self) -> list[Any]:
        """Expressions for a shrinker: the statements are texts."""
        return []
