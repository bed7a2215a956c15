"""Tensors, operations and schedules as JSON: what `ir.save_json` writes of them, and how they are made again.

An operation is written as the arguments of its constructor. A tensor is an output of its operation, and the stages of a
schedule name each other by their places.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tvmagic.ir import DataType, IterVar
from tvmagic.ir.json import register_record
from tvmagic.te.intrinsic import TensorIntrin
from tvmagic.te.schedule.relations import Fuse, IterVarRelation, Rebase, Singleton, Split, Transform
from tvmagic.te.schedule.schedule import Schedule
from tvmagic.te.schedule.stage import AttachType, IterVarAttr, Stage
from tvmagic.te.tensor import (
    ComputeOp,
    ConstantOp,
    ExternOp,
    Operation,
    PlaceholderOp,
    ScanOp,
    Tensor,
    TensorComputeOp,
)

# Each operation's parameters; those whose argument is an attribute of another name as `parameter=attribute`.
_PARAMETERS: dict[type[Operation], str] = {
    PlaceholderOp: "name shape dtype",
    ComputeOp: "name tag attrs axis body",
    TensorComputeOp: "name tag axis reduce_axis schedulable_ndim intrin tensors=inputs regions=input_regions scalar_inputs",
    ScanOp: "name tag attrs axis=scan_axis init update state_placeholder inputs spatial_axis=spatial_axis_",
    ExternOp: "name tag attrs inputs input_placeholders output_placeholders body",
}
_INTRINSIC = "name op inputs buffers scalar_params body reduce_init reduce_update".split()
_RELATIONS = (Split, Fuse, Rebase, Singleton, Transform)
_STAGE = """op origin_op all_iter_vars leaf_iter_vars relations thread_env store_predicate attach_ivar scope is_output
is_double_buffered is_rolling num_child_stages layout_transforms axis_separators""".split()
_STAGE_LISTS = "all_iter_vars leaf_iter_vars relations thread_env layout_transforms axis_separators".split()


def register_records() -> None:
    """Let `save_json` and `load_json` know everything of te."""
    register_record("te.Tensor", Tensor, _tensor_parts, lambda parts: parts["op"].output(parts["value_index"]))
    for cls, parameters in _PARAMETERS.items():
        pairs = [word.partition("=") for word in parameters.split()]
        attributes = {parameter: attribute or parameter for parameter, _, attribute in pairs}
        register_record(f"te.{cls.__name__}", cls, _reads(attributes), _builds(cls))
    register_record("te.ConstantOp", ConstantOp, _constant_parts, _constant)
    register_record("te.TensorIntrin", TensorIntrin, _reads({n: n for n in _INTRINSIC}), _builds(TensorIntrin))
    register_record("te.IterVarAttr", IterVarAttr, _reads({n: n for n in IterVarAttr.__slots__}), _iter_var_attr)
    for relation in _RELATIONS:
        names = {n: n for n in relation.__slots__}
        register_record(f"te.{relation.__name__}", relation, _reads(names), _relation_builder(relation))
    register_record("te.Schedule", Schedule, _schedule_parts, _schedule)


def _tensor_parts(tensor: Tensor) -> dict[str, Any]:
    return {"op": tensor.op, "value_index": tensor.value_index}


def _constant_parts(op: ConstantOp) -> dict[str, Any]:
    return {"name": op.name, "array": op.array, "buffer": op.output_placeholders[0], "body": op.body}


def _constant(parts: dict[str, Any]) -> ConstantOp:
    return ConstantOp(parts["name"], parts["array"].numpy(), parts["buffer"], parts["body"])


def _reads(parameters: dict[str, str]) -> Callable[[Any], dict[str, Any]]:
    return lambda value: {parameter: getattr(value, name) for parameter, name in parameters.items()}


def _builds(cls: Callable[..., Any]) -> Callable[[dict[str, Any]], Any]:
    def build(parts: dict[str, Any]) -> Any:
        if "dtype" in parts:
            parts["dtype"] = DataType(parts["dtype"])
        return cls(**parts)

    return build


def _relation_builder(cls: type[IterVarRelation]) -> Callable[[dict[str, Any]], IterVarRelation]:
    def build(parts: dict[str, Any]) -> IterVarRelation:
        relation = cls.__new__(cls)
        for name in cls.__slots__:
            setattr(relation, name, parts[name])
        return relation

    return build


def _iter_var_attr(parts: dict[str, Any]) -> IterVarAttr:
    attr = IterVarAttr()
    for name in IterVarAttr.__slots__:
        value = parts[name]
        setattr(attr, name, list(value) if isinstance(getattr(attr, name), list) else value)
    return attr


# ---------------------------------------------------------------------------- schedules


def _schedule_parts(schedule: Schedule) -> dict[str, Any]:
    places = {stage: i for i, stage in enumerate([*schedule.stages, *schedule.groups])}
    return {
        "outputs": schedule.outputs,
        "stages": [_stage_parts(stage, places) for stage in schedule.stages],
        "groups": [_stage_parts(stage, places) for stage in schedule.groups],
        "stage_map": [[op, places[stage]] for op, stage in schedule.stage_map.items()],
    }


def _stage_parts(stage: Stage, places: dict[Stage, int]) -> dict[str, Any]:
    parts = {name: getattr(stage, name) for name in _STAGE}
    parts["iter_var_attrs"] = dict(stage.iter_var_attrs)
    parts["attach_type"] = int(stage.attach_type)
    parts["attach_stage"] = None if stage.attach_stage is None else places[stage.attach_stage]
    parts["group"] = None if stage.group is None else places[stage.group]
    return parts


def _schedule(parts: dict[str, Any]) -> Schedule:
    new = Schedule.__new__(Schedule)
    new.keep_record, new.schedule_record, new.primitive_record = False, [], []
    new.outputs = list(parts["outputs"])
    new.stages = [_stage(p, new) for p in parts["stages"]]
    new.groups = [_stage(p, new) for p in parts["groups"]]
    everything = [*new.stages, *new.groups]
    for stage, saved in zip(everything, [*parts["stages"], *parts["groups"]]):
        stage.attach_stage = None if saved["attach_stage"] is None else everything[saved["attach_stage"]]
        stage.group = None if saved["group"] is None else everything[saved["group"]]
    new.stage_map = {op: everything[place] for op, place in parts["stage_map"]}
    return new


def _stage(parts: dict[str, Any], schedule: Schedule) -> Stage:
    stage = Stage(None, schedule)
    for name in _STAGE:
        setattr(stage, name, list(parts[name]) if name in _STAGE_LISTS else parts[name])
    stage.iter_var_attrs = dict(parts["iter_var_attrs"])
    if not all(isinstance(iv, IterVar) for iv in stage.iter_var_attrs):
        raise TypeError("iteration variables")
    stage.attach_type = AttachType(parts["attach_type"])
    return stage
