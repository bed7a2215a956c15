"""What instructions do, and vector loops that are close to it but not the same."""

from schedule_refusal_programs import function


def _vector(store: str, axis: str = "T.axis.spatial(4, i)", extent: int = 4) -> str:
    """A loop over a vector that reads X and Z and stores to Y."""
    return (
        f'for i in range({extent}):\n    with T.block("Y"):\n        vi = {axis}\n'
        + "\n".join(f"        {line}" for line in store.split("\n"))
        + "\n"
    )


def _on_vectors(body: str, dtype: str = "int32") -> str:
    return function(body, f'X: T.Buffer((8,), "{dtype}"), Z: T.Buffer((8,), "{dtype}"), Y: T.Buffer((8,), "{dtype}")')


VECTORS: dict[str, str] = {
    "copy": _on_vectors(_vector("Y[vi] = X[vi]")),
    "copy_8": _on_vectors(_vector("Y[vi] = X[vi]", "T.axis.spatial(8, i)", extent=8)),
    "copy_float": _on_vectors(_vector("Y[vi] = X[vi]"), "float32"),
    "add_one": _on_vectors(_vector("Y[vi] = X[vi] + 1")),
    "add_other": _on_vectors(_vector("Y[vi] = X[vi] + Z[vi]")),
    "add_far": _on_vectors(_vector("Y[vi] = X[vi] + X[vi + 4]")),
    "reversed": _on_vectors(_vector("Y[vi] = X[3 - vi]")),
    "called": _on_vectors(_vector('Y[vi] = T.call_extern("int32", "twice", X[vi])')),
    "branch": _on_vectors(_vector("if X[vi] < 0:\n    Y[vi] = X[vi]")),
    "three_stores": _on_vectors(_vector("Y[vi] = X[vi]\nY[vi] = X[vi]\nY[vi] = X[vi]")),
    "accumulated": _on_vectors(_vector("Y[0] = Y[0] + X[vi]", "T.axis.reduce(4, i)")),
    "no_variable": _on_vectors('for i in range(4):\n    with T.block("Y"):\n        Y[0] = X[0]\n'),
    "numbered": _on_vectors(
        """
for j in range(2):
    for i in range(4):
        with T.block("Y"):
            vj, vi = T.axis.remap("SS", [j, i])
            Y[vi] = X[vi] + vj
"""
    ),
}

_PARTS = """
@T.prim_func(private=True)
def f(x: T.handle, y: T.handle):
    X = T.match_buffer(x, SHAPE, "int32", offset_factor=1)
    Y = T.match_buffer(y, SHAPE, "int32", offset_factor=1)
    with T.block("root"):
        T.reads(X[REGION])
        T.writes(Y[REGION])
"""


def _description(body: str, shape: str = "(4,)", region: str = "0:4") -> str:
    head = _PARTS.replace("SHAPE", shape).replace("REGION", region)
    return head + "\n".join(f"        {line}" for line in body.strip("\n").split("\n")) + "\n"


INTRINSICS: dict[str, str] = {
    "copy": _description(_vector("Y[vi] = X[vi]")),
    "add_two": _description(_vector("Y[vi] = X[vi] + 2")),
    "double": _description(_vector("Y[vi] = X[vi] + X[vi]")),
    "add_variable": _description(_vector("Y[vi] = X[vi] + vi")),
    "called_with_two": _description(_vector('Y[vi] = T.call_extern("int32", "twice", X[vi], X[vi])')),
    "either": _description(_vector("if X[vi] < 0:\n    Y[vi] = X[vi]\nelse:\n    Y[vi] = 0")),
    "two_stores": _description(_vector("Y[vi] = X[vi]\nY[vi] = X[vi]")),
    "sum": _description(
        _vector("with T.init():\n    Y[0] = 0\nY[0] = Y[0] + X[vi]", "T.axis.reduce(4, i)"),
    ),
    "copy_rows": _description(
        'for i in range(4):\n    with T.block("Y"):\n        vi = T.axis.spatial(4, i)\n        Y[0, vi] = X[0, vi]',
        "(1, 4)",
        "0, 0:4",
    ),
}
