"""The tiling data: what the host computes for the kernel, as a table and as its text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tvmagic.ascend.autoschedule import ScheduleResult
from tvmagic.ascend.graph import AscNode
from tvmagic.ascend.machine import AnyMachine, Npu
from tvmagic.ascend.npu import local_sizes
from tvmagic.ascend.sizes import Size
from tvmagic.ir import dtype_of


class TilingData(dict[str, int]):
    """The fields of the tiling data in their order, each a `uint32_t`.

    `block_dim`: cores in use; `corenum`, `hbm_size`: 0, as in the guide's table; `ub_size`: bytes of local memory;
    `workspaceN`: where workspace N begins; `tiling_key`: which ImplGraph; then the sizes of the inputs, the sizes that tiling
    chose, the bytes of queues (`q0_size`, of one of its buffers) and buffers (`b0_size`), and of all temporaries.
    """

    def text(self) -> str:
        """The definition with its numbers, as the kernel's code has it."""
        return _definition(f"const uint32_t {name} = {value};" for name, value in self.items())

    def fields(self) -> str:
        """The definition for sizes that are known later."""
        return _definition(f"TILING_DATA_FIELD_DEF_T(uint32_t, {name});" for name in self)

    __str__ = __repr__ = text


def _definition(lines: Any) -> str:
    inside = "".join(f"  {line}\n" for line in lines)
    return f"BEGIN_TILING_DATA_DEF_T(AutofuseTilingData)\n{inside}END_TILING_DATA_DEF_T;\n"


def tiling_data(
    result: ScheduleResult, choices: Sequence[Any], keys: Sequence[int], machine: AnyMachine, values: Mapping[str, int]
) -> TilingData:
    """The tiling data of the choice of one ImplGraph for each group of a result (`tiling.Choice`).

    With several groups the fields of group 0 begin with `graph0_`, and so on.
    """
    prefix = [f"graph{i}_" if len(choices) > 1 else "" for i in range(len(choices))]
    data = TilingData(block_dim=max(c.cost.cores for c in choices), corenum=0, ub_size=machine.local_memory, hbm_size=0)
    offset = 0
    for number, node in enumerate(_workspaces(result)):
        data[f"workspace{number}"] = offset
        offset += -(-node.y.elements.evaluate(values) * dtype_of(node.y.dtype).bytes // 32) * 32
    data |= {f"{prefix[i]}tiling_key": key for i, key in enumerate(keys)}
    data |= {name: Size.of(name).evaluate(values) for name, value in result.hint.sizes.items() if value is None}
    for lead, choice in zip(prefix, choices, strict=True):
        data |= {f"{lead}{name}": size for name, size in choice.sizes.items()}
    block = machine.block if isinstance(machine, Npu) else 32
    for lead, choice in zip(prefix, choices, strict=True):
        for name, (size, _) in local_sizes(choice.impl.graph, {**values, **choice.sizes}, block).items():
            data[f"{lead}{'tmp_tbuf' if name == 'tmp' else name}_size"] = size
    return data


def _workspaces(result: ScheduleResult) -> list[AscNode]:
    found: dict[str, AscNode] = {}
    for group in result.groups:
        for node in group.hint.of_type("Workspace"):
            found.setdefault(node.name, node)
    return list(found.values())
