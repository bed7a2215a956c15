"""What VectorizeLoop says of a loop: the variable that became a vector, the rules that fired, what was not proved."""

from __future__ import annotations

from typing import Any

from tvmagic.ir import BufferStore, For, IntImm, PrimExpr, Ramp
from tvmagic.passes import note


class Explanation:
    """The notes of one loop while its body is rewritten; `tell` gives them to the record, each once.

    What is said of a statement is taken back (`forget`) when it turns out to keep its scalar form.
    """

    def __init__(self, loop: For, lanes: Any) -> None:
        self.name, self.lanes = loop.loop_var.name, lanes
        self.said: list[tuple[str, str, Any, dict[str, Any]]] = []

    def forget(self, count: int) -> None:
        """Keep only the first `count` notes."""
        del self.said[count:]

    def rule(self, node: PrimExpr, became: PrimExpr, rule: str) -> None:
        self.said.append(("vectorize.rule", f"`{node}`", node, {"became": f"`{became}`", "rule": rule}))

    def unproved(self, node: PrimExpr, factor: PrimExpr) -> None:
        """A ramp is multiplied by what may be zero or negative."""
        text = f"not proved: `{factor} > 0`, so `{node}` is a product lane by lane, not a ramp"
        self.said.append(("vectorize.unproved", text, node, {}))

    def access(self, node: Any, indices: tuple[PrimExpr, ...]) -> None:
        """A load or store whose last index became the last of `indices`."""
        if not indices:
            return
        verb = "written" if isinstance(node, BufferStore) else "read"
        place = f"{node.buffer.name}[{', '.join(str(i) for i in node.indices)}]"
        facts = {"last index": f"`{indices[-1]}`", "that is": self._kind(indices[-1], verb)}
        self.said.append(("vectorize.access", f"`{place}` is {verb}", node, facts))

    def _kind(self, index: PrimExpr, verb: str) -> str:
        if index.dtype.is_scalar:
            return "the same element in all lanes" + (": one load and a broadcast" if verb == "read" else "")
        if isinstance(index, Ramp):
            if not isinstance(index.stride, IntImm):
                return f"elements `{index.stride}` apart, known at run time: lane by lane"
            stride = index.stride.value
            return f"{index.lanes} neighbours: one dense vector" if stride == 1 else f"elements {stride} apart: strided"
        return "an index for each lane: a " + ("gather" if verb == "read" else "scatter")

    def tell(self) -> None:
        """Give the notes to the record: the loop, its accesses, the rules, what was not proved; none if no vector was made."""
        if not self.said:
            return
        text = f"loop `{self.name}` of {self.lanes} iterations becomes vectors: its variable is `T.Ramp(0, 1, {self.lanes})`"
        note("vectorize.loop", text)
        for wanted in ("vectorize.access", "vectorize.rule", "vectorize.unproved"):
            for topic, text, node, facts in {(t, x): (t, x, n, f) for t, x, n, f in self.said if t == wanted}.values():
                note(topic, text, node, **facts)
