"""Compare programs with a definition at given sizes, element by element."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any

import numpy as np

from tvmagic import ir
from tvmagic.errors import TVMagicError
from tvmagic.eval.algebra import Unsupported
from tvmagic.eval.lanes import OutOfRange
from tvmagic.ir.numpy_types import numpy_dtype
from tvmagic.prove.algebra import TermAlgebra
from tvmagic.prove.normal_form import NormalForms
from tvmagic.prove.proof import KINDS, StepProof
from tvmagic.prove.run import Definition, Sample, run_program
from tvmagic.prove.term_text import sides_text, term_text
from tvmagic.prove.terms import TERM, Q, Redraw, Terms, TooLarge
from tvmagic.prove.witness import Evaluator, NoLaw, Witness, element_text, find_witness, name_of, number_text

Array = Any
_KEPT = 2_000_000  # terms of a definition that are kept while programs run
_WITNESS_SECONDS = 1.0
_FORM_SECONDS = 10.0


@dataclass
class Problem:
    """What is to be proved: the arguments of an operator at given sizes, and its definition.

    arguments: tensors or buffers, inputs first; `inputs` is their number, `outputs` are those compared.
    shapes: shapes of the arguments. layout: returns memory for an argument, with the strides of its buffer.
    concrete: arrays of the inputs that have given values, by their number.
    definition: a program, if `outputs` are no tensor expressions that can be computed by themselves.
    """

    arguments: Sequence[Any]
    inputs: int
    outputs: Sequence[Any]
    shapes: Sequence[tuple[int, ...]]
    sizes: Mapping[ir.Var, int]
    layout: Callable[[Any, tuple[int, ...]], np.ndarray]
    definition: Any = None
    concrete: dict[int, np.ndarray] = field(default_factory=dict)


@dataclass
class _Values:
    """What is compared of the elements of one output."""

    written: Array
    strict: Array
    leaf: Array
    p: Array
    terms: Array


class Instance:
    """The definition as terms, and verdicts on programs.

    Raises `NeedsNumbers`, `Redraw`, `Unsupported` and others as running the definition does. `sample`: which elements and
    iterations are run; None for all.
    """

    def __init__(
        self, problem: Problem, points: int, seed: int, law: bool, seconds: float, sample: Sample | None = None
    ) -> None:
        self.problem, self.sample = problem, sample
        self.terms = Terms(points, seed, law)
        self.inputs = [self._input(number) for number in range(problem.inputs)]
        self.bare = self.terms.size
        self.degree = 1.0
        self.wanted = self._define(seconds) if sample is None else []
        self.kept = self.terms.size <= _KEPT
        self.mark = self.terms.size if self.kept else self.bare
        self.defined_calls = self.calls = self.terms.calls

    # ------------------------------------------------------------------------ definition

    def _input(self, number: int) -> np.ndarray:
        tensor, shape = self.problem.arguments[number], self.problem.shapes[number]
        if number in self.problem.concrete:
            self.terms.names.append((tensor.name, shape))
            return TermAlgebra(self.terms).lifted(self.problem.concrete[number], tensor.dtype)
        rows = self.terms.inputs(tensor.name, shape, tensor.dtype)
        return rows.view(TERM).reshape(shape)

    def _memories(self) -> list[np.ndarray]:
        """Fresh memory of all arguments, laid out as their buffers want it."""
        found = []
        for number, (tensor, shape) in enumerate(zip(self.problem.arguments, self.problem.shapes)):
            memory = self.problem.layout(tensor, shape)
            memory["term"] = self.inputs[number]["term"] if number < len(self.inputs) else 0
            found.append(memory)
        return found

    def _define(self, seconds: float) -> list[_Values]:
        problem = self.problem
        if problem.definition is not None:
            memories = self._memories()
            run_program(problem.definition, problem.arguments, memories, problem.sizes, self.terms, seconds)
            return [self._values(self._output(t, memories)) for t in problem.outputs]
        machine = self._demand(seconds)
        found = []
        for tensor in problem.outputs:
            shape = problem.shapes[self._number(tensor)]
            rows = machine.elements(tensor, np.arange(int(np.prod(shape, dtype=np.int64))))["term"]
            found.append(self._values(rows))
        return found

    def _demand(self, seconds: float) -> Definition:
        machine = Definition(self.problem.sizes, self.terms, seconds)
        for tensor, memory in zip(self.problem.arguments, self.inputs):
            machine.bind(tensor, memory)
        return machine

    def _number(self, tensor: Any) -> int:
        return next(n for n, t in enumerate(self.problem.arguments) if t is tensor)

    def _output(self, tensor: Any, memories: Sequence[np.ndarray]) -> Array:
        return np.ascontiguousarray(memories[self._number(tensor)]["term"]).reshape(-1)

    def _values(self, rows: Array) -> _Values:
        terms = self.terms
        if rows.size:
            degree = terms.column("degree", rows) + terms.column("divisor", rows)
            self.degree = max(self.degree, float(degree.max()))
        return _Values(
            rows != 0, terms.column("strict", rows), terms.leaf_hash(rows), terms.p[:, rows].copy(), rows.copy()
        )

    # ------------------------------------------------------------------------ verdicts

    def judge(self, program: Any, seconds: float, element: tuple[str, int] | None = None) -> StepProof:
        """The verdict on a program, which has the arguments of the problem. `element`: give its term, too.

        Raises `NeedsNumbers` and `Redraw`.
        """
        begin = time.monotonic()
        self.terms.calls = self.defined_calls
        if self.sample is not None:
            self.sample.text = ""  # each program has its own loops
        try:
            rows = self._run(program, begin + seconds)
            proof = self._compare(program, rows, begin + seconds)
        except OutOfRange as error:
            proof = StepProof("", 0, "refuted", element=_accessed(error), reason=error.message)
        except TVMagicError as error:
            proof = StepProof("", 0, "unknown", reason=error.message)
        else:
            if element is not None:
                index = [t.name for t in self.problem.outputs].index(element[0])
                term = term_text(self.terms, int(rows[index][element[1]]))
                proof = replace(proof, term=term, element=self._element(index, element[1]))
        self.calls = max(self.calls, self.terms.calls)
        return replace(proof, seconds=time.monotonic() - begin)

    def _compare(self, program: Any, rows: list[Array], end: float) -> StepProof:
        found = [self._values(r) for r in rows]
        if self.sample is not None:
            return self._compare_sample(found, end)
        total = sum(v.strict.size for v in self.wanted)
        kind, real, reason = "exact", "", ""
        differing: list[tuple[int, int]] = []
        unwritten = ""
        for number, (got, wanted) in enumerate(zip(found, self.wanted)):
            missing = np.nonzero(~got.written & wanted.written)[0]
            if missing.size:
                name = self._element(number, int(missing[0]))
                return StepProof(
                    "", 0, "refuted", element=name, reason="nothing writes it", elements=total, compared=total
                )
            exact = (got.strict == wanted.strict) | ~wanted.written
            reordered, equal = got.leaf == wanted.leaf, (got.p == wanted.p).all(axis=0)
            equal |= ~wanted.written
            if not np.all(exact):
                kind = max(kind, "reordered", key=KINDS.index)
            reads = np.nonzero(~exact & ~reordered & equal & self.terms.column("unwritten", got.terms))[0]
            if reads.size:
                leaves = TermAlgebra(self.terms).leaves_of(got.terms[reads[:1]])
                leaf = leaves[self.terms.column("unwritten", leaves)]
                unwritten = unwritten or self._element(number, int(reads[0]))
                reason = "computes with an infinity or NaN, which is no real number"
                if leaf.size:
                    memory = name_of(self.terms, int(leaf[0]))
                    reason = f"reads {memory}, which nothing wrote, though it cancels over the reals"
            loose = np.nonzero(~exact & ~reordered & equal)[0]
            if loose.size:
                kind, real = "real", real or self._element(number, int(loose[0]))
            differing += [(number, int(n)) for n in np.nonzero(~(exact | equal))[0]]
        if not differing and unwritten:
            return StepProof("", 0, "unknown", "", reason, unwritten, total, total)
        if not differing:
            return self._proved(kind, real, total)
        return self._settle(program, rows, differing, end, total)

    def _proved(self, kind: str, real: str, total: int) -> StepProof:
        reason = (
            f"may differ for NaN, infinities, signed zeros and in rounding, as {real} does" if kind == "real" else ""
        )
        return StepProof("", 0, "proved", kind, reason, real, total, total)

    def _element(self, number: int, position: int) -> str:
        tensor = self.problem.outputs[number]
        return element_text(tensor.name, self.problem.shapes[self._number(tensor)], position)

    def _wanted_term(self, number: int, position: int) -> int:
        """The term of an element by the definition, computed again if it was not kept."""
        if self.kept and self.sample is None:
            return int(self.wanted[number].terms[position])
        if self.problem.definition is not None:
            raise TooLarge("cannot compare terms: those of the definition are too large", code="prove.too_many_terms")
        return int(self._demand(60.0).elements(self.problem.outputs[number], np.asarray([position]))["term"][0])

    def _settle(
        self, program: Any, rows: list[Array], differing: list[tuple[int, int]], end: float, total: int
    ) -> StepProof:
        """The verdict on elements whose residues differ: rounded constants, a witness, normal forms, or unknown."""
        number, position = differing[0]
        got, wanted = int(rows[number][position]), self._wanted_term(number, position)
        proof = StepProof("", 0, "unknown", element=self._element(number, position), elements=total, compared=total)
        roundings = self._roundings(got, wanted)
        texts = sides_text(self.terms, got, wanted)
        proof = replace(proof, term=texts[0], wanted=texts[1])
        if roundings and (rounded := self._with_roundings(program, roundings, end)) is not None:
            return rounded
        if roundings and not self.kept:
            return replace(proof, reason="its constants are rounded, and its terms are too large")
        if roundings:  # the other run has overwritten the terms
            rows = self._run(program, end)
        reason = ""
        for number, position in [*differing[:2], *differing[-1:]]:
            got, wanted = int(rows[number][position]), self._wanted_term(number, position)
            witness, reason = find_witness(
                self.terms, got, wanted, min(_WITNESS_SECONDS, max(end - time.monotonic(), 0.1))
            )
            if witness is not None:
                texts = sides_text(self.terms, got, wanted)
                proof = replace(proof, element=self._element(number, position), term=texts[0], wanted=texts[1])
                return self._refuted(proof, witness, got, wanted)
        try:
            now = time.monotonic()
            end = min(end, now + min(_FORM_SECONDS, max(end - now, 0.4) / 4))
            forms = NormalForms(self.terms, end)
            for number, position in differing:
                if self.terms.columns["unwritten"][rows[number][position]]:
                    return replace(
                        proof,
                        reason="reads memory that nothing wrote, or an infinity",
                        element=self._element(number, position),
                    )
                if time.monotonic() > end:
                    return replace(proof, reason="the time did not suffice for normal forms")
                if not forms.equal(int(rows[number][position]), self._wanted_term(number, position)):
                    return replace(
                        proof, reason=reason or "no identity was found", element=self._element(number, position)
                    )
        except NoLaw as error:
            return replace(proof, reason=error.name if " " in error.name else reason)
        return replace(self._proved("real", proof.element, total), term=proof.term, wanted=proof.wanted)

    def _refuted(self, proof: StepProof, witness: Witness, got: int, wanted: int) -> StepProof:
        leaves = TermAlgebra(self.terms).leaves_of(np.asarray([got]))
        unwritten = leaves[self.terms.column("unwritten", leaves)]
        where = ", ".join(f"{name} = {value}" for name, value in list(witness.inputs.items())[:6])
        more = len(witness.inputs) - 6
        where += f" and {more} others" if more > 0 else ""
        at = f"for {where}, all others 0" if where else "for inputs that are all 0"
        reason = f"{witness.got}, by the definition {witness.wanted}, {at}"
        if unwritten.size:
            reason = f"reads {name_of(self.terms, int(unwritten[0]))}, which nothing wrote: {reason}"
        given = {
            element_text(self.problem.arguments[n].name, array.shape, int(place)): str(array.flat[place])
            for n, array in self.problem.concrete.items()
            for place in np.flatnonzero(array)
        }
        data = {"inputs": given | dict(witness.inputs), "got": witness.got, "wanted": witness.wanted}
        return replace(proof, status="refuted", reason=reason, witness=data)

    # ------------------------------------------------------------------------ constants

    def _roundings(self, got: int, wanted: int) -> dict[tuple[str, Fraction], Fraction]:
        """Constants of a term that are the nearest of their dtype to a constant expression of the definition."""
        try:
            mine, theirs = (self._constants(t) for t in (got, wanted))
        except NoLaw:
            return {}
        known = {value for _, value in theirs}
        exact = set(known)
        exact |= (
            {1 / v for v in known if v}
            | {a / b for a in known for b in known if b}
            | {a * b for a in known for b in known}
        )
        return {
            (dtype, value): meant
            for dtype, value in mine
            if "float" in dtype and value not in known
            for meant in sorted(exact, key=lambda v: abs(v - value))[:1]
            if meant != value and _is_nearest(value, meant, dtype)
        }

    def _constants(self, term: int) -> set[tuple[str, Fraction]]:
        found = set()
        for node in Evaluator(self.terms, [term]).order:
            if self.terms.is_constant(node):
                value = self.terms.constant_value(node)
                if not isinstance(value, (str, bool)):
                    found.add((self.terms.dtype_names[self.terms.columns["dtype"][node]], Fraction(value)))
        return found

    def _run(self, program: Any, end: float, roundings: Mapping[Any, Any] | None = None) -> list[Array]:
        """Run a program on fresh memory. Returns the terms of each output."""
        self.terms.truncate(self.mark)
        memories = self._memories()
        left = max(end - time.monotonic(), 0.1)
        run_program(
            program, self.problem.arguments, memories, self.problem.sizes, self.terms, left, roundings, self.sample
        )
        return [self._output(t, memories) for t in self.problem.outputs]

    def _with_roundings(
        self, program: Any, roundings: dict[tuple[str, Fraction], Fraction], end: float
    ) -> StepProof | None:
        """The proof with constants replaced by what they round; None if that is none."""
        found = [self._values(r) for r in self._run(program, end, roundings)]
        equal = [(g.p == w.p).all(axis=0) | ~w.written for g, w in zip(found, self.wanted)]
        if not all(np.all(e) for e in equal):
            return None
        total = sum(w.strict.size for w in self.wanted)
        pairs = tuple((repr(float(value)), number_text(meant)) for (_, value), meant in roundings.items())
        reason = ", ".join(f"{text} stands for {meant}" for text, meant in pairs)
        return StepProof("", 0, "proved", "rounded", reason, "", total, total, constants=pairs)

    # ------------------------------------------------------------------------ samples

    def _compare_sample(self, found: list[_Values], end: float) -> StepProof:
        """Compare the elements that the sampled iterations wrote from what they had computed."""
        assert self.sample is not None
        total, compared = sum(v.strict.size for v in found), 0
        machine = self._demand(max(end - time.monotonic(), 0.1))
        for number, got in enumerate(found):
            usable = got.written & ~self.terms.column("unwritten", got.terms)
            positions = np.nonzero(usable)[0]
            wanted = self._values(machine.elements(self.problem.outputs[number], positions)["term"])
            same = (got.strict[positions] == wanted.strict) | (got.p[:, positions] == wanted.p).all(axis=0)
            compared += positions.size
            if not same.all():
                name = self._element(number, int(positions[np.argmin(same)]))
                reason = "differs in the sampled iterations, which may depend on others"
                return StepProof("", 0, "unknown", "", reason, name, total, compared)
        reason = f"{self.sample.text}, {compared} of {total} elements: equal"
        if not compared:
            reason = f"too large: no element follows from {self.sample.text}"
        return StepProof("", 0, "unknown", "sampled" if compared else "", reason, "", total, compared)

    def chance(self) -> float:
        """A bound on the chance that elements with equal residues have different terms."""
        return min(1.0, (1 + self.calls**2 / 2) * (self.degree / Q) ** self.terms.points)


def _is_nearest(value: Fraction, meant: Fraction, dtype: str) -> bool:
    kind = numpy_dtype(ir.DataType(dtype)).type
    number = kind(float(value))
    around = [Fraction(float(np.nextafter(number, kind(side)))) for side in (-np.inf, np.inf)]
    return all(abs(meant - value) <= abs(meant - other) for other in around)


def _accessed(error: OutOfRange) -> str:
    """The element of an access outside memory, from its message."""
    name, _, index = error.message.partition("`, at index ")
    return name.rpartition("`")[2] + index


__all__ = ["Instance", "Problem", "Redraw", "Unsupported"]
