"""What the parameters of primitives are, in words: one description for all primitives that have a parameter of a name.

The help of a primitive is its docstring with the list of its parameters, before the example if it has one.
"""

from __future__ import annotations

from collections.abc import Iterable

_BUFFER = "its place among the buffers that the block {}, or the buffer itself, or its name"

# By the name of a parameter, or `primitive.parameter` if it is another thing in that primitive.
DESCRIPTIONS = {
    "ann_key": "the name of the annotation",
    "ann_val": "its value: a number, a text, an expression, or a list or mapping of such",
    "assume_injective_transform": "do not ask for a proof that different elements go to different places",
    "axis": "the dimension of the buffer; negative numbers count from the last",
    "axis_separators": "the dimensions before which a new group begins, in order",
    "block": "the block: its name, or what `get_block` gives",
    "block_or_loop": "a block (its name, or what `get_block` gives) or a loop (what `get_loops` gives)",
    "buf_index_array": "the places of the regions to leave out, among those that the block reads or writes",
    "buf_type": '"read" or "write": which of the regions of the block are meant',
    "buffer": '("read", 0) or ("write", 0), by the place among what the block accesses; a name; or a buffer',
    "buffer_index": _BUFFER.format("writes"),
    "annotate_buffer_access.buffer_index": "the place of the buffer among those that the block reads or writes",
    "candidates": "the values to choose from",
    "consumer_blocks": "the blocks that use the copy, by default all that read the buffer",
    "cse_thresh": "how often an expression has to occur",
    "decision": "a result to take in place of a random one",
    "dtype": "the new data type, such as `float16`",
    "factor": "the number of elements that the stride, less `offset`, is a multiple of",
    "factor_axis": "the dimension of the new buffer that `loop` becomes; negative numbers count from the last",
    "factors": "the number of iterations of each new loop, outermost first; None for the one to be worked out",
    "loop_partition.factors": "the number of iterations of each new loop, in order; None for the one to be worked out",
    "func_name": "the name of the function, by default the one worked on (`work_on`)",
    "gen_new_ranges": "a function of the block's variables that gives, for each dimension, an index or a pair (begin, end)",
    "index": "the place among the statements of the loop: -1 the last that is possible, -2 the first",
    "index_map": "a function from indices to indices, or an `IndexMap`",
    "innerpart_factor": "what the product of the inner factors is a multiple of",
    "loop": "the loop, as `get_loops` gives it",
    "loops": "the loops, as `get_loops` gives them, outermost first",
    "merge.loops": "the loops, as `get_loops` gives them, in the order in which their bodies will run",
    "max_innermost_factor": "the most that the last factor may be",
    "n": "the number of factors",
    "name": "the name of the block",
    "new_order": "the places of the block's variables, in their new order",
    "number": "the place of the factor among those of the product, in the order of the text",
    "offset": "the remainder of the stride, in elements",
    "ordered_loops": "loops of one nest, as `get_loops` gives them, in their new order; those not named stay where they are",
    "pad_value": "a number, or a function of the new indices, for elements that the new shape has and the old one has not",
    "padding": "what the extent of each of the block's variables is padded to a multiple of",
    "partition_pos": "the place of the first of the inner factors",
    "preserve_unit_iters": "keep block variables of extent 1",
    "preserve_unit_loops": "keep loops of one iteration",
    "disable_predication": "make no condition for iterations past the end: the caller knows that there are none",
    "probs": "the probability of each candidate",
    "read_buffer_index": _BUFFER.format("reads"),
    "scope_block": "the block whose inside is looked at: its name, or what `get_block` gives",
    "storage_scope": "the memory, such as `global`, `shared` or `local`",
    "target": "a loop, as `get_loops` gives it, or a list of blocks",
    "tensor_intrin": "the name under which the instruction is registered (`TensorIntrin.register`)",
    "thread_axis": "the thread, such as `threadIdx.x`, `blockIdx.y` or `vthread.x`",
    "write_buffer_index": _BUFFER.format("writes"),
}


def with_parameters(method: str, doc: str, names: Iterable[str]) -> str:
    """The docstring of a primitive with a list of those of its parameters that are described."""
    found = [(n, DESCRIPTIONS.get(f"{method}.{n}") or DESCRIPTIONS.get(n)) for n in names]
    lines = [f"{name}: {text}." for name, text in found if text]
    if not lines or "Parameters\n---" in doc:
        return doc
    listed = "\n".join(["Parameters", "----------", *lines])
    text, example, rest = doc.partition("\n\nExample\n-------\n")
    return f"{text}\n\n{listed}{example}{rest}"
