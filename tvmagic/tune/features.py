"""Numbers that describe a lowered program to the cost model, without running it.

They are what the model of `%why` finds for each nest of loops (`tvmagic.model.program_model`), added up for the program and one
by one for the nests that take longest: what the core is busy with, what moves from each level of memory, vectors,
registers, threads. Magnitudes are logarithms.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from tvmagic.errors import TVMagicError
from tvmagic.ir import IRModule, PrimFunc
from tvmagic.model.program_model import NestModel, ProgramModel, model
from tvmagic.model.traffic import BYTES_A_CYCLE
from tvmagic.target.machine import Machine

NESTS = 2  # of which each has numbers of its own
_PORTS = ("latency", "multiply-adds", "loads", "stores", "shuffles", "addresses", "pages", "decoding")
_PROGRAM = (
    "cycles", "cycles of the core", *(f"transfers from {level}" for level in BYTES_A_CYCLE), "starts of threads",
    "lines shared by threads", *(f"share of {port}" for port in _PORTS), "share of vectors", "share of parallel loops",
    "share of guards", "nests", "statements", "bytes of memory in between", "bytes of local memory",
)  # fmt: skip
_NEST = (
    "share", "iterations", "extent", "copies", "depth", "cycles of an iteration", "work", "latency", "loads", "stores",
    "lanes", "sums", "registers", "spills", "threads", *(f"bytes from {level}" for level in BYTES_A_CYCLE),
)  # fmt: skip
NAMES = (*_PROGRAM, *(f"{name} of nest {n + 1}" for n in range(NESTS) for name in _NEST))


def features_of(mod: IRModule, machine: Machine) -> list[float]:
    """The features of a last program (`codegen.last_program`), for a machine that has as many cores as there are threads.

    Zeros if the model cannot say anything of it.
    """
    programs: list[ProgramModel] = []
    for func in mod.functions.values():
        if isinstance(func, PrimFunc):
            try:
                programs.append(model(func, machine))
            except TVMagicError:
                continue
    nests = sorted((n for program in programs for n in program.nests), key=lambda n: -n.time)
    if not nests:
        return [0.0] * len(NAMES)
    total = max(sum(n.time for n in nests), 1e-9)
    rows = [_of_nest(n, total) for n in nests[:NESTS]]
    rows += [[0.0] * len(_NEST)] * (NESTS - len(rows))
    return [*_of_program(nests), *(value for row in rows for value in row)]


def rough(features: Sequence[Sequence[float]] | np.ndarray) -> np.ndarray:
    """The logarithm of the modelled cycles of programs, from their features: it ranks schedules before any was measured.

    0 for rows that are not features of programs.
    """
    rows = np.asarray(features, dtype=np.float64)
    if rows.ndim != 2 or rows.shape[1] != len(NAMES):
        return np.zeros(len(rows))
    return rows[:, NAMES.index("cycles")]


def _log(value: float) -> float:
    return math.log2(1.0 + value) if value > 0 else 0.0


def _of_program(nests: list[NestModel]) -> list[float]:
    busy: dict[str, float] = dict.fromkeys(_PORTS, 0.0)
    for n in nests:
        busy[n.port] = busy.get(n.port, 0.0) + n.core
    core, time = max(sum(n.core for n in nests), 1e-9), max(sum(n.time for n in nests), 1e-9)
    written = {a.data: a for n in nests for s in n.nest.statements for a in (s.target,)}
    kept = {scope: sum(a.size for a in written.values() if (a.scope == "local") == scope) for scope in (False, True)}
    return [
        _log(time), _log(sum(n.core / n.width for n in nests)),
        *(_log(sum(n.transfers[level] for n in nests)) for level in BYTES_A_CYCLE),
        _log(sum(n.starts for n in nests)), _log(sum(n.sharing for n in nests)),
        *(busy[port] / core for port in _PORTS),
        sum(n.core for n in nests if n.vectorized) / core,
        sum(n.time for n in nests if any(loop.parallel for loop in n.nest.loops)) / time,
        sum(n.time for n in nests if any(s.guards for s in n.nest.statements)) / time,
        _log(len(nests)), _log(sum(len(n.nest.statements) for n in nests)), _log(kept[False]), _log(kept[True]),
    ]  # fmt: skip


def _of_nest(n: NestModel, total: float) -> list[float]:
    return [
        n.time / total, _log(n.iterations), _log(n.rolled.extent), _log(math.prod(loop.extent for loop in n.unrolled)),
        float(len(n.nest.loops)), _log(n.cycles), _log(n.work), _log(n.latency), _log(n.ports["loads"]),
        _log(n.ports["stores"]), _log(max(n.lanes, *(s.lanes for s in n.nest.statements))), _log(n.sums),
        _log(n.registers), _log(n.spills), _log(n.width), *(_log(n.bytes[level]) for level in BYTES_A_CYCLE),
    ]  # fmt: skip
