"""Functions and modules."""

from __future__ import annotations

import enum
import weakref
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from tvmagic.errors import TVMagicError, WrongValueError
from tvmagic.ir.buffer import Buffer
from tvmagic.ir.deep_recursion import check_written_size
from tvmagic.ir.derive import node
from tvmagic.ir.expr import GlobalVar, PointerType, PrimType, TupleType, Type, Var, attr_dict, attr_value, convert
from tvmagic.ir.global_info import global_infos_of
from tvmagic.ir.hooks import provided
from tvmagic.ir.node import Node, Span
from tvmagic.ir.prim_expr import MAPPINGS
from tvmagic.ir.stmt import Block, BlockRealize, Stmt
from tvmagic.ir.views import viewed

# the names of the Python functions and classes from which functions and modules were read
_python_names: weakref.WeakKeyDictionary[Node, str] = weakref.WeakKeyDictionary()


def name_as_python(node: Any, name: str) -> None:
    """Let `node.__name__` be `name`, that of the Python function or class from which a function or module was read."""
    _python_names[node] = name


def _python_name(node: Any) -> str:
    """The name of the Python function or class from which it was read; else its `global_symbol`."""
    name = _python_names.get(node) or node.attrs.get("global_symbol")
    if name is None:
        raise AttributeError(f"this {type(node).__name__} has no name")
    return str(name)


class CallingConv(enum.IntEnum):
    """How a function is called: the attribute `calling_conv`."""

    DEFAULT = 0
    C_PACKED_FUNC = 1
    DEVICE_KERNEL_LAUNCH = 2


@viewed("program")
@node
class PrimFunc(Node):
    """A function on scalars and buffers.

    `params` are variables; `buffer_map` gives for a pointer parameter the buffer that it holds;
    `attrs` are facts by name, such as `global_symbol` and `tir.noalias`.
    """

    params: tuple[Var, ...]
    buffer_map: dict[Var, Buffer]
    ret_type: Type
    attrs: dict[str, Any]
    body: Stmt

    def __init__(
        self,
        params: Sequence[Any],
        body: Stmt,
        ret_type: Type | None = None,
        buffer_map: Mapping[Var, Buffer] | None = None,
        attrs: Mapping[str, Any] | None = None,
        span: Span | None = None,
    ) -> None:
        buffers = dict(buffer_map or {})
        names: list[Var] = []
        for param in params:
            param = convert(param)
            if isinstance(param, Buffer):
                handle = Var(param.name + "_handle", "handle")
                buffers[handle] = param
                param = handle
            names.append(param)
        self.params, self.body, self.buffer_map = tuple(names), body, buffers
        self.ret_type = ret_type if ret_type is not None else TupleType()
        self.attrs, self.span = attr_dict(attrs), span
        check_written_size(body, "the function")

    def with_attr(self, key: Any, value: Any = None) -> PrimFunc:
        """The function with one attribute set, or several given as a mapping."""
        changes = key if isinstance(key, MAPPINGS) else {key: value}
        return self.replace(attrs={**self.attrs, **{k: attr_value(v) for k, v in changes.items()}})

    def without_attr(self, key: str) -> PrimFunc:
        """The function without one attribute."""
        return self.replace(attrs={k: v for k, v in self.attrs.items() if k != key})

    def with_body(self, body: Stmt, span: Span | None = None) -> PrimFunc:
        """The function with another body."""
        return self.with_(body=body)

    __name__ = property(_python_name)

    @property
    def root_block(self) -> Block | None:
        """The block that a TensorIR function's body is."""
        return self.body.block if isinstance(self.body, BlockRealize) else None

    if TYPE_CHECKING:  # `specialize` attaches it

        def specialize(self, param_map: Mapping[Var, Any]) -> PrimFunc: ...


@viewed("program")
@node
class IRModule(Node):
    """Functions by their names.

    `module["main"]` is the function of that name; iterating gives the names in order.
    """

    functions: dict[GlobalVar, PrimFunc]
    attrs: dict[str, Any]
    global_infos: dict[str, Any]

    def __init__(
        self,
        functions: Mapping[Any, PrimFunc] | None = None,
        attrs: Mapping[str, Any] | None = None,
        global_infos: Mapping[str, Any] | None = None,
    ) -> None:
        self.functions = {}
        for name, function in (functions or {}).items():
            var = GlobalVar(name) if isinstance(name, str) else name
            var.returns(function.ret_type)
            self.functions[var] = function
        self.attrs, self.global_infos, self.span = attr_dict(attrs), global_infos_of(global_infos), None

    __name__ = property(_python_name)

    @staticmethod
    def from_expr(func: PrimFunc) -> IRModule:
        """The module of one function, under its `global_symbol` or `main`."""
        name = func.attrs.get("global_symbol", "main")
        return IRModule({str(name): func})

    def get_global_var(self, name: object) -> GlobalVar:
        """The variable of the function called `name`; raises TVMagicError if there is none."""
        for var in self.functions:
            if isinstance(name, str) and var.name_hint == name:
                return var
        known = ", ".join(f"`{v.name_hint}`" for v in self.functions) or "none"
        raise TVMagicError(
            f"the module has no function `{name}`", hint=f"its functions are {known}", code="module.unknown_function"
        )

    def get_global_vars(self) -> list[GlobalVar]:
        """The variables of all functions."""
        return list(self.functions)

    def __getitem__(self, name: Any) -> PrimFunc:
        return self.functions[name if isinstance(name, GlobalVar) else self.get_global_var(name)]

    def __contains__(self, name: object) -> bool:
        if isinstance(name, GlobalVar):
            return name in self.functions
        return any(v.name_hint == name for v in self.functions)

    def __len__(self) -> int:
        return len(self.functions)

    def __iter__(self) -> Any:
        return iter(self.functions)

    def functions_items(self) -> list[tuple[GlobalVar, PrimFunc]]:
        """The functions with their variables, by name."""
        return sorted(self.functions.items(), key=lambda item: item[0].name_hint)

    def with_functions(self, functions: Mapping[GlobalVar, PrimFunc]) -> IRModule:
        """The module with some functions replaced or added; itself if none differs."""
        if all(self.functions.get(var) is function for var, function in functions.items()):
            return self
        return self.replace(functions={**self.functions, **functions})

    def map_functions(self, change: Callable[[PrimFunc], PrimFunc]) -> IRModule:
        """The module with `change` applied to each function."""
        return self.with_functions({var: change(function) for var, function in self.functions.items()})

    def update_func(self, var: Any, func: PrimFunc) -> None:
        """Put `func` in the place of `var`'s function, in this module (TVM's name)."""
        self.functions[var if isinstance(var, GlobalVar) else self.get_global_var(var)] = func

    def __setitem__(self, var: Any, func: PrimFunc) -> None:
        if isinstance(var, str):
            var = self.get_global_var(var) if var in self else GlobalVar(var)
        self.functions[var] = func

    def with_attr(self, key: str, value: Any) -> IRModule:
        """The module with one attribute set."""
        return self.replace(attrs={**self.attrs, key: attr_value(value)})

    def with_attrs(self, attr_map: Mapping[str, Any]) -> IRModule:
        """The module with several attributes set."""
        return self.replace(attrs={**self.attrs, **{key: attr_value(value) for key, value in attr_map.items()}})

    def without_attr(self, attr_key: str) -> IRModule:
        """The module without an attribute."""
        return self.replace(attrs={key: value for key, value in self.attrs.items() if key != attr_key})

    def get_attr(self, attr_key: str) -> Any:
        """The value of an attribute; None if there is none."""
        return self.attrs.get(attr_key)

    def update(self, other: IRModule | Mapping[Any, PrimFunc]) -> None:
        """Take the functions of another module into this one; those of the same name are replaced (TVM's name)."""
        functions = other.functions if isinstance(other, IRModule) else other
        for var, func in functions.items():
            self[var.name_hint if isinstance(var, GlobalVar) else var] = func

    def update_global_info(self, name: str, global_info: Any) -> None:
        """Set the list of global infos called `name`, in this module (TVM's name)."""
        self.global_infos = {**self.global_infos, **global_infos_of({name: global_info})}

    if TYPE_CHECKING:  # `global_vars` attaches it

        def replace_global_vars(self, replacements: Mapping[Any, Any]) -> IRModule: ...

    def clone(self) -> IRModule:
        """A module of its own with the same functions."""
        return self.replace(functions=dict(self.functions))


@node
class TensorIntrin(Node):
    """An instruction of the machine: what it computes (`desc`) and how it is called (`impl`)."""

    desc: PrimFunc
    impl: PrimFunc
    _registry: ClassVar[dict[str, TensorIntrin]] = {}

    @staticmethod
    def register(name: str, desc: PrimFunc, impl: PrimFunc, override: bool = False) -> TensorIntrin:
        """Make the intrinsic known as `name`."""
        if name in TensorIntrin._registry and not override:
            raise TVMagicError(
                f"the intrinsic `{name}` is registered already",
                hint="pass override=True",
                code="tensor_intrin.registered_twice",
            )
        intrin = TensorIntrin._registry[name] = TensorIntrin(desc, impl)
        return intrin

    @staticmethod
    def get(name: str, allow_missing: bool = False) -> TensorIntrin | None:
        """The intrinsic known as `name`."""
        if name not in TensorIntrin._registry:
            others = provided("tensor intrinsics")  # those of CPUs are registered when they are loaded
            if name not in TensorIntrin._registry:
                others()
        found = TensorIntrin._registry.get(name)
        if found is None and not allow_missing:
            raise WrongValueError(f"there is no intrinsic `{name}`: it is not registered", code="tensor_intrin.unknown")
        return found


def pointer_var(name: str, dtype: Any, scope: str = "global") -> Var:
    """A pointer variable to elements of `dtype`."""
    return Var(name, PointerType(PrimType(dtype), scope))
