"""Parts of TVM that are not here: imported by name, refused when something of them is used.

A file written for TVM often imports such a part for one function of many. The others run; what uses the part ends in
one sentence that says what is missing.
"""

from __future__ import annotations

import re
from importlib.machinery import ModuleSpec
from types import ModuleType

TYPE_CHECKING = False
if TYPE_CHECKING:  # `import tvmagic` loads none of these: they take longer than all of it
    from typing import Any, NoReturn

_TUNING = "{} searches for schedules in TVM; here `tvmagic.tune` does"
_GRAPHS = "{} describes networks as graphs of operators; here operators are written with `te`, `topi` or TVMScript"
_REMOTE = "{} runs code on other machines; here code runs on this one, or in an emulator of another"
_PYTHON = "{} is a tool of Python in TVM; Python's own libraries do the same"
_LIBRARY = "{} needs a library or a device that is not used here"
_SCHEDULES = "{} has schedules of operators; here they are written, or made by `tvmagic.auto.auto`"
_OPERATORS = "{} has operators that are not here; write them with `te.compute` or as a `@T.prim_func` function"
_ARRAYS = "{} is not needed: arrays have `__dlpack__`, and compiled functions take whatever has it"
_TIMES = "{} measures networks; here `time_evaluator` of a module and `%bench` measure functions"
_DOCUMENTS = "{} built Python documents for other printers; `str(node)` and `node.script()` print programs"
_SOLVERS = "{} solved linear equations and inequalities; here `arith.detect_iter_map` and `arith.deduce_bound` serve"
_PICTURES = "{} draws TE schedules by Graphviz; here `%graph NAME` draws them"
_NETWORK_CODE = "{} has code generators for whole networks; here `tvmagic.build` compiles functions"
_NEWER = "{} is a name of TVM after 0.19; here TensorIR is `tvmagic.tir`, as in TVM 0.19"
_PLACES_OF_MEMORY = "{} plans the memory of a whole network; here each function allocates its own"

ABSENT: dict[str, str] = {
    **dict.fromkeys(
        ("relay", "relax", "script.relax", "script.parser.relax", "script.ir_builder.relax", "contrib.graph_executor",
         "contrib.graph_runtime"), _GRAPHS
    ),
    **dict.fromkeys(("meta_schedule", "auto_scheduler", "autotvm", "dlight"), _TUNING),
    **dict.fromkeys(("contrib.pickle_memoize", "contrib.popen_pool"), _PYTHON),
    **dict.fromkeys(("rpc", "micro", "exec", "contrib.ndk", "contrib.xcode", "contrib.rpc", "contrib.tvmjs"), _REMOTE),
    **dict.fromkeys(
        tuple(
            f"topi.{name}"
            for name in "generic x86 cuda gpu arm_cpu mali bifrost adreno rocm hexagon hls intel_graphics".split()
        ),
        _SCHEDULES,
    ),
    **dict.fromkeys(tuple(f"topi.{name}" for name in ("image", "vision", "sparse", "random")), _OPERATORS),
    **dict.fromkeys(("contrib.dlpack", "contrib.torch"), _ARRAYS),
    **dict.fromkeys(("s_tir.meta_schedule", "s_tir.dlight"), _TUNING),
    **dict.fromkeys(("s_tir", "tirx"), _NEWER),
    "backend": _NETWORK_CODE,
    "contrib.tedd": _PICTURES,
    "arith.int_solver": _SOLVERS,
    **dict.fromkeys(("script.printer.doc", "script.printer.doc_printer"), _DOCUMENTS),
    "runtime.profiling": _TIMES,
    **dict.fromkeys(("tir.usmp", "ir.memory_pools"), _PLACES_OF_MEMORY),
    **dict.fromkeys(
        tuple(
            f"contrib.{name}"
            for name in "cublas cudnn dnnl emcc hexagon hipcc miopen mkl mps nnpack nvcc random rocblas rocm sdaccel sparse spirv thrust".split()
        ),
        _LIBRARY,
    ),
}  # fmt: skip


# Functions that register what they decorate, or make something else of it: with nothing to register, they return it.
_DECORATORS = re.compile(r"(register\w*|template|function_pass|module_pass)$")


class AbsentName:
    """A name of a part that is not here. It may be imported, stored, be a base class or decorate; other uses raise an error."""

    def __init__(self, name: str, reason: str) -> None:
        self._name, self._reason = name, reason

    def _refuse(self) -> NoReturn:
        from tvmagic.errors import TVMagicError

        part = next(absent for absent in ABSENT if f"{self._name}.".startswith(f"{absent}."))
        raise TVMagicError(
            f"`{self._name}` is not here", hint=self._reason.format(f"`{part}`"), code="compat.not_available"
        )

    def __getattr__(self, name: str) -> AbsentName:
        if name.startswith("_"):
            raise AttributeError(name)
        return AbsentName(f"{self._name}.{name}", self._reason)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if not _DECORATORS.search(self._name):
            self._refuse()
        return args[0] if len(args) == 1 and not kwargs and callable(args[0]) else lambda function: function

    def __getitem__(self, key: Any) -> Any:
        self._refuse()

    def __mro_entries__(self, bases: tuple[Any, ...]) -> tuple[type, ...]:
        def __init__(_: Any, *args: Any, **kwargs: Any) -> None:
            self._refuse()

        return (type(self._name.rpartition(".")[2], (), {"__init__": __init__}),)

    def __instancecheck__(self, instance: object) -> bool:
        return False  # no object here is one

    def __repr__(self) -> str:
        return f"<{self._name}, which is not here>"


class _Module(ModuleType):
    """A module of a part that is not here."""

    def __init__(self, name: str, reason: str) -> None:
        super().__init__(name, f"A part of TVM that is not here. {reason.format('It')}.")
        self.__dict__["_reason"] = reason
        self.__path__: list[str] = []

    def __getattr__(self, name: str) -> Any:
        if name == "__all__":
            return []
        if name.startswith("_"):
            raise AttributeError(f"module `{self.__name__}` has no name `{name}`")
        return AbsentName(f"{self.__name__.removeprefix('tvmagic.')}.{name}", self.__dict__["_reason"])


class _Loader:
    """Makes the modules of `ABSENT` and those inside them."""

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return _Module(spec.name, _reason(spec.name) or "")

    def exec_module(self, module: ModuleType) -> None:
        """There is nothing to run."""


def _reason(fullname: str) -> str | None:
    """Why a module is not here; None if it is none of these."""
    if not fullname.startswith("tvmagic."):
        return None
    name = fullname.removeprefix("tvmagic.")
    return next((reason for absent, reason in ABSENT.items() if f"{name}.".startswith(f"{absent}.")), None)


def spec_of(fullname: str) -> ModuleSpec | None:
    """The module of a part that is not here, for the finder in `tvmagic/__init__.py`; None if it is none of these."""
    return None if _reason(fullname) is None else ModuleSpec(fullname, _Loader())  # type: ignore[arg-type]
