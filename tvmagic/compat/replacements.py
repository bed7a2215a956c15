"""What to write instead of names that TVM has, or had in older versions, and that are not here.

It is loaded when somebody asks for such a name: the message then ends with what it is called, or how to do without it.
"""

from __future__ import annotations

from tvmagic.compat.gone import GONE

# Before TVM 0.7 these were names of `tvm` itself.
_TE = """
    placeholder compute create_schedule reduce_axis thread_axis sum max min prod scan extern comm_reducer
    decl_tensor_intrin tag_scope gradient size_var var hybrid
"""
_TIR = """
    const all any if_then_else decl_buffer call_extern call_packed call_intrin call_pure_extern ir_builder stmt expr
    exp erf log sqrt rsqrt tanh sigmoid sin cos power floor ceil round trunc popcount
    floordiv floormod truncdiv truncmod indexdiv indexmod div min_value max_value isnan
"""
TOP_LEVEL: dict[str, str] = {
    **{name: f"te.{name}" for name in _TE.split()},
    **{name: f"tir.{name}" for name in _TIR.split()},
    "convert": "runtime.convert",
    "context": "device",
    "module": "runtime.load_module",
    "select": "tir.Select",
    "call_pure_intrin": "tir.call_intrin",
    "build_config": "transform.PassContext",
    "BuildConfig": "transform.PassContext",
    "ir_pass": "tir.transform",
    "schedule": "te.create_schedule",
    "tensor": "te.tensor",
    "make": "tir",
    "parser": "script.from_source",
    "compile": "build",
}
_OF_TE = {
    "HybridOp": "`te.hybrid.script` makes an operation of `te.extern`",
    "SpecializedCondition": "`te.compute` with `te.if_then_else` states the condition",
}
_OF_RUNTIME = {
    "system_lib": "`build` gives the module, `export_library` and `load_module` keep it in a file",
    "load_static_library": "`load_module` reads what `export_library` wrote",
    "Report": "`time_evaluator` measures a function, `%bench` an operator",
    "Executable": "`build` gives a module that is called as it is",
    "vm": "networks of operators are not here; call the functions of a module one after the other",
    "executor": "networks of operators are not here; call the functions of a module one after the other",
    "disco": "code runs on this machine alone",
}
_SCHEDULES = "the schedules of `topi` are not here: write one, or let `auto.auto` make it"
_TOPI = {
    "layout_transform": "`tir.layout` and `tir.bijective_layout` map indices, `te.compute` moves the elements",
    "fast_exp": "`topi.exp`",
    "fast_tanh": "`topi.tanh`",
    "fast_erf": "`topi.erf`",
    "div": "`topi.divide`",
    "floordiv": "`topi.floor_divide`",
    "floormod": "`topi.floor_mod`",
    "einsum": "`te.compute` with a sum over each index that the result lacks",
    "cumsum": "`te.scan`, or `cumsum(X[i, k], over=k)` in a cell",
    "cumprod": "`te.scan`, or `cumprod(X[i, k], over=k)` in a cell",
    "reinterpret": "`te.compute` with `tir.reinterpret`",
    "shape": "the `shape` of the tensor",
    "ndarray_size": "the product of the tensor's `shape`",
    "meshgrid": "`topi.broadcast_to`",
    "unravel_index": "`//` and `%` on the index",
    "adv_index": "`topi.gather_nd`",
    "sequence_mask": "`topi.where`",
    **dict.fromkeys(
        """argsort sort topk unique searchsorted argwhere scatter scatter_elements scatter_nd sparse_to_dense dft stft
        reverse_sequence invert_permutation matrix_set_diag strided_set sliding_window""".split(),
        "write it as a `@T.prim_func` function, or compute it in NumPy",
    ),
}
_TOPI_NN = {
    "conv1d_ncw": "`topi.nn.conv1d` with the layout `NCW`",
    "conv1d_nwc": "`topi.nn.conv1d` with the layout `NWC`",
    "conv3d_ncdhw": "`topi.nn.conv3d` with the layout `NCDHW`",
    "conv3d_ndhwc": "`topi.nn.conv3d` with the layout `NDHWC`",
    "conv2d_NCHWc": "`topi.nn.conv2d` computes it in the layout `NCHW`; `te.compute` packs channels into blocks",
    "softmax_common": "`topi.nn.softmax`",
    "fast_softmax": "`topi.nn.softmax`",
    "mirror_pad": "`te.compute` with an index that is turned round at the edges",
    "upsampling": "`te.compute` with `X[n, c, i // 2, j // 2]`",
    **dict.fromkeys(
        """group_norm instance_norm rms_norm local_response_norm lrn lstm depth_to_space space_to_depth
        batch_to_space_nd space_to_batch_nd nll_loss scale_shift_nchw scale_shift_nhwc sparse_dense correlation_nchw
        conv2d_winograd_nchw conv2d_winograd_nhwc bitserial_conv2d_nchw binary_dense fifo_buffer""".split(),
        "write it with `te.compute`, or in a cell",
    ),
}
OF_MODULE: dict[str, dict[str, str]] = {
    "tvmagic.te": _OF_TE,
    "tvmagic.runtime": _OF_RUNTIME,
    "tvmagic.topi": _TOPI,
    "tvmagic.topi.nn": _TOPI_NN,
    **GONE,
}


def instead(module: str, name: str) -> str:
    """How a message ends that says that `module` has no such name; empty if nothing is known of it."""
    if module == "tvmagic":
        return f": it is `{TOP_LEVEL[name]}`" if name in TOP_LEVEL else ""
    if module.startswith("tvmagic.topi") and name.startswith("schedule_"):
        return f": {_SCHEDULES}"
    known = OF_MODULE.get(module, {})
    return f": {known[name]}" if name in known else ""
