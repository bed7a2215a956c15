"""What the words of a program mean, for readers who see them for the first time: shown on hover and beside a followed line."""

from __future__ import annotations

import re
from collections.abc import Iterable

_WORD = re.compile(r"[A-Za-z_][\w.]*")

# A word as it is in a program, without the prefix `T.` or `tir.` unless that is part of the meaning.
GLOSSARY = {
    # buffers and memory
    "ProducerRealize": "room for the results of a stage, over the region that is given; memory is decided later, by StorageFlatten",
    "ProducerStore": "a store into the result of a stage, before it has a buffer",
    "Buffer": "memory with a shape and a data type; `data=` names the pointer that it is a view of",
    "match_buffer": "an argument of the function seen as a buffer of this shape",
    "alloc_buffer": "a buffer that lives while the block runs",
    "Allocate": "memory for as long as the body runs",
    "allocate": "memory for as long as the body runs: extents, data type, kind of memory (`global`, `shared`, `local`)",
    "decl_buffer": "a name for memory that is there already",
    "realize": "room for the results of a stage, over the region that is given",
    "produce": "the part that computes a stage",
    "noalias": "promises that no two arguments overlap in memory, so that LLVM may reorder accesses",
    # vectors
    "Ramp": "a vector of numbers: base, stride, lanes. `Ramp(i * 8, 1, 8)` is `i * 8`, `i * 8 + 1`, ... 8 of them; also written `i * 8:i * 8 + 8`",
    "Broadcast": "a vector with the same value in all its lanes",
    "Shuffle": "a vector put together of chosen lanes of others",
    "vectorized": "all iterations at once, one in each lane of a vector",
    # loops
    "grid": "several loops in one line, the outermost first",
    "serial": "one iteration after the other",
    "parallel": "iterations on several threads; none may touch what another one writes",
    "unroll": "iterations written out one after the other, without a loop",
    "thread_binding": "iterations on the threads of a GPU",
    "launch_thread": "iterations on the threads of a GPU",
    # blocks of TensorIR
    "block": "a unit of computation in TensorIR: its own variables, what it reads and what it writes",
    "T.axis.spatial": "a block variable of which each value writes elements of its own, so that its iterations may run in any order",
    "T.axis.reduce": "a block variable over which is reduced: its iterations add to the same element",
    "T.axis.opaque": "a block variable of which nothing is known, so that its iterations keep their order",
    "T.axis.remap": "several block variables at once: `S` for spatial and `R` for reduce, and the loops that they follow",
    "reads": "the regions that the block reads, by which dependencies are known",
    "writes": "the regions that the block writes",
    "init": "runs once for each element, before the reduction",
    "where": "the block runs only if this holds: the loops around it may run too far",
    "block_attr": "what was said of a block for passes to come",
    # conditions
    "likely": "a condition that nearly always holds: what keeps a loop inside its range if a split does not divide it. LoopPartition takes it out of the loop if it can",
    "if_then_else": "one of two values; only the chosen value is evaluated, so it may guard an access",
    "Select": "one of two values; both are evaluated, so neither may fail",
    "assume": "a fact that passes may use and that is not checked",
    # arithmetic
    "floordiv": "division rounded down; `//` on expressions",
    "floormod": "the remainder of `//`; its sign is that of the divisor",
    "truncdiv": "division rounded towards 0, as C does it",
    "truncmod": "the remainder of truncdiv, as C's `%`",
    "shift_left": "a product with a power of two",
    "Cast": "the same number in another data type",
    "reinterpret": "the same bits as another data type",
    "Let": "a name for a value in an expression",
    "min_value": "the least number of a data type: where a maximum starts",
    "max_value": "the largest number of a data type: where a minimum starts",
    # calls and attributes
    "call_extern": "a call of a C function by its name",
    "call_packed": "a call of a function of the runtime by its name",
    "func_attr": "facts about the function: its name in machine code, its target",
    "from_legacy_te_schedule": "the function was made from a TE schedule",
    "global_symbol": "the name of the function in machine code",
    "tvm_thread_allreduce": "a reduction over threads, each of which holds a part",
    "tvm_storage_sync": "all threads wait for each other here",
    "cse_var": "a value that occurs more than once, computed once by CommonSubexprElimTIR",
    "pragma_auto_unroll_max_step": "UnrollLoop writes out loops whose body is not longer than this",
    # annotations of late passes
    "llvm.vectorize": "whether LLVM may vectorize the loop",
    "llvm.unroll": "how LLVM unrolls the loop: `full`, `disable` or a number of iterations",
    "llvm.interleave": "the number of vectors that LLVM computes at once",
    "late.poll": "the iterations between two polls for interrupts",
    "late.stack": "the elements of an allocation on the stack; without it the memory comes from the heap",
    "late.made_by": "the late pass that made the loop",
    # LLVM and machine code
    "getelementptr": "the address of an element: no memory is read",
    "phi": "a value that depends on the block from which this one is entered",
    "fmuladd": "a product and a sum, as one instruction if the machine has it",
    "alloca": "memory on the stack",
    "vfmadd231ps": "eight or sixteen products and sums of floats in one instruction",
    "vbroadcastss": "one float in all lanes of a vector",
    "vmovups": "a vector of floats loaded or stored, wherever it is in memory",
    "vzeroupper": "clears the upper parts of vector registers, so that older code is not slowed down",
    # graphs and kernels of Ascend
    "GM": "global memory, outside the cores: what a Load copies from and a Store copies to",
    "UB": "the local memory of one core (unified buffer): where it computes",
    "MTE2": "the unit of a core that copies into its local memory",
    "MTE3": "the unit of a core that copies out of its local memory",
    "VECIN": "a queue of tiles that were copied in and wait to be computed with",
    "VECOUT": "a queue of tiles that were computed and wait to be copied out",
    "VECCALC": "a buffer that the vector unit both writes and reads",
    "loop_axis": "the last axis that is a loop around the call; those behind it are inside the call",
    "vectorized_axis": "the axes that the tensor's buffer in local memory holds",
    "repeats": "how many elements there are along each axis",
    "buf_num": "how many buffers a queue has: with 2 of them one is filled while the other is read",
    "reuse_id": "tensors of one queue with the same number lie side by side in it, the others use it in turn",
    "TILE_OUT": "an axis that counts tiles",
    "TILE_IN": "an axis inside a tile, which is in local memory at once",
    "BLOCK_OUT": "an axis that is spread over the cores",
    "BLOCK_IN": "an axis that counts the tiles of one core",
    "AllocTensor": "takes a free buffer of the queue, and waits for one if there is none",
    "EnQue": "hands a filled buffer on to whoever reads the queue",
    "DeQue": "waits for the next filled buffer of the queue",
    "FreeTensor": "gives a buffer back to the queue",
    "GetBlockIdx": "the number of this core",
    "tiling_key": "which of the ImplGraphs the kernel runs",
}  # fmt: skip


def words_of(lines: Iterable[str]) -> dict[str, str]:
    """The entries for words that occur in some of `lines`."""
    said = {name for line in lines for name in _WORD.findall(line)}
    said |= {name.rsplit(".", 1)[-1] for name in said}
    return {word: text for word, text in GLOSSARY.items() if word in said}
