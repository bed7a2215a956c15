"""What is said of CINN's texts with a word missing, doubled or elsewhere, and why steps are refused, is what it was."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from typing import Any

import pytest
from edits import changes, edited, random_edits, words_of
from random_steps import random_calls, random_moves_of_tiles, random_schedule
from random_texts import random_text
from recorded import PARTS, answer, check
from step_programs import program
from written_texts import TEXTS

from tvmagic import cinn
from tvmagic.cinn import IRSchedule
from tvmagic.cinn.text.syntax import Expr, Statement, Text, parse_programs
from tvmagic.ir import IRModule, PrimFunc
from tvmagic.script import cinn_text, from_cinn


def answers(row: dict[str, Any]) -> dict[str, str]:
    kind, name, seed = row["source"].split()
    if kind in ("calls", "moves"):
        walk = (random_schedule if kind == "calls" else random_moves_of_tiles)(name, int(seed))
        return {"text": walk.schedule.text(), "refused": "\n".join(walk.refused)}
    if kind == "steps":
        walk = random_calls(IRSchedule(from_cinn(*random_text(int(seed)))), random.Random(int(seed)), 16)
        return {"text": walk.schedule.text(), "refused": "\n".join(walk.refused)}
    if kind in ("cuda", "llvm"):
        return {"tiled": _tiled(kind, name, int(seed))}
    if kind == "sketches":
        return {how: _sketches(name, int(seed), how) for how in ("rule_prune", "random_prune", "random")}
    if kind == "trees":
        text = TEXTS[name]
        return {"trees": changes(text, [(str(n), edited(text, seed, n)) for n in range(len(words_of(text)))], trees)}
    text, known = (TEXTS[name], None) if name in TEXTS else random_text(int(seed))
    edits = random_edits(text, random.Random(int(seed)), 12)
    return {"functions": changes(text, edits, lambda t: functions(from_cinn(t, known)))}


def _tiled(target: str, name: str, seed: int) -> str:
    schedule = program(name).schedule(seed)
    rule = cinn.MultiLevelTiling(target)
    rule.init(schedule)
    return answer(lambda: rule.apply(seed % rule.number_applicable()) or schedule.text())


def _sketches(name: str, seed: int, strategy: str) -> str:
    states = cinn.SearchSpace(program(name).schedule(seed), seed=seed).generate_sketches(2, strategy)
    return "\n".join(state.ir_schedule.text(regions=False) for state in states)


def trees(text: str) -> str:
    """The statements of all functions of a text, a line each, with all that was read."""
    lines: list[str] = []
    for parsed in parse_programs(Text(text)):
        lines.append(f"{parsed.name} {parsed.arguments} {parsed.braces}")
        lines += [line for statement in parsed.statements for line in _lines(statement, 1)]
    return "\n".join(lines)


def _lines(statement: Statement, depth: int) -> Iterator[str]:
    told = {f.name: getattr(statement, f.name) for f in fields(statement)}
    inner = {key: told.pop(key) for key in ("init", "body", "otherwise")}
    del told["offset"]
    yield f"{'>' * depth} " + " ".join(f"{key}={_word(value)}" for key, value in told.items() if value)
    for key, statements in inner.items():
        for part in statements:
            yield from (f"{key} {line}" for line in _lines(part, depth + 1))


def _word(value: Any) -> str:
    if isinstance(value, Expr):
        return f"{value.kind} {value.text}" + (f"({', '.join(map(_word, value.args))})" if value.args else "")
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(map(_word, value))}]"
    if is_dataclass(value):
        return " ".join(_word(getattr(value, f.name)) for f in fields(value))
    return str(value)


def functions(found: PrimFunc | IRModule) -> str:
    """The text of functions with their regions, and the types and kinds of their parameters and loops."""
    each = list(found.functions.values()) if isinstance(found, IRModule) else [found]
    arguments = [
        " ".join(f"{p.name}: {f.buffer_map[p].dtype}{list(f.buffer_map[p].shape)}" if p in f.buffer_map else f"{p.name}: {p.dtype}" for p in f.params)
        for f in each
    ]  # fmt: skip
    return "\n".join([*arguments, cinn_text(found)])


@pytest.mark.parametrize("part", range(PARTS))
def test_words(part: int) -> None:
    check("cinn_words", part, answers)
