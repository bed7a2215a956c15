"""Schedule calls with arguments of other schedules and of other types: each is accepted for a reason, or refused.

A slot `{kind}` of a call takes the values in `FITS`, and those of the groups in `TAKES`; values of all other groups must
be refused, by an error of the package that changes nothing.
"""

from __future__ import annotations

import random
import re
from typing import Any

from outcomes import Refused, Source, Wrong, refusal

PROGRAM = """
A = te.placeholder((16, 16), name="A")
k = te.reduce_axis((0, 16), "k")
B = te.compute((16, 16), lambda i, j: A[i, j] + 1.0, name="B")
C = te.compute((16,), lambda i: te.sum(B[i, k], axis=k), name="C")
D = te.compute((16,), lambda i: C[i] * 2.0, name="D")
"""
WORLDS = {
    "tir": """
func = te.create_prim_func([A, D])
sch, other = tir.Schedule(func, seed=1), tir.Schedule(te.create_prim_func([A, D]), seed=1)
b, c, d = map(sch.get_block, "BCD")
(b0, b1), (c0, c1), (d0,) = map(sch.get_loops, (b, c, d))
later = sch.copy()
later_loop = later.split(b0, [4, 4])[0]
number = sch.sample_categorical([2, 4], [0.5, 0.5])
foreign_number = other.sample_categorical([2, 4], [0.5, 0.5])
base = sch
""",
    "cinn": """
from tvmagic.cinn import IRSchedule
func = te.create_prim_func([A, D])
sch, other = IRSchedule(func, seed=1), IRSchedule(te.create_prim_func([A, D]), seed=1)
b, c, d = map(sch.get_block, "BCD")
(b0, b1), (c0, c1), (d0,) = map(sch.get_loops, (b, c, d))
later = sch.copy()
later_loop = later.split(b0, [4, 4])[0]
number = sch.sample_categorical([2, 4], [0.5, 0.5])
foreign_number = other.sample_categorical([2, 4], [0.5, 0.5])
base = sch
""",
    "te": """
s = te.create_schedule(D.op)
bo, bi = s[B].split(B.op.axis[0], 4)
twin = te.create_schedule(D.op)
twin_loop = twin[B].split(B.op.axis[1], 2)[0]
twin_cache = twin.cache_read(A, "local", [B])
foreign_number = twin_loop
""",
}  # fmt: skip
_ELSEWHERE = {
    "foreign": ('other.get_block("B")', 'other.get_loops("B")[0]', "later_loop", "foreign_number", "foreign_number + 1"),
    "foreign statement": ('other.get_sref(other.get_block("B"))', 'other.get_sref(other.get_loops("C")[0])',
                          'other.get(other.get_block("B"))', 'other.get(other.get_loops("C")[0])'),
}  # fmt: skip
_ELSEWHERE_CINN = {
    "foreign": _ELSEWHERE["foreign"],
    "foreign statement": ('other.block_of("B")', 'other.loop_of(other.get_loops("B")[0])', "other.root"),
}
_ELSEWHERE_TE = {
    "foreign": ("twin[B]", "twin[B].op.axis[0] + 1", "twin_loop", "twin_cache", "twin_cache.op", "twin_cache[0, 0]",
                "twin", "other_b", "other_b.op.axis[0]", "other_s[other_b]", "other_b[0, 0]", "twin_loop < 3"),
}  # fmt: skip
# Values of other types, by group.
ODD = {
    "none": ("None",),
    "bool": ("True", "False"),
    "other bool": ("np.bool_(True)", "tir.const(1, 'bool')"),
    "symbol": ("tir.Var('n', 'int32')",),
    "bit": ("1", "0"),
    "int": ("2", "3", "-1", "2**31", "2**63 - 1", "-2**63", "np.int64(2)", "np.uint64(2**63)", 'tir.const(4, "int64")'),
    "huge": ("2**64", "10**30", "-10**30"),
    "float": ("2.5", "float('nan')", "float('inf')", "np.float32(2)", "1e300", 'tir.const(2.0, "float32")'),
    "text": ("'zzz'", "''", "'a\\0b'", "'threadIdx.q'", "'\\ud800'"),
    "list": ("[]", "[[]]", "['B', 2]", "[None]", "[2.5, 'x']", "(0, 1, 2)", "[[1, [2]]]", "range(3)", "np.arange(3)"),
    "thing": ("{}", "{'a': 1}", "{1, 2}", "object()", "b'ab'", "1j", "np.zeros((2, 2))", "te", "A", "A[0, 0]", "B.op.axis[0]",
              "te.thread_axis('threadIdx.x')", "tir.StringImm('\\ud800')",
              "int", "iter([1])", "Ellipsis", "slice(1)", "np.datetime64('2020')"),
    "function": ("lambda: 0", "lambda *i: 1 / 0", "lambda *i: 'x'", "lambda *i: None", "lambda *i: i", "lambda *i: [i]",
                 "lambda *i: [2.5]", "lambda *i: [foreign_number]" ),
}  # fmt: skip
_TIR_FITS = {
    "block": ("'B'", "c", "'D'", "'C'"),
    "loop": ("b0", "b1", "c1", "d0"),
    "number": ("2", "number", "4"),
    "int": ("0", "1", "2", "-1"),
    "bool": ("True", "False"),
    "any": ("0", "None", "lambda i, j: (j, i)", "('read', 0)", "'A'", "'write'"),
    "text": ("'local'", "'B'", "'read'", "'x'", "'float16'", "'threadIdx.x'", "'main'"),
    "ints": ("[0]", "[1, 0]", "[2, 2, 2]"),
    "floats": ("[0.5, 0.5]", "[1.0]"), "value": ("b", "c1", "number"), "block?": ("b", "'C'"), "text?": ("'main'", "'f'"),
}  # fmt: skip
_TE_FITS = {
    "stage": ("s[C]", "s[D]"), "loop": ("bo", "bi", "B.op.axis[1]"), "thread": ("te.thread_axis('threadIdx.x')",),
    "factor": ("2", "4"), "int": ("0", "1"), "text": ("'local'", "'key'"), "any": ("0", "1"), "tensor": ("C", "B", "A"),
    "readers": ("[B]", "C"), "bool": ("True", "False"), "condition": ("bo < 3",), "function": ("lambda i, j: (j, i)",),
    "axis": ("k",),
}  # fmt: skip
FITS = {"tir": _TIR_FITS, "cinn": _TIR_FITS, "te": _TE_FITS}
# The groups that a slot may take; what is listed for no slot is always refused.
TAKES = {
    "bool": {"bool", "bit", "other bool"}, "int": {"bool", "bit", "int", "other bool"}, "number": {"none", "bool", "bit", "int", "other bool"}, "text": {"text"},
    "ints": {"list"}, "floats": {"list"}, "decision": {"none", "other bool", "bool", "bit", "int", "list"}, "function": {"function"}, "factor": {"none", "bit", "int", "symbol", "list"},
    "loops": {"list"}, "block": {"text"}, "blocks": {"list", "none", "text"}, "readers": {"list"}, "condition": {"bool", "bit", "int", "foreign", "thing", "other bool", "symbol"},
    "numbers": {"none", "bool", "bit", "int", "list"}, "value": {"none", "bool", "bit", "int", "other bool"}, "mask": {"text", "other bool", "bool", "bit", "int", "huge"},
    "seed": {"none", "other bool", "bool", "bit", "int", "huge"}, "block?": {"text", "none"}, "text?": {"text", "none"},
    "pragma": {"none", "symbol", "other bool", "bool", "bit", "int", "huge", "float", "text", "thing", "foreign"},
    "any": {"none", "symbol", "other bool", "bool", "bit", "int", "huge", "float", "text", "list", "thing", "function"},
}  # fmt: skip
LISTS = {"loops": ("loop", 2), "numbers": ("number", 2), "blocks": ("block", 1), "decision": ("int", 1)}
MORE_TIR = ("sch.get({value})", "sch.get_sref({block!})", "sch.get_sref({loop})", "sch.remove_rv({loop})", "sch.work_on({text})",
            "sch.can_decompose_padding({block}, {loop})", "sch.run_instruction({thing}, [{loop}], [])",
            "sch.run_primitive({thing}, {{'loop': {loop}}})", "sch.trace.apply_to_schedule({thing})",
            "tir.schedule.Trace.apply_json_to_schedule({thing}, sch)", "tir.Schedule({thing})", "sch.seed({seed})",
            "tir.Schedule(func, seed={seed})", "tir.Schedule(func, debug_mask={mask})",
            "tir.Schedule(func, enable_check={bool})", "tir.Schedule(func, error_render_level={text})")  # fmt: skip
CINN = """split({loop}, {numbers})
split({block}, {int}, {numbers})
fuse({loops})
fuse({block}, {ints})
reorder({loops})
reorder({block}, {ints})
flatten_loops({loops}, {bool})
mutate_for_type({loop}, {text}, {int})
parallel({loop})
vectorize({loop}, {int})
unroll({loop})
bind({loop}, {text})
compute_at({block}, {loop}, {bool})
simple_compute_at({block}, {loop})
reverse_compute_at({block}, {loop}, {bool})
compute_inline({block})
reverse_compute_inline({block})
copy_transform_and_loop_info({block}, {block})
cache_read({block}, {int}, {text})
cache_write({block}, {int}, {text})
sync_threads({loop}, {bool})
set_buffer({block}, {text}, {bool})
rfactor({loop}, {int})
annotate({block}, {text}, {any})
unannotate({block}, {text})
sample_perfect_tile({loop}, {int}, {int}, {decision})
sample_categorical({ints}, {floats}, {decision})
get_loops({block})
get_block({text})
get_child_blocks({block})
get_root_block({block?})
has_block({text})
value_of({number})
block_of({block})
loop_of({loop})
candidate({block})
set_exprs({thing})"""
TE = """[B].split({loop}, {factor})
[B].split({loop}, nparts={factor})
[B].fuse({loop}, {loop})
[B].reorder({loop}, {loop})
[B].tile({loop}, {loop}, {factor}, {factor})
[B].vectorize({loop})
[B].unroll({loop})
[B].parallel({loop})
[B].bind({loop}, {thread})
[B].env_threads([{thread}])
[B].pragma({loop}, {text}, {pragma})
[B].prefetch({tensor}, {loop}, {factor})
[B].set_scope({text})
[B].storage_align({loop}, {int}, {int})
[B].transform_layout({function})
[B].compute_at({stage}, C.op.axis[0])
[B].compute_at(s[C], {axis})
[B].set_store_predicate({condition})
[B].tensorize({loop}, {thing})
.create_group({tensor}, {tensor}, {bool})
.cache_read({tensor}, {text}, {readers})
.cache_write({tensor}, {text})
.rfactor({tensor}, {axis}, {int})
[{tensor}]"""
ROLES = {"Loop": "loop", "BlockRef": "block", "BlockOrLoop": "block", "LoopOrBlocks": "loop", "Loops": "loops", "Sizes": "numbers",
         "BlocksIn": "blocks", "Lengths": "numbers", "Value": "any", "Size": "number", "int": "int", "bool": "bool",
         "str": "text", "list[int]": "ints", "list[float]": "floats"}  # fmt: skip


def calls(system: str) -> list[str]:
    """The calls of a system, as templates."""
    if system != "tir":
        head, lines = ("sch.", CINN) if system == "cinn" else ("s", TE)
        return [head + line for line in lines.split("\n")]
    from tvmagic.tir.schedule.instruction import InstructionKind

    found: list[str] = [*MORE_TIR]
    for kind in InstructionKind.registry.values():
        slots = [("*" if p.variadic else f"{p.name}=") + _slot(p) for p in kind.parameters]
        found.append(f"sch.{kind.method}({', '.join(slots + ['decision={decision}'] * kind.samples)})")
    return found


def _slot(parameter: Any) -> str:
    kind = parameter.role or parameter.annotation.removesuffix(" | None")
    optional = "?" if parameter.annotation == "str | None" else ""
    return f"{{{ROLES.get(kind, 'any')}{optional}}}"


class Case:
    """The calls of a seed."""

    def __init__(self, seed: int, without: frozenset[str] = frozenset()) -> None:
        self.rng, self.without = random.Random(seed), without
        self.system = self.rng.choice(("tir", "tir", "cinn", "te"))
        elsewhere = {"tir": _ELSEWHERE, "cinn": _ELSEWHERE_CINN, "te": _ELSEWHERE_TE}[self.system]
        self.odd = {**ODD, **elsewhere}
        self.fits = FITS[self.system]
        self.calls: list[str] = []
        self.replay: list[str] | None = None

    def make(self) -> None:
        """Create the schedules."""
        self.source = Source(*PROGRAM.strip().split("\n"))
        if self.system == "te":
            others = PROGRAM.strip().replace("16", "8").split("\n")
            for line in (*others, "other_b, other_s = B, te.create_schedule(D.op)", *PROGRAM.strip().split("\n")):
                self.source.run(line)
        for line in WORLDS[self.system].strip().split("\n"):
            self.source.run(line)

    def check(self) -> None:
        """Make calls of which one argument or two are odd."""
        self.make()
        if self.replay is not None:
            for line in self.replay:
                self._call(line, False)
            return
        templates = calls(self.system)
        again = WORLDS["te"].strip().split("\n")[:2] if self.system == "te" else ["sch = base.copy()"]
        for _ in range(25):
            for line in again:
                exec(line, self.source.names)
            self._call(*self._filled(self.rng.choice(templates)))

    def text(self) -> str:
        """The program, with the calls that were accepted and the last one."""
        return self.source.text() + "\n".join(self.calls) + "\n"

    def _filled(self, template: str) -> tuple[str, bool]:
        """A call, and whether it must be refused."""
        slots = re.findall(r"(\{\w+[!?]?\})", template)
        odd = self.rng.randrange(len(slots)) if slots else -1
        refused = False
        for n, slot in enumerate(slots):
            kind = slot.strip("{!}")
            text = self._fitting(kind)
            if n == odd:
                group = self.rng.choice(sorted(self.odd))
                text = self.rng.choice(self.odd[group])
                refused = group not in TAKES.get(kind, ()) or slot.endswith("!}") and group == "text"
                if kind in LISTS and self.rng.random() < 0.5 and group in self.odd:
                    text = f"[{', '.join([*[self._fitting(LISTS[kind][0])] * (LISTS[kind][1] - 1), text])}]"
                    refused = group not in TAKES.get(LISTS[kind][0], ())
                refused = refused and text not in self.fits.get(kind, ())
            if f"*{slot}" in template:
                text = text if text.startswith("[") else f"[{text}]"
            template = template.replace(slot, text, 1)
        return template.replace("{{", "{").replace("}}", "}"), refused

    def _fitting(self, kind: str) -> str:
        if kind in LISTS:
            one, count = LISTS[kind]
            return f"[{', '.join(self._fitting(one) for _ in range(count))}]"
        return self.rng.choice(self.fits[kind]) if kind in self.fits else "None"

    # ------------------------------------------------------------------ outcomes

    def _state(self) -> tuple[Any, ...]:
        names = self.source.names
        if self.system == "te":
            s = names["s"]
            return tuple((g.op, tuple(g.leaf_iter_vars), len(g.relations), g.attach_ivar) for g in s.stages)
        schedule = names["sch"] if self.system == "tir" else names["sch"].schedule
        return schedule.mod, [i for i in schedule.trace.insts if not i.kind.is_pure]

    def _call(self, line: str, refused: bool) -> None:
        before = self._state()
        self.calls.append(line)
        try:
            self.source.get(line)
        except Exception as error:
            self.calls.pop()
            if not refusal(error):
                if _from_the_line(error):
                    return  # an index of a list, or a function that the call was given
                what = f"{type(error).__name__}: {' '.join(str(error).split())[:200]}"
                raise Wrong("internal", f"{line}: {what}") from error
            if getattr(error, "code", None) is None or not str(error):
                raise Wrong("internal", f"{line}: {type(error).__name__} without a code") from error
            if self._state() != before:
                raise Wrong("state", f"{line} was refused and changed the schedule") from error
            return
        if refused:
            raise Wrong("accepted", line)
        self._use(line)

    def _use(self, line: str) -> None:
        """Lower and print what an accepted call made."""
        import tvmagic

        names = self.source.names
        try:
            if self.system == "te":
                tvmagic.lower(names["s"].normalize(), [names["A"], names["D"]])
            else:
                str(names["sch"]), str(names["sch"].trace), names["sch"].mod.script()
                names["sch"].trace.as_json()
        except Exception as error:
            if not refusal(error):
                what = f"{type(error).__name__}: {' '.join(str(error).split())[:200]}"
                raise Wrong("later", f"{line}, then {what}") from error
            if self.system == "te":
                raise Refused(str(error)) from error  # the schedule is no longer of use
            raise Wrong("later", f"{line}, then {error}") from error


def _from_the_line(error: Exception) -> bool:
    """Whether the expression itself raises, before any call of the package."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    return trace is not None and trace.tb_frame.f_code.co_filename == "<string>"
