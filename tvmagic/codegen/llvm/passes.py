"""LLVM's own passes as steps: the module after each pass that changed it, and what LLVM remarks on loops."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from tvmagic.codegen.emit.debug import LLVMText, Point, lines_of_llvm

# The whole module after each pass that changed it, and what the passes that make loops fast say.
OPTIONS = (
    "-print-changed=quiet",
    "-print-module-scope",
    "-pass-remarks=loop-vectorize|slp-vectorizer|loop-unroll|licm",
    "-pass-remarks-analysis=loop-vectorize",
)

# The passes that change loops; the others tidy up between them.
LOOPS = frozenset(
    "LoopRotate LoopSimplify LICM IndVarSimplify SimpleLoopUnswitch LoopIdiomRecognize LoopDeletion LoopFullUnroll LoopUnroll "
    "LoopVectorize SLPVectorizer LoopInterchange LoopDistribute LoopLoadElimination LoopSink LoopFlatten LoopStrengthReduce "
    "LoopUnrollAndJam LoopFuse VectorCombine".split()
)

_HEAD = re.compile(r"\*\*\* IR Dump After (\w+) on (.*) \*\*\*$")
_OTHER_HEAD = re.compile(r"\*\*\* IR ")
_REMARK = re.compile(r"remark: lowered\.py:(\d+):\d+: (.*)")
_VECTORIZER = ("loop not vectorized", "vectorized loop", "the cost-model", "interleaved loop")


@dataclass
class LLVMPass:
    """A pass of LLVM, or several neighbours, and the module after it.

    `names` are LLVM's without `Pass`; `places` the functions and loops it changed; `after` is None if it changed nothing
    (it is here for its remarks then). A remark is a line of the lowered program (from 1) and a sentence of LLVM's.
    """

    names: list[str]
    places: list[str] = field(default_factory=list)
    after: LLVMText | None = None
    remarks: list[tuple[int, str]] = field(default_factory=list)

    @property
    def changes_loops(self) -> bool:
        """Whether it is one of the passes that change loops."""
        return not LOOPS.isdisjoint(self.names)


def read_passes(source: str, said: str, origins: Mapping[Point, int] | None = None) -> list[LLVMPass]:
    """The passes of what LLVM wrote with `OPTIONS`; neighbours of one name are one. `source` is the lowered program's text."""
    found: list[LLVMPass] = []
    for name, place, text, remarks in _dumps(said):
        silent = [r for r in remarks if r[1].startswith(_VECTORIZER) and name != "LoopVectorize"]
        if silent:  # the vectorizer spoke and changed nothing
            found.append(LLVMPass(["LoopVectorize"], remarks=list(dict.fromkeys(silent))))
        if name:
            one = LLVMPass(
                [name], [place], lines_of_llvm(source, text, origins), [r for r in remarks if r not in silent]
            )
            found.append(one)
    return _merge_adjacent(found, lambda a, b: a.names == b.names)


def grouped(passes: Iterable[LLVMPass]) -> list[LLVMPass]:
    """The passes that change loops each by itself, those between them as one."""
    return _merge_adjacent(passes, lambda a, b: not a.changes_loops and not b.changes_loops)


def _merge_adjacent(passes: Iterable[LLVMPass], same: Callable[[LLVMPass, LLVMPass], bool]) -> list[LLVMPass]:
    result: list[LLVMPass] = []
    for one in passes:
        last = result[-1] if result else None
        if last is None or not same(last, one):
            result.append(LLVMPass(list(one.names), list(one.places), one.after, list(one.remarks)))
            continue
        last.names += [n for n in one.names if n not in last.names]
        last.places += [p for p in one.places if p not in last.places]
        last.remarks += [r for r in one.remarks if r not in last.remarks]
        last.after = one.after or last.after
    return result


def _dumps(said: str) -> Iterator[tuple[str, str, str, list[tuple[int, str]]]]:
    """Name, place and text of each dump, with the remarks written since the one before; the last may be remarks alone."""
    remarks: list[tuple[int, str]] = []
    head: tuple[str, str] | None = None
    kept: list[str] = []
    before: list[tuple[int, str]] = []
    for row in said.splitlines():
        if _OTHER_HEAD.match(row):
            if head is not None:
                yield *head, "\n".join(kept), before
            match = _HEAD.match(row)
            head = (match[1].removesuffix("Pass"), match[2]) if match else None
            before, remarks, kept = (remarks, [], []) if match else (before, remarks, [])
        elif remark := _REMARK.match(row):
            remarks.append((int(remark[1]), remark[2]))
        elif not row.startswith("remark: "):
            kept.append(row)
    if head is not None:
        yield *head, "\n".join(kept), before
    if remarks:
        yield "", "", "", remarks
