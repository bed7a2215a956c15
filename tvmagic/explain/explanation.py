"""`explain(version)`: where the time of a schedule goes, what is wrong with it in words, and the calls that would help."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from tvmagic.auto import decide
from tvmagic.codegen import code_texts, last_program
from tvmagic.errors import TVMagicError
from tvmagic.explain.findings import Case, Suspect, suspects
from tvmagic.explain.llvm import Facts, facts_of, loop_of_lines
from tvmagic.explain.schedule_writer import plain_name, views_of
from tvmagic.explain.trial import Edit, Trials, attachments, inlinings, numbers_in, parallel_calls
from tvmagic.explain.waste import inlined_in, waste_of
from tvmagic.ir import AttrStmt, For, PrimFunc, post_order_visit
from tvmagic.ir.views import viewed
from tvmagic.lazy import cached_property
from tvmagic.model.core_model import DIVISION
from tvmagic.model.footprints import footprint, patterns, touched
from tvmagic.model.nests import Statement, nests_of
from tvmagic.model.program_model import NestModel, in_one_core, model
from tvmagic.model.traffic import BYTES_A_CYCLE, LEVELS, Traffic
from tvmagic.operators import Operator, Version
from tvmagic.target import resolved
from tvmagic.target.machine import Machine

WORTH = 1.15  # the least gain, by the model, of a call that is proposed
WORTH_MOVING = 1.3  # that of one that changes what memory moves, of which a model is less sure
WORTH_REWRITING = 2.5  # that of another schedule
BESIDE = 0.4  # of the best finding's gain, as a power: a call that gains less leaves what takes most of the time, and is for later
MOST = 5  # findings
TRIED = 8  # edits of a finding
TRIALS = 32  # edits tried in all
COMPILED = 3  # edits of a finding of which LLVM's code is looked at
FEW_SPILLS = 2  # vectors that a loop may store to the stack
# What numbers of the model alone tell, which are others as soon as loops are in another order or of other sizes.
_BY_NUMBERS = {"small-tile", "few-accumulators", "short-loop", "streamed-operand", "cache-conflicts", "strided-access", "narrow-vectors"}  # fmt: skip
CALLED = 1000  # cycles that calling a compiled operator takes at least


@dataclass(frozen=True)
class Finding:
    """One thing that is wrong, or that cannot be better.

    Attributes
    ----------
    code: what kind of finding, a key of `CODES`.
    text: a sentence.
    line: the line of the lowered program (from 1; 0 if none).
    cell_line: the line of the cell, `%%schedule`'s if `replaces` is set, else the line that the loop is from; 0 if none.
    call: the calls to paste at the end of the `%%schedule` cell, or with `replaces` into `cell_line`'s place; may be empty.
    gain: how many times faster the whole program is then, by the model; 1 if not known.
    replaces: whether `call` replaces the statement at `cell_line`; `lines`: how many lines it replaces.
    cell: the whole `%%schedule` cell with the call in it.
    measured: how many times faster it was when both were run, as `%why` does; 0 if they were not.
    """

    code: str
    text: str
    line: int
    cell_line: int
    call: str
    gain: float
    replaces: bool = False
    cell: str = ""
    lines: int = 0
    measured: float = 0.0


@dataclass(frozen=True)
class LoopRow:
    """A hot loop nest: the columns of the table. Times are shares of the program's, by the model.

    `intensity`: operations for a byte that memory has to give at least. `bytes`: what each level gives or takes; `L1` is what registers exchange with the first cache. `roof`: what the nest is
    limited by; `roof_share`: how much of that limit it reaches. `cycles`: of an iteration of `loop`. `threads`: as if so many worked.
    """

    nest: str
    loop: str
    loops: tuple[str, ...]
    line: int
    share: float
    flops: int
    bytes: dict[str, int]
    roof: str
    roof_share: float
    cycles: float
    port: str
    ports: dict[str, float]
    registers: int
    registers_there: int
    spills: int
    vectorized: str
    recomputed: float
    intensity: float
    threads: float


@viewed("explanation")
@dataclass
class Explanation:
    """What `explain` found: `findings` (worst first), `loops` (hot loop nests, slowest first), `notes` on how it was found.

    `program` is the lowered program's text, `assembly` that of the hottest loop, each row with its line of the program.
    """

    name: str
    version: str
    machine: Machine
    findings: list[Finding]
    loops: list[LoopRow]
    notes: list[str]
    cycles: float
    program: str
    assembly: list[tuple[str, int]] = field(default_factory=list)
    pressure: list[str] = field(default_factory=list)
    body_cycles: float = 0.0  # of one run of `assembly` by the tool `cycles_by`; 0 if none is installed
    cycles_by: str = ""

    def to_json(self) -> dict[str, Any]:
        """The same as plain data, under the same names."""
        return {
            "name": self.name,
            "version": self.version,
            "machine": self.machine.name,
            "findings": [asdict(f) for f in self.findings],
            "loops": [asdict(row) for row in self.loops],
            "notes": list(self.notes),
            "cycles": self.cycles,
            "assembly": [list(row) for row in self.assembly],
            "pressure": list(self.pressure),
            "body_cycles": self.body_cycles,
            "cycles_by": self.cycles_by,
        }

    def __repr__(self) -> str:
        codes = ", ".join(f.code for f in self.findings) or "no findings"
        return f"<Explanation of {self.name} ({self.version}): {codes}>"


def explain(
    value: Operator | Version, target: Any = None, size: int = 256, llvm: bool = True, seconds: float = 5.0
) -> Explanation:
    """Why a version of an operator (the last by default) takes the time that it does, and what would help.

    Nothing is run: all follows from the lowered program, a model of the machine and what LLVM says of its own passes.

    Parameters
    ----------
    target: what to explain it for, a Target or its text; by default what is compiled for. It has to be a CPU.
    size: the value of symbolic sizes.
    llvm: ask LLVM for its remarks, and read the assembly; takes a second.
    seconds: begin to try no more calls after this time.
    """
    version = value.current if isinstance(value, Operator) else value
    if not isinstance(version, Version):
        raise TVMagicError(
            f"an operator or a version of one is explained, not `{type(value).__name__}`",
            code="explain.not_an_operator",
        )
    chosen = resolved(target)
    if chosen.has_kernels:
        raise TVMagicError(
            f"the model knows how long code takes on CPUs alone, and `{chosen}` is not one",
            hint="`explain` takes a target of LLVM for a CPU, such as `llvm -mcpu=haswell`",
            code="explain.not_a_cpu",
        )
    return _Explainer(version, chosen, size, llvm, seconds).run()


class _Explainer:
    """One explanation in the making."""

    def __init__(self, version: Version, target: Any, size: int, llvm: bool, seconds: float) -> None:
        self.version, self.target, self.size, self.llvm = version, target, size, llvm
        self.machine = target.machine
        lowered = version.lower()
        self.launches = _launches(next(iter(lowered.functions.values())))
        self.mod = last_program(lowered, target)
        self.func: PrimFunc = next(iter(self.mod.functions.values()))
        texts = code_texts(self.mod, target)
        self.lines = texts.lines
        loops = _loops_by_line(self.func, self.lines, size)
        self.facts = facts_of(texts, loops) if llvm else Facts()
        self.model = model(self.func, self.machine, size, self.facts.vectorized)
        if begun := self._begun():
            self.model = model(self.func, self.machine, size, self.facts.vectorized, begun)
        self.guess = (
            model(self.func, self.machine, size) if self.facts.vectorized or begun else self.model
        )  # as of what is tried
        self.traffic = Traffic([n.nest for n in self.model.nests], nests_of(self.func, size).top, self.machine)
        self.views = views_of(version, size)
        self.trials = Trials(version, target, size, TRIALS, seconds)

    def _begun(self) -> dict[For, bool]:
        """For nests with sums that begin inside whether LLVM's code has them in memory, as far as that is known."""
        found: dict[For, bool] = {}
        for made in self.model.hot:
            if any(s.begun for s in made.nest.statements) and made.iterations:
                stored = self.facts.stored(self._nest_lines(made))
                if stored is not None:
                    found[made.nest.inner.node] = stored
        return found

    def run(self) -> Explanation:
        case = self._case()
        findings = self._findings(case)
        loops = [self._row(case, nest) for nest in self.model.hot]
        hottest = self.model.hot[0] if self.model.hot else None
        made = Explanation(
            self.version.operator.name, self.version.name, self.machine, findings, loops, list(self.facts.notes),
            self.model.time, self.lines.text,
        )  # fmt: skip
        if hottest is not None:
            body = self.facts.body(self._nest_lines(hottest), self.target)
            made.assembly, made.pressure = body.rows, body.pressure
            made.body_cycles, made.cycles_by = body.cycles, body.tool
            made.notes = list(self.facts.notes)
        if self.machine.generic:
            made.notes.append(
                f"nothing is known of `{self.machine.name}`: the numbers are for a common processor in its place"
            )
        if self.launches:
            made.notes.append(
                "the schedule is one for a GPU, of which blocks and threads run one after the other on a CPU: nothing is proposed for it"
            )
        elif hottest is None:
            made.notes.append("there is no loop that takes time")
        elif self.model.time < CALLED:
            made.notes.append(
                f"all loops together take about {self.model.time:.0f} cycles, less than a call does: no schedule makes it faster"
            )
        if self.version.operator.checks_accesses:
            made.notes.append(
                "compiled accesses are checked while they run, which is not in the model; see `check_bounds`"
            )
        if self.trials.left < 0:
            made.notes.append("not every call that may help was tried; `explain(..., seconds=60)` tries longer")
        return made

    def _case(self) -> Case:
        case = Case(
            self.model,
            self.traffic,
            self.machine,
            self.views,
            list(numbers_in(self.version)),
            attachments(self.version),
            parallel_calls(self.version),
            waste_of(self.version, self.model, self.size),
            inlined=inlined_in(self.version, self.model, self.size),
            inlinings=inlinings(self.version),
        )
        case.remarks = {id(loop): text for loop, text in self.facts.remarks.items()}
        case.lane_by_lane = {id(loop) for loop, made in self.facts.vectorized.items() if made}
        case.checked = self.version.operator.checks_accesses
        return case

    # ------------------------------------------------------------------------ findings

    def _findings(self, case: Case) -> list[Finding]:
        if self.model.time < CALLED or self.launches:
            return []
        ranked = self._ranked(suspects(case))
        found = [f for s in ranked if (f := self._tried(s)) is not None]
        if not any(f.call and f.code != "not-parallel" for f in found):
            found += self._rewritten(ranked)
        found.sort(key=_badness)
        best = max((f.gain for f in found if f.code != "not-parallel"), default=1.0)
        kept: list[Finding] = []
        for finding in found:
            if finding.call and finding.code in _BY_NUMBERS and finding.gain < best**BESIDE:
                continue
            if not any(f.code == finding.code or (f.call and f.call == finding.call) for f in kept):
                kept.append(finding)
        kept = kept[:MOST]
        roof = self._at_roof(case, kept)
        return [*kept, roof] if roof is not None and len(kept) < MOST else kept

    def _ranked(self, found: list[Suspect]) -> list[Suspect]:
        """The slowest nests first, so that their edits are tried first."""
        return sorted(found, key=lambda s: (s.code == "not-parallel", -s.nest.time))

    def _tried(self, suspect: Suspect) -> Finding | None:
        """The finding with the edit that helps most; None if no edit helps, or none can be tried and it is not certain."""
        found: list[tuple[float, Edit]] = []
        for edit in suspect.edits[:TRIED]:
            result = self.trials.run(edit)
            if result is None or not self.model.like(result.model):
                continue
            gain = self._before(edit) / max(result.model.time, 1e-9)
            if gain >= (WORTH_MOVING if suspect.code == "streamed-operand" else WORTH):
                found.append((gain, edit))
        best = self._best(found)
        fixed = self.trials.cell is None or not self.views  # loops that no call is known for
        untried = fixed and suspect.certain and self.model.share(suspect.nest) >= 0.25
        if best is None and not untried and not suspect.fact:
            return None
        return self._finding(suspect, *(best or (1.0, None)))

    def _before(self, edit: Edit) -> float:
        """Cycles to compare those of an edit with, of which nothing is known from LLVM: as it is if the vectors will be others,
        else by the same guess."""
        if "vectorize(" in edit.text or "decompose_reduction(" in edit.text:
            return self.model.time
        return min(self.model.time, self.guess.time) if "reorder(" in edit.text else self.guess.time

    @cached_property
    def _instant(self) -> tuple[float, Edit]:
        """The instant schedule in the place of the cell's, and how many times as fast it is with one core; 0 if there is none."""
        try:
            edit = self.trials.whole(decide(self.version.operator, self.target).cell.strip())
        except TVMagicError:
            return 0.0, Edit("")
        result = self.trials.run(edit)
        if result is None or not self.model.like(result.model) or not self.trials.accepted(edit):
            return 0.0, edit
        alone = replace(self.machine, cores=1)
        own, other = (
            model(next(iter(mod.functions.values())), alone, self.size).time for mod in (self.mod, result.mod)
        )
        return own / max(other, 1e-9), edit

    def _rewritten(self, ranked: list[Suspect]) -> list[Finding]:
        """What is wrong with the slowest nest if no call on it helps but another schedule does: all calls of that one."""
        suspect = next((s for s in ranked if s.certain), None)
        if suspect is None or self._instant[0] < WORTH_REWRITING:
            return []
        gain, edit = self._instant
        known = self.trials.known[edit]
        gain = self.model.time / known.model.time if known is not None else gain
        text = f"{suspect.text} No call on it alone helps, but another schedule does, such as the instant one, which `%auto {self.version.operator.name}` makes"
        return [self._finding(replace(suspect, text=text), gain, edit)]

    def _best(self, found: list[tuple[float, Edit]]) -> tuple[float, Edit] | None:
        """The edit with the largest gain, the first of those that are close, of those that have no races; not one whose sums LLVM
        keeps on the stack, if there is another."""
        first, left, compiled = None, list(found), 0
        while left and compiled < COMPILED:
            best = left[0]
            for other in left[1:]:
                best = other if other[0] > 1.05 * best[0] else best
            left.remove(best)
            if not self.trials.accepted(best[1]):
                continue
            first, compiled = first or best, compiled + 1
            if not self._spilled(best[1]):
                return best
        return first

    def _spilled(self, edit: Edit) -> bool:
        """Whether code with an edit has a hot loop with sums that LLVM stores to the stack, as far as LLVM is asked."""
        known = self.trials.known[edit]
        if not self.llvm or known is None:
            return False
        full = [n for n in known.model.hot if n.registers >= self.machine.vector_registers // 2]
        return bool(full) and spilled_sums(known.mod, self.target, [n.nest.statements for n in full]) > FEW_SPILLS

    def _finding(self, suspect: Suspect, gain: float, edit: Edit | None) -> Finding:
        statement = suspect.nest.nest.statements[0]
        line = self.lines.line_of(statement.node)
        span = statement.node.span
        cell_line = edit.line if edit is not None and edit.line else span.line if span else 0
        call = edit.text if edit is not None else ""
        cell = (self.trials.text(edit) or "") if edit is not None else ""
        replaces = edit is not None and edit.line > 0
        lines = edit.span if edit is not None and replaces else 0
        return Finding(suspect.code, suspect.text, line, cell_line, call, round(gain, 2), replaces, cell, lines)

    def _at_roof(self, case: Case, found: list[Finding]) -> Finding | None:
        """That the machine does no more, if the slowest nest is at a limit that no schedule moves."""
        if not self.model.hot or any(f.code != "not-parallel" for f in found):
            return None
        nest = self.model.hot[0]
        reach = self._roof_share(nest)
        if self.model.share(nest) < 0.5 or reach < 0.8 or not nest.vectorized or nest.spills:
            return None
        if self._instant[0] > 1.1 or not self._in_full(nest):
            return None
        if nest.limit == "multiply-adds" and _divides(nest):
            words = "the divider is busy in nearly every cycle"
        elif nest.limit == "multiply-adds":
            words = "the multiply-adders are busy in nearly every cycle"
        elif nest.limit in BYTES_A_CYCLE:
            words = f"each byte moves between {_level(nest.limit)} and the core once, as fast as it can"
        elif nest.limit in ("loads", "stores"):
            words = f"each element is {'loaded' if nest.limit == 'loads' else 'stored'} once, in whole vectors, as fast as the core can"
        else:
            return None
        core = " of one core" if found else ""
        other = "products with reciprocals, " * _divides(nest)
        text = f"`{case.name(nest)}` is at the roof{core}: {words}; no schedule helps{' that core' * bool(found)}, only {other}another algorithm or a smaller data type"
        line = self.lines.line_of(nest.nest.statements[0].node)
        span = nest.nest.statements[0].node.span
        return Finding("at-roof", text, line, span.line if span else 0, "", 1.0)

    def _in_full(self, nest: NestModel) -> bool:
        """Whether a nest's vectors fill registers, and its sums stay in them; not known below conditions."""
        if any(s.guards for s in nest.nest.statements):
            return False
        lanes = [s.lanes if s.lanes > 1 else nest.lanes for s in nest.nest.statements]
        widths = [n * max([s.target.bits, *(a.bits for a in s.loads)]) for n, s in zip(lanes, nest.nest.statements)]
        summed = any(s.accumulates for s in nest.nest.statements)
        return min(widths) >= 0.75 * self.machine.vector_bits and (nest.sums > 0 or not summed)

    # ------------------------------------------------------------------------ rows

    def _roof_share(self, nest: NestModel) -> float:
        """The share of a nest's time that a core would need if each operation was useful, each element came in whole vectors, and
        each byte once from a memory that it comes from now."""
        machine, parts = self.machine, patterns(nest.nest.accesses)
        size = [(p, touched(p, 0, machine.line)) for p in parts]
        vector = machine.vector_bits // 8
        useful = nest.ports.get("multiply-adds", 0.0) * nest.iterations * (1 - nest.conversions / max(nest.work, 1e-9))
        loads = sum(s for p, s in size if not p.access.store) / vector / machine.loads_per_cycle
        stores = sum(s for p, s in size if p.stored) / vector * machine.storing(vector)
        core = min(nest.core, max(useful, loads, stores))
        once = dict.fromkeys(nest.transfers, 0.0)
        for level, (name, width) in enumerate(BYTES_A_CYCLE.items(), 1):
            moved = [min(self.traffic.moved(nest.nest, p, level), s * (1 + (p.stored and level == 3))) for p, s in size]
            once[name] = sum(moved) / width
        return in_one_core(core, once) / max(in_one_core(nest.core, nest.transfers, nest.waits), 1e-9)

    def _row(self, case: Case, nest: NestModel) -> LoopRow:
        statements = nest.nest.statements
        inside = {"L1": sum(a.bytes * a.lanes for a in nest.nest.accesses if a.address.uses(nest.rolled.var)) * nest.nest.iterations}  # fmt: skip
        moved = {**inside, **nest.bytes}
        spills = self.facts.spills(self._nest_lines(nest))
        view = case.view(nest)
        return LoopRow(
            case.name(nest), nest.rolled.name, tuple(loop.name for loop in nest.nest.loops),
            self.lines.line_of(statements[0].node), self.model.share(nest), nest.flops, {k: moved[k] for k in LEVELS},
            nest.limit, self._roof_share(nest), nest.cycles, nest.port,
            {k: round(v, 3) for k, v in nest.ports.items()}, nest.registers, self.machine.vector_registers,
            spills if spills is not None else nest.spills, _vectors(nest),
            case.waste.get(plain_name(view.name), 1.0) if view is not None else 1.0,
            nest.flops / max(1, moved["memory"], footprint(nest.nest.accesses, 0, self.machine.line)),
            nest.width,
        )  # fmt: skip

    def _nest_lines(self, nest: NestModel) -> set[int]:
        """The lines of the lowered program that a nest's statements are on."""
        return {self.lines.line_of(s.node) for s in nest.nest.statements}


def hottest_loop(mod: Any, target: Any, size: int = 256) -> int | None:
    """Which innermost loop of the assembly of a lowered module takes most of its time by the model, counted from 0; None if that
    is not known. Symbolic sizes are `size`."""
    if target.has_kernels:
        return None
    mod = last_program(mod, target)
    made = model(next(iter(mod.functions.values())), target.machine, size)
    if not made.hot:
        return None
    texts = code_texts(mod, target)
    return loop_of_lines(texts.assembly(), {texts.lines.line_of(s.node) for s in made.hot[0].nest.statements})


def spilled_sums(mod: Any, target: Any, nests: Sequence[Sequence[Statement]]) -> int:
    """The vectors that the code of a last program stores to the stack in the loops of some statements, at most."""
    texts = code_texts(mod, target)
    facts = Facts(assembly=texts.assembly())
    return max((facts.spills({texts.lines.line_of(s.node) for s in nest}) or 0 for nest in nests), default=0)


def _divides(nest: NestModel) -> bool:
    """Whether divisions are more than half of a nest's operations."""
    divisions = sum(s.operations.divisions for s in nest.nest.statements) * DIVISION
    return divisions > sum(s.operations.flops() for s in nest.nest.statements) - divisions / DIVISION


def _launches(func: PrimFunc) -> bool:
    """Whether a function binds loops to threads of a GPU."""
    found: list[AttrStmt] = []
    post_order_visit(func.body, lambda n: found.append(n) if isinstance(n, AttrStmt) else None)
    return any(n.attr_key == "thread_extent" for n in found)


def _vectors(nest: NestModel) -> str:
    """Who made vectors of a nest: the schedule, LLVM, or tvmagic if the nest writes a few neighbours in each iteration."""
    if nest.nest.in_rows:
        return "vectors by tvmagic"
    if all(s.lanes > 1 for s in nest.nest.statements):
        return "explicit vectors"
    return "vectors by LLVM" if nest.vectorized else "no"


def _level(name: str) -> str:
    return {"L2": "the second cache", "L3": "the third cache", "memory": "memory"}.get(name, name)


def _badness(finding: Finding) -> tuple[int, float]:
    """Sorts findings: those with a call first, the largest gain first; more threads help any schedule."""
    order = 0 if finding.gain > 1 and finding.code != "not-parallel" else 1 if not finding.call else 2
    return order, -finding.gain


def _loops_by_line(func: PrimFunc, lines: Any, size: int) -> dict[int, Any]:
    """The innermost loop of each line that has a statement or a loop on it."""
    found: dict[int, Any] = {}
    for nest in nests_of(func, size)[0]:
        inner = nest.inner.node
        found[lines.line_of(inner)] = inner
        for s in nest.statements:
            found[lines.line_of(s.node)] = inner
    found.pop(0, None)
    return found
