"""Asks OSACA how long a loop's body takes. Run as a process of its own: the assembly is its input, JSON its output.

    python osaca_process.py ICX <body.s

The output has `cycles` of one run of the body (the busiest port, or the longest chain from one run into the next) and
`ports`: for each line its busiest port with the cycles, or null.
"""

from __future__ import annotations

import json
import sys
from typing import Any


def counted(arch: str, body: str) -> dict[str, Any]:
    """What OSACA says of a loop's body on the processor `arch`. Raises what OSACA raises."""
    from osaca.osaca import get_asm_parser
    from osaca.semantics import ArchSemantics, KernelDG, MachineModel

    machine = MachineModel(arch=arch)
    parser = get_asm_parser(arch, "ATT" if machine.get_ISA() == "x86" else None)
    kernel = parser.parse_file(body)
    semantics = ArchSemantics(parser, machine)
    semantics.normalize_instruction_forms(kernel)
    semantics.add_semantics(kernel)
    semantics.assign_optimal_throughput(kernel)
    names = machine.get_ports()
    chains = KernelDG(kernel, parser, machine, semantics, 10).get_loopcarried_dependencies()
    longest = max((float(chain["latency"]) for chain in chains.values()), default=0.0)
    busiest = max(map(float, semantics.get_throughput_sum(kernel)), default=0.0)
    ports: dict[int, tuple[str, float] | None] = {}
    for instruction in kernel:
        pressure = dict(zip(names, map(float, instruction.port_pressure)))
        port = max(pressure, key=lambda name: pressure[name], default="")
        ports[instruction.line_number] = (port, pressure[port]) if port and pressure[port] else None
    lines = range(1, len(body.splitlines()) + 1)
    return {"cycles": max(busiest, longest), "ports": [ports.get(line) for line in lines]}


if __name__ == "__main__":
    print(json.dumps(counted(sys.argv[1], sys.stdin.read())))
