"""Proofs that every step of a version computes the same function as the operator's definition.

`tvmagic.prove` compares programs with a definition at given sizes; here are the sizes, the steps and the inputs with
concrete values.
"""

from __future__ import annotations

import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from tvmagic import ir
from tvmagic.errors import TVMagicError
from tvmagic.eval.values import TooLong
from tvmagic.ir.query import launches_thread
from tvmagic.operators.arrays import laid_out, shapes_of, size_values
from tvmagic.operators.inputs import make_inputs
from tvmagic.operators.races import races_of
from tvmagic.operators.verify import single_program, threads_in_turn
from tvmagic.passes import Record
from tvmagic.prove.algebra import NeedsNumbers
from tvmagic.prove.instance import Instance, Problem
from tvmagic.prove.proof import Proof, StepProof, worst
from tvmagic.prove.run import Definition, Sample
from tvmagic.prove.terms import MOST_TERMS, TERM, P, Q, Redraw, TooLarge
from tvmagic.tir.analysis.races import Race, find_races

if TYPE_CHECKING:
    from tvmagic.operators.operator import Operator
    from tvmagic.operators.version import Version

_DRAWINGS = 3  # of inputs with concrete values
_MOST_POINTS = 6
_STOPPED = "stopped before all steps were compared"
_CHANCE = 1e-9  # above it, points are added
_TERMS_PER_SECOND = 400_000  # of a slow machine


def prove(
    op: Operator,
    version: Version | str | None = None,
    *,
    program: Any = None,
    sizes: Mapping[str, int] | int | None = None,
    seconds: float = 60.0,
    points: int = 3,
    seed: int = 0,
    element: str | None = None,
) -> Proof:
    """Prove each step of a version equal to the definition, or refute it; see `Operator.prove`."""
    run = _Run(op, seconds, points, seed, element)
    if program is not None:
        steps = [("given", program)]
        return run.proof(steps, [sizes] if sizes is not None else _instances(op, None), None)
    if version is None or isinstance(version, str):
        version = op.version(version)
    record = op.passes(version, code=False, late=True)
    steps = [(step.name, step.after if step.kind != "codegen" else None) for step in record]
    return run.proof(steps, [sizes] if sizes is not None else _instances(op, record), version)


def _instances(op: Operator, record: Record | None) -> list[Any]:
    """The symbolic sizes to prove a version at: around the factors of its loops."""
    if not op.symbols:
        return [None]
    factors = {4}
    for step in record or ():
        if step.kind != "schedule":
            factors |= _extents(step.after)
    found = [{1, f - 1, f, f + 1, 2 * f + 1} for f in sorted(factors)[-2:]]
    return sorted({size for group in found for size in group if size > 0})


def _extents(program: Any) -> set[int]:
    """The constant extents of a program's loops and vectors, as far as they are small."""
    found: set[int] = set()

    def look(node: Any) -> None:
        if isinstance(node, ir.For) and isinstance(node.extent, ir.IntImm) and 1 < node.extent.value <= 32:
            found.add(node.extent.value)

    body = _program(program)
    body = getattr(body, "body", body)
    if isinstance(body, ir.Stmt):
        ir.post_order_visit(body, look)
    return found


def _program(program: Any) -> Any:
    """Return the function or statement that a step holds, or None if it holds none."""
    program = single_program(program)
    return program if isinstance(program, (ir.PrimFunc, ir.Stmt)) else None


class _Run:
    """The state of one proof."""

    def __init__(self, op: Operator, seconds: float, points: int, seed: int, element: str | None) -> None:
        self.op, self.seconds, self.points, self.seed = op, seconds, points, seed
        self.begin = time.monotonic()
        self.end = self.begin + seconds
        self.concrete: set[int] = set()
        self.law = False
        self.used_law = False
        self.sampled = False
        self.stopped = ""
        self.chance = 0.0
        self.sizes: list[dict[str, int]] = []
        self.element = element

    # ------------------------------------------------------------------------ the whole

    def proof(self, steps: Sequence[tuple[str, Any]], instances: Sequence[Any], version: Version | None) -> Proof:
        """The proof of programs by name, at each of the sizes."""
        programs, number = _distinct(steps)
        verdicts: list[list[StepProof]] = [[] for _ in programs]
        for size in instances:
            try:
                found = self._at_sizes(programs, size)
            except KeyboardInterrupt:  # while the definition runs
                self.stopped = _STOPPED
                break
            for verdict, one in zip(verdicts, found):
                verdict.append(one)
            if self.stopped:
                break
        combined = [worst(v) if v else StepProof("", 0, "unknown", reason="not compared") for v in verdicts]
        proofs = []
        for place, (name, _) in enumerate(steps):
            which = number[place]
            known = combined[which] if which is not None else StepProof("", 0, "")
            proofs.append(replace(known, name=name, number=place))
        self._add_races(proofs, programs, version)
        if not any(p.status for p in proofs) and not self.stopped:
            self.stopped = "no step has a program that runs"
        return Proof(
            self.op.name, tuple(proofs), tuple(self.sizes), self.seed, self.points, (Q, P), self.chance, self.used_law,
            time.monotonic() - self.begin, tuple(self.op.inputs[n].name for n in sorted(self.concrete)), self.stopped,
            self.sampled,
        )  # fmt: skip

    def _add_races(self, proofs: list[StepProof], programs: Sequence[Any], version: Version | None) -> None:
        """Let races count for the last program: a certain one refutes, a doubt leaves it open."""
        last = next((n for n in reversed(range(len(proofs))) if proofs[n].status), None)
        if last is None or self.stopped:
            return
        try:
            races = races_of(version) if version is not None else _races(programs[-1])
        except TVMagicError as error:
            races = []
            if proofs[last].status == "proved":
                proofs[last] = replace(proofs[last], status="unknown", kind="", reason=error.message)
        for race in sorted(races, key=lambda r: not r.certain)[:1]:
            status = "refuted" if race.certain else "unknown"
            if proofs[last].status == "refuted" or (proofs[last].status == "unknown" and not race.certain):
                return
            where = f"[{', '.join(map(str, race.element))}]" if race.element else ""
            element = f"{race.buffer.name}{where}" if race.buffer is not None else ""
            proofs[last] = replace(proofs[last], status=status, kind="", reason=race.text, element=element)

    # ------------------------------------------------------------------------ one size

    def _at_sizes(self, programs: Sequence[Any], size: Any) -> list[StepProof]:
        """The verdicts on programs at one size; inputs that decide what runs have concrete values."""
        arrays = self._inputs(size, 0)
        if arrays is None:
            return (
                [StepProof("", 0, "") for _ in programs]
                if self.sizes or size is not None
                else [_unknown("no inputs")] * len(programs)
            )
        values = size_values(self.op.inputs, arrays)
        self.sizes.append({var.name: values[var] for var in self.op.symbols})
        while True:
            try:
                found = self._drawn(programs, arrays)
                drawings = range(1, _DRAWINGS) if self.concrete and not self.stopped else ()
                for draw in drawings:
                    others = self._inputs(size, draw)
                    if others is not None:
                        found = [worst([a, b]) for a, b in zip(found, self._drawn(programs, others))]
                return found
            except NeedsNumbers as needed:
                new = {n for n in needed.names if n < len(self.op.inputs)} - self.concrete
                if not new:
                    return [_unknown("what runs depends on data")] * len(programs)
                self.concrete |= new

    def _inputs(self, size: Any, draw: int) -> list[np.ndarray] | None:
        try:
            return make_inputs(self.op, self.seed + draw, size if size is not None else 8)
        except TVMagicError:
            return None

    def _drawn(self, programs: Sequence[Any], arrays: Sequence[np.ndarray]) -> list[StepProof]:
        """The verdicts on programs for one drawing; with the law of `exp` where they are not proved without it."""
        self.law = False
        found, has_exp = self._judged(programs, arrays)
        open_ = [n for n, p in enumerate(found) if p.status == "unknown" and p.element]
        if open_ and has_exp and not self.sampled and not self.stopped:
            self.law = True
            again, _ = self._judged([programs[n] for n in open_], arrays)
            for n, proof in zip(open_, again):
                if proof.status == "proved":
                    self.used_law = True
                    reason = "by the law of exp" + (f"; {proof.reason}" if proof.reason else "")
                    found[n] = replace(proof, reason=reason)
                elif proof.status == "refuted":
                    found[n] = proof
        return found

    def _judged(self, programs: Sequence[Any], arrays: Sequence[np.ndarray]) -> tuple[list[StepProof], bool]:
        for attempt in range(4):
            try:
                return self._once(programs, arrays, self.seed + 1000 * attempt)
            except Redraw:
                continue
        return [_unknown("a divisor is 0 at random points") for _ in programs], False

    def _once(self, programs: Sequence[Any], arrays: Sequence[np.ndarray], seed: int) -> tuple[list[StepProof], bool]:
        problem = self._problem(arrays)
        try:
            sample = self._sample(problem, len(programs), seed)
            instance = Instance(problem, self.points, seed, self.law, self._left(), sample)
        except TooLarge as error:
            return [_unknown(error.message) for _ in programs], False
        except TVMagicError as error:
            return [_unknown(f"the definition: {error.message}") for _ in programs], False
        self.sampled = self.sampled or sample is not None
        if instance.chance() > _CHANCE and self.points < _MOST_POINTS:
            self.points += 1
            return self._once(programs, arrays, seed)
        found = []
        for program in programs:
            if self.stopped:
                found.append(_unknown("stopped"))
            elif self._left() <= 0:
                found.append(_unknown("the time did not suffice"))
            elif isinstance(program, TVMagicError):
                found.append(_unknown(program.message))
            else:
                try:
                    found.append(instance.judge(program, self._left(), self._wished(problem)))
                except KeyboardInterrupt:
                    self.stopped = _STOPPED
                    found.append(_unknown("stopped"))
        self.chance = max(self.chance, instance.chance())
        return found, any(name == "exp" for name in instance.terms.op_names)

    def _left(self) -> float:
        return self.end - time.monotonic()

    def _wished(self, problem: Problem) -> tuple[str, int] | None:
        """The output and the flat position of the element whose terms are asked for."""
        if self.element is None:
            return None
        match = re.fullmatch(r"\s*(\w+)\s*\[([\d\s,]*)\]\s*", self.element)
        for tensor in problem.outputs:
            if match is not None and tensor.name == match[1]:
                shape = problem.shapes[next(n for n, t in enumerate(problem.arguments) if t is tensor)]
                index = tuple(int(i) for i in match[2].split(",") if i.strip())
                if len(index) == len(shape) and all(i < n for i, n in zip(index, shape)):
                    return tensor.name, int(np.ravel_multi_index(index, shape)) if shape else 0
        names = ", ".join(f"`{t.name}`" for t in problem.outputs)
        raise TVMagicError(
            f"expected an element of {names} at these sizes, got `{self.element}`", code="prove.unknown_element"
        )

    def _problem(self, arrays: Sequence[np.ndarray]) -> Problem:
        op = self.op
        sizes = size_values(op.inputs, arrays)
        definition = None
        if op.prim_func is not None:
            definition = op.prim_func
        elif not Definition.covers(op.outputs):
            definition = op.te_schedule().lower()
        return Problem(
            op.args, len(op.inputs), op.outputs, shapes_of(op.args, sizes), sizes,
            lambda tensor, shape: laid_out(tensor, shape, sizes, TERM), definition,
            {n: np.asarray(arrays[n]) for n in self.concrete},
        )  # fmt: skip

    def _sample(self, problem: Problem, count: int, seed: int) -> Sample | None:
        """Which iterations to run if all of them would take too long; None for all."""
        if problem.definition is not None:
            return None
        some = Instance(problem, self.points, seed, self.law, self._left(), Sample(()))
        before = some.terms.size
        elements = sum(int(np.prod(problem.shapes[some._number(t)], dtype=np.int64)) for t in problem.outputs)
        machine = some._demand(self._left())
        tried = 0
        for tensor in problem.outputs:
            size = int(np.prod(problem.shapes[some._number(tensor)], dtype=np.int64))
            positions = np.unique(np.linspace(0, size - 1, min(size, 16)).astype(np.int64)) if size else np.arange(0)
            tried += positions.size
            machine.elements(tensor, positions)
        if not tried:
            return None
        needed = (some.terms.size - before) / tried * elements
        if some.bare + needed < 0.9 * MOST_TERMS and needed * (count + 1) / _TERMS_PER_SECOND < self.seconds:
            return None
        middle = float(np.random.default_rng(self.seed).uniform(0.1, 0.9))
        return Sample((0.0, middle, 1.0))


def _races(program: Any) -> list[Race]:
    """The races of a given program; none if nothing in it runs at the same time."""
    kinds = (ir.ForKind.PARALLEL, ir.ForKind.VECTORIZED, ir.ForKind.THREAD_BINDING)
    found: list[Any] = []

    def look(node: Any) -> None:
        if (isinstance(node, ir.For) and node.kind in kinds) or (
            isinstance(node, ir.AttrStmt) and launches_thread(node)
        ):
            found.append(node)

    if isinstance(program, ir.PrimFunc):
        ir.post_order_visit(program.body, look)
    return find_races(program) if found else []


def _unknown(reason: str) -> StepProof:
    return StepProof("", 0, "unknown", reason=reason)


def _distinct(steps: Sequence[tuple[str, Any]]) -> tuple[list[Any], list[int | None]]:
    """The different programs of steps, and for each step which one it has; None if it has none."""
    programs: list[Any] = []
    by_id: dict[int, tuple[Any, int | None]] = {}
    by_hash: dict[int, list[int]] = {}
    number: list[int | None] = []
    for _, after in steps:
        if id(after) not in by_id:
            by_id[id(after)] = (after, _place(after, programs, by_hash))
        number.append(by_id[id(after)][1])
    return programs, number


def _place(after: Any, programs: list[Any], by_hash: dict[int, list[int]]) -> int | None:
    try:
        program = _program(after)
        if isinstance(program, ir.PrimFunc):
            program = threads_in_turn(program)
    except TVMagicError as error:
        programs.append(error)
        return len(programs) - 1
    if program is None:
        return None
    same = by_hash.setdefault(ir.structural_hash(program), [])
    for other in same:
        if type(programs[other]) is type(program) and ir.structural_equal(programs[other], program):
            return other
    programs.append(program)
    same.append(len(programs) - 1)
    return len(programs) - 1


__all__ = ["TooLong", "prove"]
