"""Random tensor expressions and schedules: the text that makes them, and what they compute."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import small_language as sl
from computations import Computation, RandomProgram
from outcomes import TARGETS, Argument, Source, Wrong, check_call, guarded_call, refusal
from random_layouts import Layout
from random_values import Axis, Size, TensorInfo
from small_language import FLOATS, INTS, UINTS, Expr
from te_idioms import HELPERS, Group

PRELUDE = """
def _pick(better):
    def combine(x, y):
        first = tir.any(better(x[1], y[1]), tir.all(tir.EQ(x[1], y[1]), x[0] <= y[0]))
        return tir.Select(first, x[0], y[0]), tir.Select(first, x[1], y[1])
    return combine
argmax = te.comm_reducer(_pick(lambda x, y: x > y), lambda t0, t1: (te.max_value(t0), te.min_value(t1)), "argmax")
argmin = te.comm_reducer(_pick(lambda x, y: x < y), lambda t0, t1: (te.max_value(t0), te.max_value(t1)), "argmin")
sum_max = te.comm_reducer(
    lambda x, y: (x[0] + y[0], tir.max(x[1], y[1])), lambda t0, t1: (te.const(0, t0), te.min_value(t1)), "sum_max"
)
""".strip()


class Stage(Computation):
    """A stage, which may be a recurrence."""

    def __init__(self, name: str, shape: tuple[Size, ...]) -> None:
        super().__init__(name, shape)
        self.scan: Scan | None = None


class Scan:
    """The parts of a recurrence: the state's name, how many first steps are given, the stages of a step."""

    def __init__(self, state: TensorInfo, first: Stage, steps: list[Stage]) -> None:
        self.state, self.first, self.steps = state, first, steps


class Program(RandomProgram):
    """A random program: `stages` in order. `without` also knows: scan, layout, separator, threads, vthread, double,
    rolling, group."""

    def __init__(self, rng: random.Random, without: frozenset[str]) -> None:
        super().__init__(rng, without)
        self.size_maker = rng.choice(("size_var", "size_var", "var"))
        self.stages: list[Stage] = []
        count = rng.choice((1, 2, 2, 3, 3, 4))
        for n in range(count):
            stage = self.stage(f"S{n}", n == count - 1)
            self.stages.append(stage)
            self.tensors += stage.outputs
        extra = random.Random(str(rng.getstate()[1][:3]))  # so that the rest of a seed's program stays
        self.group = Group(self, extra) if extra.random() < 0.35 and "group" not in without else None

    # ------------------------------------------------------------------ parts

    def stage(self, name: str, last: bool) -> Stage:
        rng = self.rng
        stage = Stage(name, self.shape())
        kind = rng.random()
        if kind < 0.3:
            self.make_reduction(stage)
        elif kind < 0.4 and last and "tuple" not in self.without:
            self.make_tuple_reduction(stage)
        elif kind < 0.5 and "scan" not in self.without:
            self.make_scan(stage)
        elif kind < 0.58 and "several" not in self.without:
            self.make_values(stage, 2)
        else:
            self.make_values(stage, 1, last)
        return stage

    def make_scan(self, stage: Stage) -> None:
        rng = self.rng
        ahead = rng.choice((1, 1, 2))
        steps = Size(ahead + rng.randint(1, 5))
        if self.sizes and rng.random() < 0.3:
            steps = Size(ahead, rng.choice(list(self.sizes)), 1)
        stage.shape = (steps, *stage.shape[:2])
        stage.axes = [Axis(f"i{n}", size) for n, size in enumerate(stage.shape)]
        dtype = self.some_dtype()
        first = Stage(f"{stage.name}_first", (Size(ahead), *stage.shape[1:]))
        start = self.body(dtype, first.axes)
        start = (
            start
            if start.dtype == "bool" or (self.values.wrap and dtype in INTS + UINTS)
            else self.values.clamp(start, 8)
        )
        start = self.round_off(start)
        self.finish(first, [start])
        low, high = (-8, 8) if dtype not in UINTS else (0, 8)
        if dtype in INTS + UINTS and self.values.wrap:
            low, high = sl.limits(dtype)
        elif dtype == "bool":
            low, high = 0, 1
        state = TensorInfo(f"{stage.name}_state", dtype, stage.shape, low, high, 0, self.special and dtype in FLOATS)
        earlier = [self.earlier(state, stage, rng.randint(1, ahead)) for _ in range(rng.choice((1, 1, 2)))]
        parts: list[Stage] = []
        if rng.random() < 0.4:
            middle = Stage(f"{stage.name}_mid", stage.shape)
            self.finish(middle, [self.round_off(self.step_value(earlier, stage))])
            parts.append(middle)
            index = [axis.var(self.sizes) for axis in stage.axes]
            earlier = [sl.load(middle.outputs[0], index), earlier[0]]
        update = Stage(f"{stage.name}_update", stage.shape)
        self.finish(update, [self.round_off(self.step_value(earlier, stage))])
        parts.append(update)
        stage.scan = Scan(state, first, parts)
        stage.outputs = [state._replace(name=stage.name)]

    def round_off(self, e: Expr) -> Expr:
        return sl.apply("floor", e) if e.is_float and e.fraction else e

    def earlier(self, state: TensorInfo, stage: Stage, back: int) -> Expr:
        """An element of the state, `back` steps before."""
        time = sl.apply("sub", stage.axes[0].var(self.sizes), sl.constant(back, sl.INDEX))
        rest = []
        for axis in stage.axes[1:]:
            var = axis.var(self.sizes)
            last = sl.apply("sub", axis.extent.expr(self.sizes), sl.constant(1, sl.INDEX))
            rest.append(self.rng.choice((var, var, sl.apply("sub", last, var))))
        return sl.load(state, [time, *rest])

    def step_value(self, earlier: list[Expr], stage: Stage) -> Expr:
        values, dtype = self.values, earlier[0].dtype
        other = earlier[1] if len(earlier) > 1 else self.values.leaf(dtype, stage.axes, self.tensors)
        op = self.rng.choice(("and", "or")) if dtype == "bool" else self.rng.choice(("add", "sub", "max", "min"))
        e = values.tame(op, earlier[0], other)
        return e if dtype == "bool" or (values.wrap and dtype in INTS + UINTS) else values.clamp(e, 8)

    # ------------------------------------------------------------------ the text

    def shape_text(self, shape: tuple[Size, ...]) -> str:
        return f"({', '.join(map(str, shape))},)"

    def write(self, source: Source) -> None:
        """The program as lines of Python, run in `source`."""
        source.run(PRELUDE)
        for name in self.sizes:
            source.run(f'{name} = te.{self.size_maker}("{name}")')
        for t in self.inputs:
            source.run(f'{t.name} = te.placeholder({self.shape_text(t.shape)}, "{t.dtype}", name="{t.name}")')
        for stage in self.stages:
            self.write_scan(source, stage) if stage.scan else self.write_stage(source, stage)
        for text in (HELPERS, *self.group.lines) if self.group is not None else ():
            source.run(text)

    def write_stage(self, source: Source, stage: Stage) -> None:
        for axis in stage.reduced:
            end = axis.extent._replace(offset=axis.extent.offset + axis.low)
            source.run(f'{axis.name} = te.reduce_axis(({axis.low}, {end}), name="{axis.name}")')
        texts = [sl.te_text(e) for e in stage.bodies]
        body = texts[0] if len(texts) == 1 else f"({', '.join(texts)})"
        if stage.reducer:
            options = f"axis=[{', '.join(a.name for a in stage.reduced)}]"
            if stage.where is not None:
                options += f", where={sl.te_text(stage.where)}"
            if stage.init is not None:
                options += f", init={sl.te_text(stage.init)}"
            tuple_ = len(texts) > 1
            body = f"{'' if tuple_ else 'te.'}{stage.reducer}({body}, {options})"
        names = ", ".join(t.name for t in stage.outputs)
        axes = ", ".join(a.name for a in stage.axes)
        source.run(f'{names} = te.compute({self.shape_text(stage.shape)}, lambda {axes}: {body}, name="{stage.name}")')

    def write_scan(self, source: Source, stage: Stage) -> None:
        scan = stage.scan
        assert scan is not None
        state = scan.state
        shape = self.shape_text(state.shape)
        source.run(f'{state.name} = te.placeholder({shape}, "{state.dtype}", name="{state.name}")')
        for part in (scan.first, *scan.steps):
            self.write_stage(source, part)
        inputs = [t.name for t in self.tensors if any(t.name in sl.loads(e) for p in scan.steps for e in p.bodies)]
        source.run(
            f"{stage.name} = te.scan({scan.first.name}, {scan.steps[-1].name}, {state.name}, "
            f'inputs=[{", ".join(inputs)}], name="{stage.name}")'
        )

    def tensor_names(self) -> list[str]:
        """The names of all tensors, for schedule calls."""
        scans = [p.name for st in self.stages if st.scan for p in (st.scan.first, *st.scan.steps)]
        return [t.name for t in self.tensors] + scans

    # ------------------------------------------------------------------ the meaning

    def evaluate(self, arrays: dict[str, Any]) -> dict[str, Any]:
        """The value of every tensor."""
        env: dict[str, Any] = {**self.sizes, **arrays}
        for stage in self.stages:
            if stage.scan is not None:
                self.evaluate_scan(stage, env)
            else:
                for t, value in zip(stage.outputs, self.evaluate_computation(stage, env)):
                    env[t.name] = value
        if self.group is not None:
            env["G"] = self.group.value(arrays)
        return env

    def evaluate_scan(self, stage: Stage, env: dict[str, Any]) -> None:
        scan = stage.scan
        assert scan is not None
        state = np.zeros(self.concrete(stage.shape), sl.numpy_dtype(scan.state.dtype))
        ahead = scan.first.shape[0].value(self.sizes)
        state[:ahead] = self.evaluate_computation(scan.first, env)[0]
        inner = {**env, scan.state.name: state}
        middles = {p.name: np.zeros(state.shape, sl.numpy_dtype(p.outputs[0].dtype)) for p in scan.steps[:-1]}
        inner.update(middles)
        grid = self.grid(stage.axes)
        for step in range(ahead, state.shape[0]):
            inner.update(grid)
            inner["i0"] = np.full([1] * len(stage.axes), step)
            for part in scan.steps:
                target = middles.get(part.name, state)
                value = np.broadcast_to(sl.evaluate(part.bodies[0], inner), (1, *state.shape[1:]))
                target[step] = value[0].astype(target.dtype)
        env[stage.name] = state


# ---------------------------------------------------------------------- the schedule


class Schedules:
    """Random schedule calls on a program; refused ones must change nothing."""

    always_threads = False  # whether each program launches threads

    def __init__(self, case: Case) -> None:
        self.case, self.program, self.source, self.rng = case, case.program, case.source, case.rng
        self.without = self.program.without
        self.s = self.source.names["s"]
        self.accepted: list[str] = []
        self.count = 0
        self.made: list[str] = []  # texts of the tensors that calls have made
        self.threads = False

    def again(self, calls: list[str]) -> None:
        """Make the given calls; those that are refused are left out."""
        for call in calls:
            self.attempt(call)

    def state(self) -> Any:
        """What a refused call must leave as it is."""
        return [
            (st.op, tuple(st.leaf_iter_vars), len(st.relations), st.attach_type, st.attach_ivar, st.scope,
             st.is_double_buffered, st.is_rolling, len(st.layout_transforms), st.store_predicate)
            for st in self.s.stages
        ]  # fmt: skip

    def attempt(self, line: str) -> bool:
        """Run a call; false if it is refused."""
        before = self.state()
        try:
            self.source.run(line)
        except Exception as error:
            if self.case.replay is not None and isinstance(error, (NameError, IndexError, KeyError)):
                return False
            if not refusal(error):
                what = f"{type(error).__name__}: {' '.join(str(error).split())[:200]}"
                raise Wrong("internal", f"{line}: {what}") from error
            after = self.state()
            if len(before) != len(after) or not all(map(same, before, after)):
                raise Wrong("state", f"{line} was refused and changed the schedule") from error
            return False
        self.accepted.append(line)
        return True

    def names(self) -> dict[int, str]:
        """A text for the tensor of each stage, by the stage's identity."""
        found: dict[int, str] = {}
        for text in self.program.tensor_names() + self.made:
            stage = self.s.stage_map.get(self.source.get(text).op) if self.has(text) else None
            if stage is not None:
                found[id(stage)] = text
        return found

    def has(self, text: str) -> bool:
        return text.split("[")[0] in self.source.names

    def start_threads(self) -> None:
        """The program is one of a GPU; `tx` and so on are its threads."""
        self.threads = True
        for name, tag in (("bx", "blockIdx.x"), ("tx", "threadIdx.x"), ("ty", "threadIdx.y")):
            self.attempt(f'{name} = te.thread_axis("{tag}")')

    def run(self) -> None:
        """All calls: for a group of stages those that are meant for it; then those that change the graph, and stage by
        stage from the outputs on."""
        group = getattr(self.program, "group", None)
        for line in group.calls if group is not None else ():
            self.attempt(line)
        if (self.rng.random() < 0.15 or self.always_threads) and "threads" not in self.without:
            self.start_threads()
        for _ in range(self.rng.choice((0, 1, 1, 2, 3))):
            self.rewrite()
        if self.rng.random() < 0.2 and "layout" not in self.without:
            self.transform_layout()
        names = self.names()
        consumers: list[tuple[str, Any]] = []
        for stage in reversed(list(self.s.stages)):
            name = names.get(id(stage))
            if name is None or kind(stage) == "PlaceholderOp":
                continue
            self.place(name, stage, consumers)
            for _ in range(self.rng.choice((0, 1, 1, 2, 3))):
                self.rearrange(name, stage)
            self.annotate(name, stage)
            consumers.append((name, stage))

    # ------------------------------------------------------------------ the graph

    def make(self, word: str, call: str) -> None:
        """A call that gives a new tensor, or several."""
        self.count += 1
        name = f"{word}{self.count}"
        if self.attempt(f"{name} = {call}"):
            several = isinstance(self.source.names[name], (list, tuple))
            self.made.append(f"{name}[0]" if several else name)

    def rewrite(self) -> None:
        rng, names = self.rng, self.names()
        candidates = [st for st in self.s.stages if kind(st) == "ComputeOp" and id(st) in names]
        if not candidates:
            return
        stage = rng.choice(candidates)
        name = names[id(stage)]
        scope = rng.choice(("local", "shared", "global")) if not self.threads else "shared"
        chance = rng.random()
        if chance < 0.35:
            if rng.random() < 0.3:
                self.rearrange(name, stage)
            outputs = [f"s[{name}].op.output({k})" for k in range(stage.op.num_outputs)]
            tensors = outputs[0] if len(outputs) == 1 else f"[{', '.join(outputs)}]"
            self.make("W", f's.cache_write({tensors}, "{scope}")')
        elif chance < 0.65:
            reads = list(stage.op.input_tensors)
            if reads:
                tensor = f"s[{name}].op.input_tensors[{rng.randrange(len(reads))}]"
                self.make("R", f's.cache_read({tensor}, "{scope}", [s[{name}].op])')
        elif stage.op.reduce_axis:
            self.factor(name, stage)

    def factor(self, name: str, stage: Any) -> None:
        rng = self.rng
        axis = f"s[{name}].op.reduce_axis[{rng.randrange(len(stage.op.reduce_axis))}]"
        if rng.random() < 0.6:
            self.count += 1
            pair = f"p{self.count}"
            how = rng.choice(("factor", "nparts"))
            if not self.attempt(f"{pair} = s[{name}].split({axis}, {how}={rng.randint(2, 4)})"):
                return
            axis = f"{pair}[{rng.randrange(2)}]"
        place = rng.choice(("", "", ", factor_axis=-1", ", factor_axis=1"))
        self.make("F", f"s.rfactor(s[{name}].op.output(0), {axis}{place})")

    def transform_layout(self) -> None:
        rng, names = self.rng, self.names()
        stages = [st for st in self.s.stages if id(st) in names and kind(st) in ("ComputeOp", "PlaceholderOp")]
        if not stages:
            return
        stage = rng.choice(stages)
        name = names[id(stage)]
        is_argument = kind(stage) == "PlaceholderOp" or stage.is_output
        if is_argument and stage.op.num_outputs > 1:
            return
        sizes = [getattr(size, "value", None) for size in stage.op.output(0).shape]
        separators = rng.random() < 0.3 and "separator" not in self.without
        layout = Layout(rng, tuple(sizes), "te.AXIS_SEPARATOR" if separators else "")
        call = f"s[{name}].transform_layout({layout.text()})"
        if self.attempt(call) and is_argument:
            self.case.layouts[call] = name, layout

    # ------------------------------------------------------------------ one stage

    def leaf(self, name: str, k: int) -> str:
        return f"s[{name}].leaf_iter_vars[{k}]"

    def place(self, name: str, stage: Any, consumers: list[tuple[str, Any]]) -> None:
        """Say where the stage runs."""
        rng = self.rng
        if stage.is_output or not consumers:
            return
        chance = rng.random()
        reads = [(m, c) for m, c in consumers if any(t.op is stage.op for t in c.op.input_tensors)]
        in_scan = stage.group is not None
        if chance < 0.2:
            plain = kind(stage) == "ComputeOp" and not stage.op.reduce_axis and stage.op.num_outputs == 1
            feeds_scan = any(kind(c) == "ScanOp" for _, c in reads)
            if plain and not feeds_scan or rng.random() < 0.03:
                self.attempt(f"s[{name}].compute_inline()")
            return
        if chance < 0.8 and reads and (len(reads) == 1 or rng.random() < 0.1):
            parent_name, parent = rng.choice(reads)
            if parent.attach_type == 2 or not parent.leaf_iter_vars or (in_scan and parent.group is not stage.group):
                return
            k = rng.randrange(len(parent.leaf_iter_vars))
            if not self.attempt(f"s[{name}].compute_at(s[{parent_name}], {self.leaf(parent_name, k)})"):
                return
            if rng.random() < 0.25 and "double" not in self.without:
                self.attempt(f"s[{name}].double_buffer()")
            if rng.random() < 0.1 and "rolling" not in self.without:
                self.attempt(f"s[{name}].rolling_buffer()")
            if rng.random() < 0.05:
                self.attempt(f"s[{name}].compute_root()")
        if rng.random() < 0.1 and not self.threads:
            self.attempt(f's[{name}].set_scope("{rng.choice(("global", "shared", "local"))}")')
        axes = getattr(stage.op, "axis", ())
        if rng.random() < 0.15 and len(axes):
            axis = f"s[{name}].op.axis[{rng.randrange(len(axes))}]"
            self.attempt(f"s[{name}].storage_align({axis}, {rng.choice((2, 4, 8, 16))}, {rng.choice((0, 0, 1))})")

    def rearrange(self, name: str, stage: Any) -> None:
        """Split, fuse, reorder or tile loops of the stage."""
        rng, leaves = self.rng, stage.leaf_iter_vars
        if not leaves:
            return
        at, choice, k = f"s[{name}]", rng.random(), rng.randrange(len(leaves))
        if choice < 0.4:
            how = rng.choice(("factor", "factor", "nparts"))
            self.attempt(f"{at}.split({self.leaf(name, k)}, {how}={rng.choice((1, 2, 2, 3, 4, 5, 8, 16))})")
        elif choice < 0.6 and len(leaves) > 1:
            k = rng.randrange(len(leaves) - 1)
            self.attempt(f"{at}.fuse({self.leaf(name, k)}, {self.leaf(name, k + 1)})")
        elif choice < 0.85 and len(leaves) > 1:
            order = rng.sample(range(len(leaves)), rng.randint(2, len(leaves)))
            self.attempt(f"{at}.reorder({', '.join(self.leaf(name, k) for k in order)})")
        elif choice < 0.95 and len(leaves) > 1:
            pair = ", ".join(self.leaf(name, k) for k in rng.sample(range(len(leaves)), 2))
            self.attempt(f"{at}.tile({pair}, {rng.randint(1, 4)}, {rng.randint(1, 8)})")
        else:
            self.attempt(f"{at}.fuse()")

    def annotate(self, name: str, stage: Any) -> None:
        """Say how single loops run.

        Only loops over data are run in parallel: a loop of a reduction would be a race, which the API accepts.
        """
        rng, at = self.rng, f"s[{name}]"
        if self.threads and rng.random() < 0.7:
            self.bind(name, stage)
        for k, iv in enumerate(list(stage.leaf_iter_vars)):
            data, chance, loop = iv.iter_type == 0, rng.random(), self.leaf(name, k)
            if self.program.sizes and chance < 0.37 and not iv.var.name.endswith(".inner") and rng.random() < 0.9:
                continue  # unroll and vectorize need a constant extent
            if chance < 0.1:
                self.attempt(f"{at}.unroll({loop})")
            elif chance < 0.25 and data and k == len(stage.leaf_iter_vars) - 1:
                if rng.random() < 0.5 and self.attempt(f"{at}.split({loop}, factor={rng.choice((2, 4, 8))})"):
                    loop = self.leaf(name, k + 1)
                self.attempt(f"{at}.vectorize({loop})")
            elif chance < 0.3 and data and k == 0:
                self.attempt(f"{at}.parallel({loop})")
            elif chance < 0.34:
                pragma = rng.choice(
                    ('"auto_unroll_max_step", 8', '"unroll_explicit", True', '"loop_partition_hint", True')
                )
                self.attempt(f"{at}.pragma({loop}, {pragma})")
            elif chance < 0.37 and data and "vthread" not in self.without:
                self.attempt(f'{at}.bind({loop}, te.thread_axis("vthread"))')
            elif chance > 0.995 and getattr(stage.op, "input_tensors", ()):
                read = rng.randrange(len(stage.op.input_tensors))
                self.attempt(f"{at}.prefetch({at}.op.input_tensors[{read}], {loop}, 1)")

    def bind(self, name: str, stage: Any) -> None:
        """Bind loops to threads: four of them, so that stages agree."""
        rng = self.rng
        threads = ["bx", "tx", "ty"] if stage.is_output else ["tx", "ty"]
        for thread in rng.sample(threads, rng.randint(1, 2)):
            free = [
                k for k, iv in enumerate(stage.leaf_iter_vars)
                if iv.iter_type in (0, 2) and getattr(stage.iter_var_attrs.get(iv), "bind_thread", None) is None
            ]  # fmt: skip
            if not free:
                return
            k = rng.choice(free)
            if stage.leaf_iter_vars[k].iter_type == 2 and thread == "bx":
                continue
            if thread != "bx":
                if not self.attempt(f"s[{name}].split({self.leaf(name, k)}, factor=4)"):
                    continue
                k += 1
            self.attempt(f"s[{name}].bind({self.leaf(name, k)}, {thread})")


def kind(stage: Any) -> str:
    """The class of the stage's operation."""
    return type(stage.op).__name__


def same(a: tuple[Any, ...], b: tuple[Any, ...]) -> bool:
    for x, y in zip(a, b):
        if isinstance(x, tuple):
            if len(x) != len(y) or any(p is not q for p, q in zip(x, y)):
                return False
        elif x is not y and not (isinstance(x, (int, str)) and x == y):
            return False
    return True


# ---------------------------------------------------------------------- a seed


class Case:
    """The program of a seed, its schedule, and how it is built.

    `calls` are the schedule calls that were accepted; with `replay` these are made and no random ones.
    """

    schedules = Schedules
    program_class: type[Program] = Program

    def __init__(self, seed: int, without: frozenset[str] = frozenset()) -> None:
        self.rng = random.Random(seed)
        self.seed = seed
        self.program = self.program_class(self.rng, without)
        self.outputs: list[Stage | Group] = [self.program.stages[-1]]
        if len(self.program.stages) > 1 and self.rng.random() < 0.15:
            self.outputs.insert(0, self.rng.choice(self.program.stages[:-1]))
        if self.program.group is not None:
            self.outputs.append(self.program.group)
        self.bounds = self.rng.random() < 0.5
        self.target = self.rng.choice(TARGETS)
        self.passed = {name for name in self.program.sizes if self.rng.random() < 0.2}
        self.calls: list[str] = []
        self.layouts: dict[str, tuple[str, Layout]] = {}  # the tensor and its layout by the call
        self.replay: list[str] | None = None

    def make(self) -> None:
        """Write and schedule the program."""
        program, self.source = self.program, Source()
        source = self.source
        guarded_call("program", lambda: program.write(source))
        ops = ", ".join(f"{st.outputs[0].name}.op" for st in self.outputs)
        guarded_call("program", lambda: source.run(f"s = te.create_schedule([{ops}])"))
        used = {st.op for st in source.names["s"].stages}
        self.args = [t for t in program.inputs if source.names[t.name].op in used]
        self.results = [t for st in self.outputs for t in st.outputs]
        scheduled = self.schedules(self)
        try:
            scheduled.run() if self.replay is None else scheduled.again(self.replay)
        finally:
            self.calls = scheduled.accepted

    def bound(self, name: str) -> bool:
        """Whether a dimension of some argument is just this variable, so that it follows from the array."""
        moved = {tensor for call, (tensor, _) in self.layouts.items() if call in self.calls}
        arguments = [t for t in (*self.args, *self.results) if t.name not in moved]
        return any(size == Size(0, name, 1) for t in arguments for size in t.shape)

    def check(self) -> None:
        """Raise `Wrong` unless the compiled program does what it means."""
        self.make()
        program = self.program
        variables = [n for n in program.sizes if n in self.passed or not self.bound(n)]
        args = ", ".join([*variables, *[t.name for t in (*self.args, *self.results)]])
        line = f"f = tvmagic.build(s, [{args}], {self.target!r}, check_bounds={self.bounds})"
        guarded_call("build", lambda: self.source.run(line))
        with np.errstate(all="ignore"):
            arrays = program.arrays(np.random.default_rng(self.seed))
            values = program.meaning(arrays)
        inexact = {t.name: st.inexact for st in program.stages for t in st.outputs}
        layouts = dict(self.layouts[call] for call in self.calls if call in self.layouts)
        arguments: list[Any] = [program.sizes[v] for v in variables]
        for t in (*self.args, *self.results):
            value, known = values[t.name], None
            if t.name in layouts:
                value, known = layouts[t.name].apply(value)
            arguments.append(Argument(value, t in self.results, inexact.get(t.name, False), known))
        for function in self.functions():
            check_call(function, arguments, random.Random(self.seed))

    def functions(self) -> list[Any]:
        """What has to give the right values: the compiled function."""
        return [self.source.names["f"]]

    def text(self) -> str:
        """The program as a file that makes it."""
        sizes = "".join(f"# {name} = {value}\n" for name, value in self.program.sizes.items())
        return sizes + self.source.text()

    def holders(self) -> list[tuple[list[Expr], int]]:
        """Each expression of the program, as a list and a place in it, for a shrinker to change."""
        stages = [p for st in self.program.stages for p in ((st.scan.first, *st.scan.steps) if st.scan else (st,))]
        return [(st.bodies, n) for st in stages for n in range(len(st.bodies))]
