"""One module's code: its functions, and what they share (helpers, constants, failure sites)."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

from tvmagic import ir
from tvmagic.arith.scalable import is_vscale
from tvmagic.codegen.emit import bounds, descriptors, intrinsics
from tvmagic.codegen.emit.abi import ABI, abi_of, machine_type
from tvmagic.codegen.emit.expressions import ExpressionEmitter
from tvmagic.codegen.emit.gpu_threads import GpuThreads
from tvmagic.codegen.emit.overflow_checks import check_loop_counts
from tvmagic.codegen.emit.runtime_calls import GLOBALS, helper
from tvmagic.codegen.emit.statements import FunctionEmitter
from tvmagic.codegen.late.common import is_split, work_of
from tvmagic.codegen.late.speculate_loads import ReadsOrCalls
from tvmagic.codegen.math import approximations, hyperbolic, inverse_circular, vector_math
from tvmagic.codegen.text.types import llvm_type, memory_type
from tvmagic.codegen.text.writer import FunctionText, ModuleText
from tvmagic.errors import BuildError
from tvmagic.ir.constants import largest_integer
from tvmagic.lazy import cached_property
from tvmagic.passes import note
from tvmagic.runtime.abi import ERROR_SLOTS, Site
from tvmagic.target import Target, cpu_and_features, has_avx512, has_fma, require_llvm
from tvmagic.target.systems import system_of_triple

BOOL, INT64 = ir.DataType("bool"), ir.DataType("int64")


# What fills the tables of `rules.py`.
RULE_FILES = (approximations, descriptors, hyperbolic, intrinsics, inverse_circular)


@dataclass
class ModuleContext:
    """What the emitters of one module's functions share."""

    text: ModuleText
    target: Target
    check_bounds: bool  # but in kernels, which cannot stop
    lines: Any
    with_debug: bool
    sites: list[Site] = field(default_factory=list)
    abis: dict[ir.GlobalVar, ABI] = field(default_factory=dict)
    function_name: str = ""
    work: Any = None
    is_split: bool = False  # whether the code of the function is several functions of LLVM
    _names: int = 0
    _nodes: dict[str, str] = field(default_factory=dict)
    _reads_or_calls: ReadsOrCalls = field(default_factory=ReadsOrCalls)
    sizes: dict[Any, Any] = field(default_factory=dict)
    volatile: set[Any] = field(default_factory=set)  # pointers whose accesses are neither joined nor left out

    def __post_init__(self) -> None:
        self.threads = GpuThreads(self)
        self.family = self.target.family
        self.check_bounds = self.check_bounds and not self.family.launches
        self.target_triple = cpu_and_features(self.target)[0]
        self.debug: Any = None
        if self.with_debug:
            from tvmagic.codegen.emit.debug import DebugInfo

            self.debug = DebugInfo(self.text, self.lines)

    @cached_property
    def has_fma(self) -> bool:
        """Whether a multiply-add is one instruction."""
        return has_fma(self.target)

    @cached_property
    def has_avx512(self) -> bool:
        """Whether there are x86's vectors of 512 bits."""
        return has_avx512(self.target)

    # ------------------------------------------------------------------ names and metadata

    def new_name(self, base: str) -> str:
        self._names += 1
        return f"{base}.{self._names}"

    def shared_node(self, key: str, content: str) -> str:
        """The metadata node with `content`, one for the module."""
        if key not in self._nodes:
            self._nodes[key] = self.text.node(content)
        return self._nodes[key]

    def empty_node(self) -> str:
        return self.shared_node("empty", "!{}")

    def unlikely(self) -> str:
        return ", !prof " + self.shared_node("unlikely", '!{!"branch_weights", i32 1, i32 1048576}')

    def likely(self) -> str:
        return ", !prof " + self.shared_node("likely", '!{!"branch_weights", i32 1048576, i32 1}')

    def loop_metadata(self, *wishes: str) -> str:
        """The loop's wishes `llvm.loop.<name>`, each with its value if it has one, as a suffix of its branch."""
        nodes = []
        for wish in wishes:
            name, _, value = wish.partition(" ")
            nodes.append(self.text.node(f'!{{!"llvm.loop.{name}"{", " + value if value else ""}}}'))
        loop = self.text.node()
        self.text.define_node(loop, f"distinct !{{{', '.join([loop, *nodes])}}}")
        return f", !llvm.loop {loop}"

    def attributes(self) -> str:
        """The attributes of every function."""
        width = self.target.attrs.get("vector-width")
        extra = f' "prefer-vector-width"="{width}"' if width else ""
        if self.target.mcpu or self.target.mattr:
            _, cpu, features = cpu_and_features(self.target)
            extra += f' "target-cpu"="{cpu}"' if cpu else ""
            extra += f' "target-features"="{features}"' if features else ""
        # vectors of a fixed number of lanes become scalable registers only up to the bits that these have at least
        scalable = f" vscale_range({self.target.sve_bits // 128},16)" if self.target.has_sve else ""
        return f'nounwind{scalable} "no-trapping-math"="true"{extra}'

    def subprogram(self, node: Any, name: str) -> str:
        """The debug information of a function, as a suffix of its head."""
        return self.debug.subprogram(node, name) if self.debug is not None else ""

    def at(self, emitter: Any, node: ir.Stmt | ir.BufferLoad | ir.PrimFunc) -> None:
        """Attribute the instructions that are emitted next to `node`."""
        if self.debug is not None:
            self.debug.at(emitter.out, node)

    # ------------------------------------------------------------------ helpers and constants

    def helper(self, name: str) -> str:
        """The runtime's function `name`, callable from this module."""
        if self.family.launches:
            raise BuildError(
                "a kernel cannot call functions of Python",
                hint="take the call out",
                code="codegen.python_call_in_kernel",
            )
        if not self.family.calls_process:
            if name not in ("alloc", "free"):
                raise BuildError(
                    "WebAssembly has no functions of Python to call",
                    hint="take the call out",
                    code="codegen.python_call_in_wasm",
                )
            for part in ("set_heap", name):
                self.text.helpers.setdefault(part, helper(f"wasm/{part}"))
            return f"@tvm.{name}"
        self.text.globals.setdefault("runtime", GLOBALS["runtime"])
        own = system_of_triple(self.target_triple).aligned_memory if name in ("alloc", "free") else ""
        self.text.helpers.setdefault(name, helper(f"{name}{own}"))
        return f"@tvm.{name}"

    def text_constant(self, value: str) -> str:
        data = value.encode() + b"\0"
        key = "s:" + value
        if key not in self.text.globals:
            name = f"@{self.new_name('.str')}"
            body = "".join(f"\\{b:02X}" for b in data)
            self.text.globals[key] = f'{name} = private unnamed_addr constant [{len(data)} x i8] c"{body}"'
        return self.text.globals[key].split(" ", 1)[0]

    def constant_array(self, stmt: ir.AllocateConst) -> str:
        import numpy as np

        data = stmt.data.numpy() if hasattr(stmt.data, "numpy") else np.asarray(stmt.data)
        raw = np.ascontiguousarray(data).tobytes()
        name = f"@{self.new_name('.const')}"
        body = "".join(f"\\{b:02X}" for b in raw)
        self.text.globals[name] = f'{name} = private unnamed_addr constant [{len(raw)} x i8] c"{body}", align 64'
        return name

    def vector_math(self, name: str, dtype: ir.DataType) -> str:
        """The function of the module that computes `name` on values of `dtype`."""
        return vector_math.define(self, name, dtype)

    def is_guarded(self, expr: ir.PrimExpr) -> bool:
        """Whether `expr` may only be computed if a condition holds: it reads memory or calls."""
        return self._reads_or_calls.test(expr)

    # ------------------------------------------------------------------ what stops a function

    def site(self, kind: str, node: Any, message: str = "", **facts: Any) -> int:
        """The number of a new failure site."""
        line = self.lines.line_of(node) if self.lines is not None else 0
        self.sites.append(Site(kind, node, message, function=self.function_name, line=line, **facts))
        return len(self.sites)

    def record_failure(self, emitter: FunctionEmitter, site: int, values: list[str]) -> str:
        """Emit a record of the failure, and return the call's status."""
        self.text.globals.setdefault("error", GLOBALS["error"])
        self.text.helpers.setdefault("fail", helper("fail"))
        values = values[: ERROR_SLOTS - 1]
        slots = emitter.out.at_entry(f"alloca [{max(1, len(values))} x i64], align 8")
        for i, value in enumerate(values):
            place = emitter.out.op(f"getelementptr inbounds i64, ptr {slots}, i64 {i}")
            emitter.out.do(f"store i64 {value}, ptr {place}, align 8")
        return emitter.out.op(f"call i32 @tvm.fail(i64 {site}, ptr {slots}, i64 {len(values)})")

    def check_access(self, emitter: Any, node: Any, indices: tuple[ir.PrimExpr, ...], predicate: str | None) -> None:
        bounds.check_access(self, emitter, node, indices, predicate)

    def check_index(self, emitter: Any, call: ir.Call) -> str:
        value = emitter.visit(call.args[0])
        if self.check_bounds:
            bounds.check_index(self, emitter, call, value)
        return value

    def check_pointer(self, emitter: Any, call: ir.Call) -> None:
        if self.check_bounds:
            bounds.check_pointer(self, emitter, call)

    def on_zero_division(self, emitter: ExpressionEmitter, node: Any, by_zero: str) -> None:
        if self.check_bounds and isinstance(emitter, FunctionEmitter):
            bounds.check_divisor(self, emitter, node, by_zero)

    def poll(self, emitter: FunctionEmitter) -> None:
        """Leave the function where the user asked to stop."""
        if self.family.has_threads and not emitter.void:
            emitter.leave_if(emitter.out.op(f"call i32 {self.helper('poll')}(i32 {emitter.worker})"))

    # ------------------------------------------------------------------ memory and threads

    def allocated(self, emitter: FunctionEmitter, stmt: ir.Allocate, count: int | None) -> None:
        shape = (ir.IntImm("int64", count),) if count is not None else stmt.extents
        self.sizes[stmt.buffer_var] = (shape, stmt.dtype)

    def allocate(self, emitter: FunctionEmitter, size: str) -> str:
        pointer = emitter.out.op(f"call noalias align 64 ptr {self.helper('alloc')}(i64 {size})")
        there = emitter.out.op(f"icmp ne ptr {pointer}, null")
        emitter.fail_unless(there, self.site("memory", None), [size])
        return pointer

    def free(self, emitter: FunctionEmitter, pointer: str) -> None:
        emitter.out.do(f"call void {self.helper('free')}(ptr {pointer})")

    def launch(self, emitter: FunctionEmitter, name: str, closure: str, extent: str) -> str:
        return emitter.out.op(f"call i32 {self.helper('launch')}(ptr @{name}, ptr {closure}, i64 {extent})")

    # ------------------------------------------------------------------ calls between functions

    def call_function(self, emitter: Any, call: ir.Call) -> str:
        """A call of another function of the module."""
        abi = self.abis.get(call.op)  # type: ignore[arg-type]
        if abi is None:
            abi = next((a for v, a in self.abis.items() if v.name_hint == call.op.name_hint), None)  # type: ignore[union-attr]
        if abi is None:
            name = call.op.name_hint  # type: ignore[union-attr]
            raise BuildError(f"the module has no function `{name}`", node=call, code="codegen.unknown_function")
        if abi.sizes:
            raise BuildError(
                f"`{abi.name}` reads sizes from its buffers and so cannot be called from compiled code",
                code="codegen.function_reads_sizes",
            )
        if len(call.args) != len(abi.params):
            raise BuildError(
                f"`{abi.name}` takes {len(abi.params)} arguments, not {len(call.args)}",
                node=call,
                code="codegen.wrong_argument_count",
            )
        values = []
        for param, arg in zip(abi.params, call.args):
            value = emitter.visit(arg)
            values.append(f"{machine_type(param.dtype)} {to_machine(emitter, value, param.dtype)}")
        if abi.result is not None:
            slot = emitter.out.at_entry(f"alloca {memory_type(abi.result)}, align 8")
            values.append(f"ptr {slot}")
        status = emitter.out.op(f"call i32 @{quoted(abi.symbol)}({', '.join(values)})")
        emitter.leave_if(status)
        if abi.result is None:
            return "0"
        return emitter.from_memory(emitter.out.op(f"load {memory_type(abi.result)}, ptr {slot}"), abi.result)

    def returned(self, emitter: FunctionEmitter, call: ir.Call) -> None:
        """`T.ret(value)`."""
        dtype = call.args[0].dtype
        value = emitter.visit(call.args[0])
        if "%result" in emitter.out.head:
            emitter.out.do(f"store {memory_type(dtype)} {emitter.to_memory(value, dtype)}, ptr %result")
        emitter.leave("0")


def to_machine(emitter: Any, value: str, dtype: ir.DataType) -> str:
    """A scalar as it is passed to a function."""
    if dtype.is_bool:
        return emitter.out.op(f"zext i1 {value} to i8")
    if dtype.is_float and dtype.bits == 16:
        return emitter.out.op(f"bitcast {llvm_type(dtype)} {value} to i16")
    return value


def from_machine(emitter: Any, value: str, dtype: ir.DataType) -> str:
    """A scalar parameter as it is in a register."""
    if dtype.is_bool:
        return emitter.out.at_entry(f"icmp ne i8 {value}, 0")
    if dtype.is_float and dtype.bits == 16:
        return emitter.out.at_entry(f"bitcast i16 {value} to {llvm_type(dtype)}")
    return value


def quoted(name: str) -> str:
    """A symbol's name as LLVM's text writes it."""
    plain = name.replace("_", "").replace(".", "").isalnum() and name.isascii() and not name[0].isdigit()
    return name if plain else f'"{name}"'


def refuse_scalable(stmt: ir.Stmt, target: Target) -> None:
    """Refuse scalable vectors: a target without them ends the process when LLVM meets them."""

    def look(node: ir.Node) -> bool:
        if isinstance(node, ir.PrimExpr) and (node.dtype.is_scalable or is_vscale(node)):
            raise BuildError(
                f"there is no machine code for scalable vectors and `vscale` for `{target}`",
                node=node,
                hint="name a processor that has them, such as `llvm -mtriple=aarch64-linux-gnu -mattr=+sve`",
                code="codegen.no_scalable_vectors",
            )
        return True

    ir.pre_order_visit(stmt, look)


def check_vector_length(context: ModuleContext, emitter: FunctionEmitter) -> None:
    """Stop a function whose code is for longer scalable vectors than the processor has: its results would be wrong."""
    least = context.target.sve_bits // 128
    if least > 1:
        context.text.helpers.setdefault("vscale", helper("vscale"))
        found = emitter.out.op("call i64 @tvm.vscale()")
        enough = emitter.out.op(f"icmp uge i64 {found}, {least}")
        emitter.fail_unless(enough, context.site("vectors", None, str(128 * least)), [found])


def note_fixed_vectors(context: ModuleContext) -> None:
    """Say that vectors of a fixed number of lanes use no scalable registers, if the module has such vectors."""
    wide = [
        int(n) for text in context.text.functions for n in re.findall(r"<(\d+) x (?:float|double|half|i\d+)>", text)
    ]
    if context.target.sve_bits == 128 and wide:
        lanes = max(wide)
        note(
            "vectors",
            f"vectors of {lanes} lanes become NEON registers of 128 bits: code with a fixed number of lanes is right at "
            "every length of scalable vectors only so. `-vector-width=256` takes longer ones for granted, and stops "
            "with an error if there are none; `T.vscale()` lanes, and loops that are not vectorized, use any length",
        )


def emit_function(context: ModuleContext, abi: ABI, func: ir.PrimFunc) -> None:
    """Add the code of `func` to the module."""
    if not context.target.has_sve:
        refuse_scalable(func.body, context.target)
    context.function_name = abi.name
    body = func.body
    context.work = work_of(body)
    context.is_split = is_split(body, len(context.work.bodies))
    heads, loads = [], []
    alias = "noalias " if abi.noalias else ""
    for i, param in enumerate(abi.params):
        kind = machine_type(param.dtype)
        if param.buffer is not None:
            align = param.buffer.dtype.element_of.bytes
            heads.append(f"ptr {alias}nocapture align {align} %p{i}")
        else:
            heads.append(f"{kind} %p{i}")
        loads.append((param.var, f"%p{i}", param))
    for i, var in enumerate(abi.sizes):
        heads.append(f"{machine_type(var.dtype)} %s{i}")
    if abi.result is not None:
        heads.append("ptr %result")
    kernel = context.family.launches
    head = f"define {'ptx_kernel void' if kernel else 'i32'} @{quoted(abi.symbol)}({', '.join(heads)})"
    text = FunctionText(context.text, f"{head} {context.attributes()}{context.subprogram(func, abi.name)}")
    emitter = FunctionEmitter(context, text)
    emitter.void = kernel
    context.at(emitter, func)
    for var, name, param in loads:
        if param.buffer is not None:
            emitter.values[var] = emitter.values[param.buffer.data] = name
            emitter.scopes.add(param.buffer.data, None if abi.noalias else "parameters")
            context.sizes[param.buffer.data] = param.buffer
        else:
            emitter.values[var] = from_machine(emitter, name, param.dtype)
    for i, var in enumerate(abi.sizes):
        emitter.values[var] = f"%s{i}"
        emitter.index_values.add(f"%s{i}")
        emitter.intervals.known[var] = (0, largest_integer(var.dtype))
    check_vector_length(context, emitter)
    if not emitter.void:
        check_loop_counts(emitter)
    emitter.statement(body)
    emitter.leave("0")
    emitter.scopes.finish()
    context.text.functions.append(text.text())


def emit_module(
    mod: ir.IRModule, target: Target, check_bounds: bool = False, lines: Any = None, debug: bool = False
) -> ModuleContext:
    """The LLVM text of `mod` for `target`, not yet optimized, with its failure sites.

    `lines` knows the line of each node in the program's text; with `debug` each instruction gets it.
    """
    from tvmagic.target import layout_of

    require_llvm()
    triple, layout = layout_of(target)
    context = ModuleContext(ModuleText(triple, layout), target, check_bounds, lines, debug)
    for var, func in mod.functions.items():
        context.abis[var] = abi_of(str(func.attrs.get("global_symbol", var.name_hint)), func)
    for var, func in sorted(mod.functions.items(), key=lambda item: context.abis[item[0]].name):
        emit_function(context, context.abis[var], func)
    note_fixed_vectors(context)
    return context
