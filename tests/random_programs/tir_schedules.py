"""Random calls of every primitive of `tir.Schedule`."""

from __future__ import annotations

import traceback
from collections.abc import Callable
from typing import Any

from outcomes import Wrong, refusal
from random_layouts import Layout

INTRINSIC = """
from tvm.script import tir as T


@T.prim_func
def copy(a: T.handle, b: T.handle):
    A = T.match_buffer(a, (SIZE,), "DTYPE", offset_factor=1)
    B = T.match_buffer(b, (SIZE,), "DTYPE", offset_factor=1)
    with T.block("root"):
        T.reads(A[0:SIZE])
        T.writes(B[0:SIZE])
        for i in range(SIZE):
            BODY
"""
DESCRIBED = """with T.block("copy"):
                v = T.axis.remap("S", [i])
                B[v] = A[v]"""
IMPLEMENTED = "B[SIZE - 1 - i] = A[SIZE - 1 - i]"


class NothingToChoose(Exception):
    """There is no loop or region that a call could be made with."""


class Schedules:
    """Random schedule calls on a function; refused ones must change nothing."""

    def __init__(self, case: Any) -> None:
        self.case, self.program, self.source, self.rng = case, case.program, case.source, case.rng
        self.sch = self.source.names["sch"]
        self.accepted: list[str] = []
        self.values: list[str] = []  # names of annotations to take away again

    def again(self, calls: list[str]) -> None:
        """Make the given calls; those that are refused are left out."""
        for call in calls:
            self.attempt(call)

    def run(self) -> None:
        """The calls that are meant for a group of nests, and random ones."""
        for line in self.program.group.calls if self.program.group is not None else ():
            self.attempt(line)
        for _ in range(self.rng.choice((0, 3, 6, 10, 16))):
            name = self.rng.choice(_NAMES)
            if name in self.program.without:
                continue
            try:
                CALLS[name](self)
            except NothingToChoose:
                continue
            except Exception as error:  # a block inside an init cannot be found by name, say
                if not refusal(error):
                    raise

    def attempt(self, line: str) -> bool:
        """Run a call; false if it is refused."""
        mod, length = self.sch.mod, len(self.sch.trace.insts)
        try:
            self.source.run(line)
        except Exception as error:
            if isinstance(error, IndexError) and traceback.extract_tb(error.__traceback__)[-1].filename == "<string>":
                return False  # the line asks for a loop that is not there
            if self.case.replay is not None and isinstance(error, (NameError, KeyError)):
                return False
            if not refusal(error):
                what = f"{type(error).__name__}: {' '.join(str(error).split())[:250]}"
                raise Wrong("internal", f"{line}: {what}") from error
            pure = line.count("sch.sample_")  # what was sampled for the call stays in the trace
            if self.sch.mod is not mod or (len(self.sch.trace.insts) > length and not pure and "sch.get_" not in line):
                raise Wrong("state", f"{line} was refused and changed the schedule") from error
            return False
        self.accepted.append(line)
        return True

    def call(self, method: str, *arguments: Any) -> bool:
        """`sch.method(arguments)`, whose arguments are texts."""
        return self.attempt(f"sch.{method}({', '.join(map(str, arguments))})")

    # ------------------------------------------------------------------ what to call it with

    def find(self, text: str) -> Any:
        """The value of an expression on the schedule, without a trace of it."""
        return self.source.get(text)

    def blocks(self) -> list[str]:
        """The names of all blocks except the root, outer ones first."""
        from tvmagic.ir import Block, post_order_visit

        found: list[str] = []
        post_order_visit(
            self.sch.mod["main"].body, lambda n: found.append(n.name_hint) if isinstance(n, Block) else None
        )
        return [name for name in found if name != "root" and found.count(name) == 1]

    def block(self) -> str:
        names = self.blocks()
        if not names:
            raise NothingToChoose
        return f'sch.get_block("{self.rng.choice(names)}")'

    def loop_count(self, block: str) -> int:
        return len(self.sch.get_loops(self.find(block)))

    def loops(self) -> list[str]:
        """Texts of the loops of some block, one at least."""
        block = self.block()
        count = self.loop_count(block)
        if not count:
            raise NothingToChoose
        return [f"sch.get_loops({block})[{n}]" for n in range(count)]

    def loop(self) -> str:
        return self.rng.choice(self.loops())

    def neighbours(self) -> list[str]:
        loops = self.loops()
        start = self.rng.randrange(len(loops))
        return loops[start : start + self.rng.choice((2, 2, 3))]

    def statement(self, block: str) -> Any:
        return self.sch.get(self.find(block))

    def side(self, block: str) -> tuple[str, int, Any]:
        """Read or write, its number, and the region, of the block."""
        stmt = self.statement(block)
        places = [(side, n, r) for side in ("read", "write") for n, r in enumerate(getattr(stmt, side + "s"))]
        if not places:
            raise NothingToChoose
        return self.rng.choice(places)

    def index(self) -> int:
        return self.rng.choice((0, 0, 0, 1))

    def scope(self) -> str:
        return self.rng.choice(('"global"', '"global"', '"local"', '"shared"'))

    def factors(self) -> str:
        rng = self.rng
        one = rng.choice((1, 2, 3, 4, 5, 8))
        return rng.choice((f"[None, {one}]", f"[None, {one}]", f"[{one}, None]", f"[None, 2, {one}]", "[2, None, 2]"))

    def flag(self) -> bool:
        return self.rng.random() < 0.5

    def arguments(self) -> dict[str, Any]:
        """What is known of the function's own arrays."""
        return {t.name: t for t in (*self.program.args, *self.program.results)}

    def order_map(self, count: int) -> str:
        """An index map of some block variables, as the copies of `reindex_cache_read` have it."""
        names = [f"a{n}" for n in range(count)]
        chosen = self.rng.sample(names, self.rng.randint(max(1, count - 1), count)) if names else []
        parts = [self.rng.choice((n, n, n, f"{n} // 2, {n} % 2")) for n in chosen]
        return f"lambda {', '.join(names)}: [{', '.join(parts)}]"

    def layout(self, shape: Any, separator: str = "") -> Layout:
        return Layout(self.rng, tuple(getattr(size, "value", None) for size in shape), separator)


# ---------------------------------------------------------------------- one function for each primitive


def _reorder(c: Schedules) -> None:
    loops = c.loops()
    c.rng.shuffle(loops)
    c.call("reorder", *loops[: c.rng.choice((2, 3, 4))])


def _cache_read(c: Schedules) -> None:
    block = c.block()
    one = c.rng.random() < 0.3
    c.call("cache_read", block, c.index(), c.scope(), *([f"[{block}]"] if one else []))


def _reindex(c: Schedules) -> None:
    block = c.block()
    side, n, _ = c.side(block)
    c.call("reindex", block, f'("{side}", {n})')


def _ordered_copy(c: Schedules, method: str) -> None:
    block = c.block()
    count = len(c.statement(block).iter_vars)
    c.call(method, block, c.index(), c.scope(), c.order_map(count))


def _transform_layout(c: Schedules) -> None:
    """A new layout; if it is one of an argument, the array that is passed has it too."""
    block = c.block()
    side, n, region = c.side(block)
    buffer = region.buffer
    if not buffer.shape:
        raise NothingToChoose
    outer = buffer.name in c.arguments()
    if outer and c.rng.random() < 0.7:
        raise NothingToChoose
    if any(buffer.name == name for name, _ in c.case.layouts.values()):
        raise NothingToChoose
    layout = c.layout(buffer.shape)
    pad = ""
    if not outer and c.rng.random() < 0.4 and str(buffer.dtype) != "bool":
        pad = f", pad_value={c.rng.choice((0, 1))}"
        if buffer.dtype.is_float:
            pad += ".0"
    call = f'sch.transform_layout({block}, ("{side}", {n}), {layout.text()}{pad})'
    if c.attempt(call) and outer:
        c.case.layouts[call] = buffer.name, layout


def _set_axis_separator(c: Schedules) -> None:
    block = c.block()
    side, n, region = c.side(block)
    if len(region.buffer.shape) < 2:
        raise NothingToChoose
    c.call("set_axis_separator", block, f'("{side}", {n})', f"[{c.rng.randint(1, len(region.buffer.shape) - 1)}]")


def _block_layout(c: Schedules) -> None:
    block = c.block()
    axes = c.statement(block).iter_vars
    layout = c.layout([iv.dom.extent for iv in axes])
    fuse = len(axes) == 2 and c.rng.random() < 0.3
    extent = getattr(axes[1].dom.extent, "value", 0) if fuse else 0
    c.call("transform_block_layout", block, f"lambda i0, i1: [i0 * {extent} + i1]" if extent else layout.text())


def _set_dtype(c: Schedules) -> None:
    """A wider dtype for a buffer of the function's own, so that values stay."""
    block = c.block()
    writes = c.statement(block).writes
    wider = {"int8": "int16", "int16": "int32", "uint8": "uint16", "float32": "float64", "float16": "float32"}
    usable = [n for n, w in enumerate(writes) if str(w.buffer.dtype) in wider and w.buffer.name not in c.arguments()]
    if not usable or c.program.values.wrap:
        raise NothingToChoose
    n = c.rng.choice(usable)
    c.call("unsafe_set_dtype", block, n, f'"{wider[str(writes[n].buffer.dtype)]}"')


def _hide(c: Schedules) -> None:
    """Hide no access: hiding any other is the caller's own risk, and has no result that is right."""
    c.call("unsafe_hide_buffer_access", c.block(), c.rng.choice(('"read"', '"write"')), "[]")


def _buffer_access(c: Schedules) -> None:
    """Say of a block's write what is so: one element, at the block's variables."""
    block = c.block()
    stmt = c.statement(block)
    names = [f"a{n}" for n in range(len(stmt.iter_vars))]
    nests = {nest.name: len(nest.shape) for nest in c.program.nests if len(nest.outputs) == 1 and not nest.reducer}
    count = nests.get(stmt.name_hint)
    if count is None or len(names) != count or len(stmt.writes) != 1:
        raise NothingToChoose
    if [getattr(r.min, "name", None) for r in stmt.writes[0].region] != [iv.var.name for iv in stmt.iter_vars]:
        raise NothingToChoose
    ranges = ", ".join(f"({n}, {n} + 1)" for n in names)
    c.call("annotate_buffer_access", block, 0, '"write"', f"lambda {', '.join(names)}: [{ranges}]")


def copy_intrinsic(dtype: str, size: int) -> tuple[str, str]:
    """The name of an intrinsic that copies `size` elements, and the line that registers it."""
    name, make = f"copy_{size}_{dtype}", INTRINSIC.replace("DTYPE", dtype)
    texts = [make.replace("BODY", body).replace("SIZE", str(size)) for body in (DESCRIBED, IMPLEMENTED)]
    described, implemented = (f"from_source('''{text}''')" for text in texts)
    return name, f"tir.TensorIntrin.register({name!r}, {described}, {implemented}, override=True)"


def _tensorize(c: Schedules) -> None:
    """A copy of some elements, if a block is one."""
    block = c.block()
    stmt = c.statement(block)
    count = c.loop_count(block)
    if not count or len(stmt.writes) != 1:
        raise NothingToChoose
    dtype, size = str(stmt.writes[0].buffer.dtype), c.rng.choice((2, 4))
    name, register = copy_intrinsic(dtype, size)
    if register not in c.accepted:
        c.attempt(register)
    loop = f"sch.get_loops({block})[{count - 1}]"
    if c.rng.random() < 0.7:
        c.call("split", loop, f"[None, {size}]")
        loop = f"sch.get_loops({block})[{count}]" if c.loop_count(block) > count else loop
    c.call("tensorize", loop, f"{name!r}")


def _annotate(c: Schedules) -> None:
    target = c.rng.choice((c.block, c.loop))()
    key, value = c.rng.choice(
        (
            ('"note"', "1"),
            ('"note"', '"text"'),
            ('"pragma_auto_unroll_max_step"', "8"),
            ('"pragma_unroll_explicit"', "1"),
            ('"pragma_loop_partition_hint"', "1"),
        )
    )
    if c.call("annotate", target, key, value):
        c.values.append(key)


def _unannotate(c: Schedules) -> None:
    c.call("unannotate", c.rng.choice((c.block, c.loop))(), c.rng.choice(c.values or ['"note"']))


def _sampled_split(c: Schedules, sample: str) -> None:
    loop = c.loop()
    c.attempt(f"sch.split({loop}, {sample.format(loop=loop)})")


def _categorical(c: Schedules) -> None:
    c.attempt(f"sch.split({c.loop()}, [None, sch.sample_categorical([1, 2, 4], [0.3, 0.3, 0.4])])")


def _compute_location(c: Schedules) -> None:
    block = c.block()
    c.attempt(f"sch.compute_at({block}, sch.sample_compute_location({block}))")


def _blockize(c: Schedules) -> None:
    names = c.blocks()
    if len(names) > 1 and c.rng.random() < 0.3:
        start = c.rng.randrange(len(names) - 1)
        blocks = ", ".join(f'sch.get_block("{name}")' for name in names[start : start + 2])
        c.call("blockize", f"[{blocks}]", c.flag())
    else:
        c.call("blockize", c.loop(), c.flag())


def _pad_einsum(c: Schedules) -> None:
    block = c.block()
    count = len(c.statement(block).iter_vars)
    c.call("pad_einsum", block, [c.rng.choice((1, 2, 4)) for _ in range(count)])


def _move(c: Schedules, method: str) -> None:
    where = c.rng.choice(("-1", "-1", "-2", "0"))
    c.call(method, c.block(), c.loop(), c.flag(), where)


def _block_order(c: Schedules) -> None:
    block = c.block()
    order = list(range(len(c.statement(block).iter_vars)))
    c.rng.shuffle(order)
    c.call("reorder_block_iter_var", block, order)


def _storage_align(c: Schedules) -> None:
    block = c.block()
    writes = c.statement(block).writes
    if not writes or not writes[0].buffer.shape:
        raise NothingToChoose
    axis = c.rng.randrange(len(writes[0].buffer.shape))
    c.call("storage_align", block, 0, axis, c.rng.choice((2, 4, 8)), c.rng.choice((0, 1)))


def _threads(c: Schedules) -> None:
    c.call("bind", c.loop(), c.rng.choice(('"threadIdx.x"', '"threadIdx.y"', '"blockIdx.x"', '"vthread.x"')))


def _vectorize(c: Schedules) -> None:
    loops = c.loops()
    if c.rng.random() < 0.6:
        block = loops[-1].rsplit("[", 1)[0]
        if c.call("split", loops[-1], f"[None, {c.rng.choice((2, 4, 8))}]"):
            c.call("vectorize", f"{block}[{len(loops)}]")
            return
    c.call("vectorize", loops[-1])


def _rfactor(c: Schedules) -> None:
    loop = c.loop()
    if c.rng.random() < 0.3:
        c.call("split", loop, f"[None, {c.rng.choice((2, 3, 4))}]")
    c.call("rfactor", loop, c.index())


CALLS: dict[str, Callable[[Schedules], Any]] = {
    "add_unit_loop": lambda c: c.call("add_unit_loop", c.rng.choice((c.block, c.loop))()),
    "annotate": _annotate,
    "annotate_buffer_access": _buffer_access,
    "bind": _threads,
    "blockize": _blockize,
    "cache_factor": lambda c: c.call("cache_factor", c.block(), c.index(), '"global"'),
    "cache_index": lambda c: c.call("cache_index", c.block(), '"global"', c.index()),
    "cache_inplace": lambda c: c.call("cache_inplace", c.block(), c.index(), '"global"'),
    "cache_read": _cache_read,
    "cache_write": lambda c: c.call("cache_write", c.block(), c.index(), c.scope()),
    "compute_at": lambda c: _move(c, "compute_at"),
    "compute_inline": lambda c: c.call("compute_inline", c.block()),
    "decompose_padding": lambda c: c.call("decompose_padding", c.block(), c.loop()),
    "decompose_reduction": lambda c: c.call("decompose_reduction", c.block(), c.loop()),
    "enter_postproc": lambda c: c.call("enter_postproc"),
    "fuse": lambda c: c.call("fuse", *c.neighbours()),
    "get_block": lambda c: c.call("get_block", '"root"'),
    "get_child_blocks": lambda c: c.call("get_child_blocks", c.block()),
    "get_consumers": lambda c: c.call("get_consumers", c.block()),
    "get_loops": lambda c: c.call("get_loops", c.block()),
    "get_output_blocks": lambda c: c.call("get_output_blocks", 'sch.get_block("root")'),
    "get_producers": lambda c: c.call("get_producers", c.block()),
    "loop_partition": lambda c: c.call("loop_partition", c.loop(), f"[{c.rng.choice((1, 2, 3))}, None]"),
    "merge": lambda c: c.call("merge", c.loop(), c.loop()),
    "pad_einsum": _pad_einsum,
    "parallel": lambda c: c.call("parallel", c.loop()),
    "read_at": lambda c: c.call("read_at", c.loop(), c.block(), c.index(), c.scope()),
    "reindex": _reindex,
    "reindex_cache_read": lambda c: _ordered_copy(c, "reindex_cache_read"),
    "reindex_cache_write": lambda c: _ordered_copy(c, "reindex_cache_write"),
    "reorder": _reorder,
    "reorder_block_iter_var": _block_order,
    "reverse_compute_at": lambda c: _move(c, "reverse_compute_at"),
    "reverse_compute_inline": lambda c: c.call("reverse_compute_inline", c.block()),
    "rfactor": _rfactor,
    "rolling_buffer": lambda c: c.call("rolling_buffer", c.block(), 0),
    "sample_categorical": _categorical,
    "sample_compute_location": _compute_location,
    "sample_partitioned_tile": lambda c: _sampled_split(c, "sch.sample_partitioned_tile({loop}, 3, 1, 2)"),
    "sample_perfect_tile": lambda c: _sampled_split(c, "sch.sample_perfect_tile({loop}, 2, 8)"),
    "set_axis_separator": _set_axis_separator,
    "select_branches": lambda c: c.call("select_branches", c.block()),
    "set_scope": lambda c: c.call("set_scope", c.block(), c.index(), c.scope()),
    "split": lambda c: c.call("split", c.loop(), c.factors(), f"preserve_unit_iters={c.flag()}"),
    "storage_align": _storage_align,
    "tensorize": _tensorize,
    "transform_block_layout": _block_layout,
    "transform_layout": _transform_layout,
    "unannotate": _unannotate,
    "unroll": lambda c: c.call("unroll", c.loop()),
    "unsafe_hide_buffer_access": _hide,
    "unsafe_set_dtype": _set_dtype,
    "vectorize": _vectorize,
    "write_at": lambda c: c.call("write_at", c.loop(), c.block(), 0, c.scope()),
}
_OFTEN = ("split", "fuse", "reorder", "compute_at", "reverse_compute_at", "compute_inline", "cache_read", "cache_write",
          "vectorize", "decompose_reduction", "rfactor", "blockize", "transform_block_layout", "unsafe_set_dtype",
          "write_at", "reverse_compute_inline")  # fmt: skip
_SELDOM = ("get_block", "get_child_blocks", "get_consumers", "get_output_blocks", "get_producers", "get_loops")
_NAMES = [name for name in CALLS for _ in range(4 if name in _OFTEN else 1 if name in _SELDOM else 2)]
