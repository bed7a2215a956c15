"""Calls that are refused: for each primitive and each of its checks one case.

A case is the name of a function of `schedule_refusal_...`, lines of which the last is refused, a part of
the sentence that says why, and the blocks and loops that the error must name and underline. In the lines `B(name)`
is a block, `L(name)` are its loops.
"""

from __future__ import annotations

from typing import NamedTuple


class Case(NamedTuple):
    program: str
    lines: str
    says: str
    marks: tuple[str, ...] = ()

    @property
    def id(self) -> str:
        return f"{self.lines.splitlines()[-1]} on {self.program}"


def _case(program: str, lines: str, says: str, *marks: str) -> Case:
    return Case(program, lines, says, marks)


def _for_all(program: str, says: str, mark: str, *calls: str) -> list[Case]:
    """The same refusal of several primitives."""
    return [_case(program, f"sch.{call}", says, *([mark] if mark else [])) for call in calls]


# ---------------------------------------------------------------------------- checks that many primitives share

_SHARED = [
    *_for_all(
        "chain",
        "the root block cannot be scheduled",
        "block root",
        "get_producers('root')",
        "get_consumers('root')",
        "sample_compute_location('root')",
        "cache_factor('root', 0, 'global')",
        "cache_index('root', 'global')",
        "compute_at('root', L('C')[0])",
        "reverse_compute_at('root', L('B')[0])",
        "compute_inline('root')",
        "reverse_compute_inline('root')",
        "decompose_reduction('root', L('C')[0])",
        "pad_einsum('root', [])",
        "decompose_padding('root', L('C')[0])",
        "reorder_block_iter_var('root', [])",
        "transform_block_layout('root', lambda: ())",
    ),
    *_for_all(
        "signed_root",
        "the root block cannot be scheduled",
        "block root",
        "cache_read('root', 0, 'local')",
        "cache_write('root', 0, 'local')",
        "cache_inplace('root', 1, 'local')",
        "reindex('root', ('read', 0))",
        "read_at(L('C')[0], 'root', 0, 'local')",
        "rolling_buffer('root', 0)",
        "write_at(L('C')[0], 'root', 0, 'local')",
        "reindex_cache_read('root', 0, 'local', lambda: (0,))",
        "reindex_cache_write('root', 0, 'local', lambda: (0,))",
    ),
    *_for_all(
        "half",
        "is not a stage pipeline",
        "block root",
        "compute_at('B', L('C')[0])",
        "reverse_compute_at('C', L('B')[0])",
        "compute_inline('B')",
        "reindex('B', ('write', 0))",
        "read_at(L('C')[0], 'C', 0, 'local')",
        "write_at(L('B')[0], 'B', 0, 'local')",
        "reindex_cache_read('C', 0, 'local', lambda i, j: (i, j))",
        "reindex_cache_write('B', 0, 'local', lambda i, j: (i, j))",
    ),
    *_for_all(
        "chain",
        "is not a storage scope",
        "",
        "set_scope('B', 0, 'cellar')",
        "cache_read('C', 0, 'cellar')",
        "cache_write('B', 0, 'cellar')",
        "cache_factor('C', 0, 'cellar')",
        "cache_index('B', 'cellar')",
        "read_at(L('C')[0], 'C', 0, 'cellar')",
        "write_at(L('B')[0], 'B', 0, 'cellar')",
        "reindex_cache_read('C', 0, 'cellar', lambda i, j: (i, j))",
        "reindex_cache_write('B', 0, 'cellar', lambda i, j: (i, j))",
    ),
    _case("in_place", "sch.cache_inplace('C', 0, 'cellar')", "is not a storage scope"),
    *_for_all(
        "chain",
        "does not write a buffer `Q`",
        "block C",
        "cache_write('C', 'Q', 'local')",
        "set_scope('C', 'Q', 'local')",
        "storage_align('C', 'Q', 0, 8, 1)",
        "unsafe_set_dtype('C', 'Q', 'float16')",
        "write_at(L('C')[0], 'C', 'Q', 'local')",
        "reindex_cache_write('C', 'Q', 'local', lambda i, j: (i, j))",
    ),
    *_for_all(
        "chain",
        "does not read a buffer `Q`",
        "block C",
        "cache_read('C', 'Q', 'local')",
        "cache_inplace('C', 'Q', 'local')",
        "read_at(L('C')[0], 'C', 'Q', 'local')",
        "reindex_cache_read('C', 'Q', 'local', lambda i, j: (i, j))",
    ),
    *_for_all(
        "chain",
        "accesses no buffer `Q`",
        "block C",
        "reindex('C', 'Q')",
        "transform_layout('C', 'Q', lambda i, j: (j, i))",
        "set_axis_separator('C', 'Q', [1])",
    ),
    *_for_all(
        "chain",
        "so the buffer index lies in [0, 1), not 3",
        "block C",
        "cache_read('C', 3, 'local')",
        "cache_write('C', 3, 'local')",
        "cache_inplace('C', 3, 'local')",
        "read_at(L('C')[0], 'C', 3, 'local')",
        "write_at(L('C')[0], 'C', 3, 'local')",
        "reindex('C', ('read', 3))",
        "reindex_cache_read('C', 3, 'local', lambda i, j: (i, j))",
        "reindex_cache_write('C', 3, 'local', lambda i, j: (i, j))",
        "rolling_buffer('C', 3)",
        "set_axis_separator('C', ('read', 3), [1])",
        "set_scope('C', 3, 'local')",
        "storage_align('C', 3, 0, 8, 1)",
        "transform_layout('C', ('read', 3), lambda i, j: (j, i))",
        "unsafe_hide_buffer_access('C', 'read', [3])",
        "unsafe_set_dtype('C', 3, 'float16')",
        "annotate_buffer_access('C', 3, 'read', lambda i, j: (i, j))",
    ),
    *_for_all(
        "chain",
        "is not allocated by a block",
        "block C",
        "set_scope('C', 0, 'local')",
        "storage_align('C', 0, 0, 8, 1)",
        "unsafe_set_dtype('C', 0, 'float16')",
    ),
    *_for_all(
        "in_place",
        "updates buffer `C` in place",
        "block C",
        "cache_write('C', 0, 'local')",
        "reindex('C', ('write', 0))",
        "write_at(L('C')[0], 'C', 0, 'local')",
        "reindex_cache_read('C', 0, 'local', lambda i, j: (i, j))",
        "reindex_cache_write('C', 0, 'local', lambda i, j: (i, j))",
    ),
    *_for_all(
        "two_writers",
        "must be written by one block, 2 blocks write it",
        "block B0",
        "cache_read('C', 0, 'local')",
        "cache_write('B0', 0, 'local')",
        "reindex_cache_read('C', 0, 'local', lambda i, j: (i, j))",
        "reindex_cache_write('B0', 0, 'local', lambda i, j: (i, j))",
    ),
    *_for_all(
        "two_writers",
        "is not the only writer of buffer `B`",
        "block B0",
        "compute_at('B0', L('C')[0])",
        "compute_inline('B0')",
    ),
    *_for_all(
        "chain",
        "is an output block",
        "block C",
        "compute_at('C', L('B')[0])",
        "compute_inline('C')",
        "rolling_buffer('C', 0)",
    ),
    *_for_all(
        "square",
        "are not affine in its loops",
        "block C",
        "reorder(*reversed(L('C')))",
        "parallel(L('C')[0])",
        "vectorize(L('C')[0])",
        "bind(L('C')[0], 'threadIdx.x')",
        "write_at(L('C')[1], 'C', 0, 'local')",
    ),
    *_for_all(
        "opaque",
        "is not data parallel) nor a reduction block (it has no init)",
        "block C",
        "parallel(L('C')[0])",
        "vectorize(L('C')[0])",
        "bind(L('C')[0], 'threadIdx.x')",
    ),
    *_for_all(
        "matmul",
        "of block `C` depends on it and is not data parallel",
        "loop k",
        "parallel(L('C')[2])",
        "vectorize(L('C')[2])",
        "bind(L('C')[2], 'blockIdx.x')",
    ),
    *_for_all(
        "loop_inside",
        "inside, not through a binding",
        "block B",
        "compute_at('B', L('C')[0])",
        "transform_block_layout('B', lambda i, j: (i * 8 + j,))",
    ),
    _case("loop_inside", "sch.reverse_compute_at('C', L('B')[0])", "uses the loop variable `i` inside", "block C"),
    *[
        _case("chain", f"loop = L('C')[0]\nsch.annotate(loop, 'note', 1)\nsch.{call}", "has annotations", "loop i")
        for call in (
            "split(loop, [2, 4])",
            "fuse(*L('C'))",
            "loop_partition(loop, [2, None])",
            "merge(L('B')[0], loop)",
        )
    ],
    *_for_all(
        "from_one",
        "does not start at 0",
        "loop i",
        "split(L('C')[0], [2, 4])",
        "fuse(*L('C'))",
        "loop_partition(L('C')[0], [2, None])",
        "merge(L('C')[0], L('D')[0])",
    ),
    *_for_all(
        "beside",
        "must hold one block alone",
        "loop i",
        "blockize(L('C')[0])",
        "rfactor(L('C')[0], 0)",
        "tensorize(L('C')[0], 'dot_16x4_vnni')",
    ),
    *_for_all(
        "sum_of_loops",
        "cannot be divided into a part outside and a part inside",
        "loop j",
        "blockize(L('C')[1])",
        "tensorize(L('C')[1], 'dot_16x4_vnni')",
    ),
    *_for_all(
        "chain",
        "is not a loop round block `C` in its scope",
        "block C",
        "read_at(L('B')[0], 'C', 0, 'local')",
        "write_at(L('B')[0], 'C', 0, 'local')",
    ),
    *_for_all(
        "chain",
        "is not a side of a block",
        "",
        "unsafe_hide_buffer_access('C', 'middle', [0])",
        "annotate_buffer_access('C', 0, 'middle', lambda i, j: (i, j))",
    ),
]

# ---------------------------------------------------------------------------- looking up, sampling, marks

_SMALL = [
    _case("chain", "sch.get_block('E')", "Cannot find a block with the name: E in `main`"),
    _case("chain", "sch.get_block('C', 'other')", "the module has no function `other`"),
    _case("same_names", "sch.get_block('C')", "2 blocks are called `C`", "block C"),
    _case("module", "sch.get_block('F')", "the module has several functions"),
    _case(
        "chain",
        "sch.annotate('B', 'note', 1)\nB('B')\nsch.unannotate('C', 'note')",
        "has no annotation `note`",
        "block C",
    ),
    _case("chain", "sch.unannotate(L('B')[0], 'note')", "has no annotation `note`", "loop i"),
    _case("chain", "sch.sample_categorical([1, 2], [1.0])", "as many probabilities as candidates"),
    _case("chain", "sch.sample_categorical([1, 2], [0.5, 0.5], 2)", "the decision 2 is not a place among 2"),
    _case("chain", "sch.sample_perfect_tile(L('C')[0], 0)", "a tile has between 1 and 1024 factors, not 0", "loop i"),
    _case("chain", "sch.sample_perfect_tile(L('C')[0], 2, decision=[2, 2, 2])", "has 3 factors, not 2", "loop i"),
    _case("chain", "sch.sample_partitioned_tile(L('C')[0], 2, 3)", "lies in [0, 2), not 3", "loop i"),
    _case("chain", "sch.sample_partitioned_tile(L('C')[0], 2, 1, 0)", "is positive, not 0", "loop i"),
    _case("chain", "sch.sample_partitioned_tile(L('C')[0], 2, 1, 2, decision=[8])", "has 1 factors, not 2", "loop i"),
    _case("chain", "sch.sample_perfect_tile(L('C')[0], 2, 0)", "a positive number or -1, not 0", "loop i"),
    _case(
        "chain",
        "b = B('B')\nsch.get(sch.copy().get_sref(b))",
        "cannot use block `B`: it does not belong to this schedule as it is now",
    ),
    _case(
        "chain", "i = L('C')[0]\nsch.sealed_by = 'version `v`'\nsch.parallel(i)", "the schedule belongs to version `v`"
    ),
    _case(
        "chain",
        "loop = L('C')[0]\nsch.fuse(*L('C'))\nsch.split(loop, [2, 4])",
        "the block or loop that the random variable named is gone",
    ),
    _case("chain", "sch.annotate_buffer_access('C', 0, 'read', lambda i, j: (i,))", "has 2 dimensions", "block C"),
    _case("chain", "sch.storage_align('B', 0, 2, 8, 1)", "the axis lies in [-2, 2), not 2", "block B"),
    _case("chain", "sch.storage_align('B', 0, 0, 0, 1)", "the factor of an alignment is positive", "block B"),
]

# ---------------------------------------------------------------------------- loops

_LOOPS = [
    _case("single", "sch.split(L('C')[0], [None, None])", "at most one factor may be None", "loop i"),
    _case("single", "sch.split(L('C')[0], [])", "takes one factor or more", "loop i"),
    _case("single", "sch.split(L('C')[0], [0, 8])", "are positive, not 0", "loop i"),
    _case(
        "single",
        "sch.split(L('C')[0], [1 << 16, 1 << 16])",
        "make 4294967296 iterations, too many for `int32`",
        "loop i",
    ),
    _case(
        "single",
        "sch.split(L('C')[0], [1 << 15, 1 << 15])\nsch.fuse(*L('C'))",
        "make 8589934592 iterations, too many for `int32`",
    ),
    _case("single", "sch.split(L('C')[0], [2, 2])", "make 4 iterations, fewer than the 8", "loop i"),
    _case("single", "sch.fuse()", "fuse takes one loop or more"),
    _case("beside", "sch.fuse(L('C')[0], L('C')[1])", "the only child of", "loop i", "loop j"),
    _case("triangle", "sch.fuse(*L('C'))", "the bounds of loop `j` depend on `i`", "loop j"),
    _case("single", "i, j = L('C')\nsch.reorder(i, i)", "a loop is named twice", "loop i"),
    _case("chain", "sch.reorder(L('B')[0], L('C')[0])", "not in one chain of loops", "loop i"),
    _case("beside", "sch.reorder(*reversed(L('C')))", "holds more than", "loop i", "loop j"),
    _case("opaque", "sch.reorder(*reversed(L('C')))", "is neither data parallel nor reduced", "block C"),
    _case(
        "matmul",
        "i, j, k = L('C')\nf = sch.fuse(j, k)\na, b = sch.split(f, [8, None])\nsch.reorder(b, a)",
        "it would add up before it initializes",
        "loop j_k_fused_0",
    ),
    _case("chain", "sch.add_unit_loop('root')", "no loop can be put around the root block", "block root"),
    _case("symbolic", "sch.loop_partition(L('C')[0], [2, None])", "has the symbolic extent `n`", "loop i"),
    _case("single", "sch.loop_partition(L('C')[0], [None, None])", "at most one factor may be None", "loop i"),
    _case("single", "sch.loop_partition(L('C')[0], [-1, None])", "of a partition are positive", "loop i"),
    _case("single", "sch.loop_partition(L('C')[0], [4, 4])", "must be less than the extent 8", "loop i"),
    _case(
        "matmul",
        "sch.loop_partition(L('C')[2], [2, None])",
        "would run the init of block `C` again",
        "loop k",
        "block C",
    ),
    _case("single", "sch.merge(L('C')[0])", "two different loops or more"),
    _case("single", "sch.merge(*L('C'))", "cannot be merged with one that holds it", "loop i"),
    _case(
        "module",
        "sch.merge(sch.get_loops(sch.get_block('F', 'f'))[0], sch.get_loops(sch.get_block('G', 'g'))[0])",
        "in different functions",
        "loop i",
    ),
    _case("three", "sch.merge(L('B')[0], L('D')[1])", "cannot be merged with one that holds it", "loop i", "loop j"),
    _case("three", "sch.merge(L('B')[1], L('C')[0])", "must be all of loop `i`", "loop j", "loop i"),
    _case("sum_beside", "sch.merge(L('S')[1], L('D')[1])", "must have the same extents", "loop j"),
    _case("outputs", "sch.merge(L('C')[0], L('E')[0])", "directly one after the other", "loop i"),
    _case("overwrite", "sch.merge(L('B')[0], L('C')[0])", "writes a buffer that block `B` uses", "block C"),
    _case("neighbours", "sch.merge(L('B')[0], L('C')[0])", "what its producers have not written yet", "block C"),
]

# ---------------------------------------------------------------------------- blocks made of others

_BLOCKS = [
    _case("chain", "sch.blockize([])", "there are no blocks to join"),
    _case("chain", "c = B('C')\nsch.blockize([c, c])", "a block is given twice", "block C"),
    _case("chain", "both = [B('C'), B('root')]\nsch.blockize(both)", "the root block cannot be joined", "block root"),
    _case("nested", "both = [B('N'), B('C')]\nsch.blockize(both)", "are not in the same scope", "block C", "block N"),
    _case("fork", "both = [B('B'), B('C')]\nsch.blockize(both)", "must follow one another", "block B", "block C"),
    _case("three", "both = [B('D'), B('C')]\nsch.blockize(both)", "block `B` is between", "block B"),
    _case(
        "sums_below",
        "both = [B('B'), B('C')]\nsch.blockize(both)",
        "cannot be divided at the loops around the blocks",
        "block B",
    ),
    _case("guarded_outside", "sch.blockize([B('C')])", "depends on the loops around the blocks", "block C"),
    _case("reduced_outside", "sch.blockize([B('C')])", "is reduced over the loops around the blocks", "block C"),
    _case("chain", "sch.tensorize(L('C')[1], 'test.rootless')", "must have a root block"),
    _case(
        "numbered",
        "sch.tensorize(L('Y')[1], 'test.add_variable')",
        "`vj_o` stands where the instruction has `vi`",
        "loop i",
    ),
    *[
        _case(program, f"sch.tensorize(L('Y')[0], 'test.{intrinsic}')", says, "loop i")
        for program, intrinsic, says in (
            ("add_one", "copy", "a Add stands where the instruction has a BufferLoad"),
            ("branch", "either", "the `else_case` of a IfThenElse is missing on one side"),
            ("called", "called_with_two", "a Call has 2 `args`, the instruction 3"),
            ("add_one", "add_two", "the `value` of a IntImm is 1, in the instruction 2"),
            ("copy_8", "copy", "loop `i` has extent 8, the instruction 4"),
            ("no_variable", "copy", "block `Y` has 0 variables, the instruction 1"),
            ("accumulated", "copy", "the variable `vi_i` is of another kind"),
            ("accumulated", "sum", "only one of block `Y` and the instruction has an init"),
            ("copy_float", "copy", "buffer `Y` holds float32, the instruction takes int32"),
            ("add_other", "double", "buffer `Z` stands where the instruction has another"),
            ("copy", "copy_rows", "buffer `Y` has fewer dimensions than the instruction's"),
            ("reversed", "copy", "buffer `X` is accessed at other elements"),
            ("add_far", "double", "buffer `X` is accessed at several places"),
            ("three_stores", "two_stores", "the instruction has another number of statements"),
        )
    ],
]

# ---------------------------------------------------------------------------- blocks moved and written into others

_MOVED = [
    _case("nested", "sch.compute_at('N', L('C')[0])", "are not in the same scope", "block N", "loop i"),
    _case("nested", "sch.reverse_compute_at('N', L('C')[0])", "are not in the same scope", "block N", "loop i"),
    _case("chain", "sch.compute_at('B', L('B')[0])", "is already an ancestor of block `B`", "block B", "loop i"),
    _case(
        "chain", "sch.reverse_compute_at('C', L('C')[0])", "is already an ancestor of block `C`", "block C", "loop i"
    ),
    _case("opaque_chain", "sch.reverse_compute_at('C', L('B')[0])", "neither a complete block", "block C"),
    _case("in_place_chain", "sch.compute_at('B', L('C')[0])", "neither a complete block", "block B"),
    _case("two_readers", "sch.compute_at('B', L('C')[0])", "all consumers of the block must be under", "block D"),
    _case("fork", "sch.reverse_compute_at('C', L('D')[0])", "all producers of the block must be under", "block B"),
    _case("chain", "sch.compute_at('B', L('C')[0], index=5)", "the index must lie in [0, 0], not 5", "loop i"),
    _case("chain", "sch.reverse_compute_at('C', L('B')[0], index=5)", "the index must lie in [1, 1], not 5", "loop i"),
    _case("bounded", "sch.compute_at('W', L('S')[0])", "loads buffer `Q`", "block W"),
    _case("bounded", "sch.reverse_compute_at('W', L('F')[0])", "loads buffer `Q`", "block W"),
    _case("row", "sch.compute_at('B', L('C')[0])", "does not give what is needed of buffer `B`", "block B"),
    _case("first_row", "sch.reverse_compute_at('C', L('B')[0])", "does not give what is needed", "block C"),
    _case("halved", "sch.compute_at('B', L('C')[0])", "cannot be solved for a variable", "block B"),
    _case("halved", "sch.reverse_compute_at('C', L('B')[0])", "cannot be solved for a variable", "block C"),
    _case("overwritten_input", "sch.compute_at('B', L('C')[0])", "would run before block `B`", "block W", "block B"),
    _case("read_first", "sch.reverse_compute_at('C', L('B')[0])", "would run before block `D`", "block C", "block D"),
    _case("crossed", "sch.reverse_compute_at('C', L('B')[0])", "have not written yet", "block C"),
    _case("sum_chain", "sch.compute_inline('B')", "has an init, so it is a reduction", "block B"),
    _case("two_stores", "sch.compute_inline('B')", "must write exactly one buffer, it writes 2", "block B"),
    _case("steps", "sch.compute_inline('B')", "the body of block `B` must be one store", "block B"),
    _case("diagonal", "sch.compute_inline('B')", "are not a bijection of its variables", "block B"),
    _case("alone", "sch.compute_inline('B')", "is the only leaf of its scope", "block B"),
    _case("matched", "sch.compute_inline('B')", "is matched in block `C`", "block C"),
    _case("matched_writer", "sch.reverse_compute_inline('C')", "matches a part of buffer `B` as `M`", "block B"),
    _case("into_sum", "sch.reverse_compute_inline('S')", "has an init, so it is a reduction", "block S"),
    _case(
        "fork",
        "sch.reverse_compute_inline('C')",
        "must read exactly one buffer that a block of its scope writes",
        "block C",
    ),
    _case("two_readers", "sch.reverse_compute_inline('C')", "must have a single producer", "block C"),
    _case("opaque_chain", "sch.reverse_compute_inline('C')", "`vj` is not data parallel", "block C"),
    _case("guarded", "sch.reverse_compute_inline('C')", "has a predicate", "block C"),
    _case("steps", "sch.reverse_compute_inline('C')", "the body of block `C` must be one store", "block C"),
    _case("neighbours", "sch.reverse_compute_inline('C')", "must read `B` at one place", "block C"),
    _case("folded", "sch.reverse_compute_inline('C')", "cannot be inverted", "block C"),
    _case("read_twice", "sch.reverse_compute_inline('C')", "cannot be inverted", "block C"),
    _case("wider", "sch.reverse_compute_inline('C')", "is not covered by its producer", "block C"),
]

# ---------------------------------------------------------------------------- reductions, rings, padding

_REDUCED = [
    _case("chain", "sch.decompose_reduction('C', L('C')[0])", "but it has no init", "block C"),
    _case("square_sum", "sch.decompose_reduction('C', L('C')[0])", "but its bindings are not affine", "block C"),
    _case(
        "opaque_sum", "sch.decompose_reduction('C', L('C')[0])", "`vi` is neither data parallel nor reduced", "block C"
    ),
    _case("twice", "sch.decompose_reduction('C', L('C')[0])", "is not the only writer of buffer `C`", "block C"),
    _case("scatter", "sch.decompose_reduction('C', L('C')[0])", "a reduced variable indexes its output", "block C"),
    _case("chain", "sch.rfactor(L('C')[1], 0)", "must be a reduction block", "block C"),
    _case("sum_chain", "sch.decompose_reduction('B', L('C')[0])", "is not a loop of block `B`", "block B", "loop i"),
    _case(
        "sum_chain",
        "i, k = L('B')\nsch.reorder(k, i)\nsch.decompose_reduction('B', i)",
        "must be outside all loops that the reduction uses",
        "loop i",
    ),
    _case("sum_chain", "k = L('B')[1]\nsch.unroll(k)\nsch.rfactor(k, 0)", "must be a serial loop", "loop k"),
    _case("sum_chain", "sch.rfactor(L('B')[0], 0)", "must be used by reduced variables alone", "loop i"),
    _case("sum_second", "sch.rfactor(L('S')[1], 0)", "must hold the reduction alone, or be data parallel", "loop i"),
    _case("sum_chain", "sch.rfactor(L('B')[1], 3)", "the factor axis lies in [-2, 1], not 3", "loop k"),
    _case("sum_steps", "sch.rfactor(L('C')[1], 0)", "must be stores to the same buffers", "block C"),
    _case("difference", "sch.rfactor(L('C')[1], 0)", "combines its values is not known", "block C"),
    _case("in_place_chain", "sch.rolling_buffer('B', 0)", "no dependences but those of readers", "block B"),
    _case("chain", "sch.rolling_buffer('B', 0)", "are under no common loop", "block B"),
    _case("beside", "sch.rolling_buffer('B', 0)", "no dimension of what block `B` writes", "block B"),
    _case("matmul", "sch.decompose_padding('C', L('C')[0])", "must be a complete block", "block C"),
    _case("in_place", "sch.decompose_padding('C', L('C')[0])", "it reads and writes buffer `C`", "block C"),
    _case("steps", "sch.decompose_padding('C', L('C')[0])", "the body of block `C` must be one store", "block C"),
    _case("chain", "sch.decompose_padding('C', L('C')[0])", "must be chosen by an if_then_else", "block C"),
    _case("padded_by_variable", "sch.decompose_padding('P', L('P')[0])", "must be a constant, not", "block P"),
    _case("padded_between", "sch.decompose_padding('P', L('P')[0])", "is not a range of each variable", "block P"),
    _case("padded_nowhere", "sch.decompose_padding('P', L('P')[0])", "always holds", "block P"),
    _case("chain", "sch.decompose_padding('C', L('B')[0])", "is not a loop of block `C`", "block C", "loop i"),
    _case("pad_after_read", "sch.decompose_padding('P', L('P')[0])", "in front of block `P`", "block R", "loop i"),
    _case("single", "sch.pad_einsum('C', [2])", "is a list of 2 positive integers, not [2]", "block C"),
    _case("opaque", "sch.pad_einsum('C', [3, 1])", "it is neither complete nor a reduction", "block C"),
    _case("folded", "sch.pad_einsum('C', [3, 3])", "which is not a plain variable", "block C"),
    _case("steps", "sch.pad_einsum('C', [3, 3])", "its body is not one store", "block C"),
    _case("largest", "sch.pad_einsum('C', [1, 8])", "zeros along `vk` would change its result", "block C"),
    _case("beside", "sch.pad_einsum('C', [3, 3])", "must hold block `C` alone", "block C", "loop i"),
    _case(
        "single",
        "sch.split(L('C')[0], [2, 4])\nsch.pad_einsum('C', [3, 3])",
        "is not bound to a loop of its own",
        "block C",
    ),
]

# ---------------------------------------------------------------------------- copies and layouts

_STORED = [
    _case("chain", "sch.cache_inplace('C', 0, 'local')", "does not both read and write buffer `B`", "block C"),
    _case("beside", "sch.read_at(L('C')[0], 'C', 0, 'local')", "a copy would be out of date", "block B", "loop i"),
    _case("guarded", "sch.write_at(L('C')[0], 'C', 0, 'local')", "writes all of the region", "block C", "loop i"),
    _case("writers_below", "sch.write_at(L('C')[0], 'C', 0, 'local')", "2 blocks below loop `i` write", "block D"),
    _case("read_below", "sch.write_at(L('C')[0], 'C', 0, 'local')", "before it is copied back", "block D", "block C"),
    _case("untouched", "sch.reindex('C', ('read', 0))", "is not accessed by loads and stores", "block C"),
    _case("loop_in_block", "sch.reindex('C', ('read', 0))", "at indices that a loop inside makes", "block C"),
    _case("neighbours", "sch.reindex('C', ('read', 0))", "is accessed at different indices", "block C"),
    _case("pointer", "sch.reindex('C', ('read', 0))", "is used by its pointer", "block C"),
    _case("nested", "sch.reindex('O', ('read', 0))", "must be a leaf block, it holds block `N`", "block O"),
    _case("beside", "sch.reindex('C', ('read', 0))", "must be all of loop `i`", "loop j", "loop i"),
    *[
        _case(program, f"sch.reindex_cache_{way}('P', 0, 'local', lambda i, j: (i, j))", says, "block P")
        for way in ("read", "write")
        for program, says in (
            ("declared_apart", "is accessed at different indices"),
            ("declared_loop", "at indices that a loop inside makes"),
            ("declared_nested", "must be a leaf block, it holds block `N`"),
            ("declared_untouched", "is not accessed by loads and stores"),
            ("declared_pointers", "is used by its pointer"),
        )
    ],
    *[
        case
        for side, name in (("read", "O"), ("write", "O"))
        for case in (
            _case(
                "nested",
                f"sch.reindex_cache_{side}('{name}', 0, 'local', lambda i: (i,))",
                "is not a single element",
                "block O",
            ),
            _case(
                "single",
                f"sch.reindex_cache_{side}('C', 0, 'local', tir.IndexMap.from_func(lambda i: (i,), 1))",
                "does not take the 2 variables",
                "block C",
            ),
            _case(
                "single",
                f"sch.reindex_cache_{side}('C', 0, 'local', lambda i, j: (i,))",
                "is in the old indices, but not in the new ones",
                "block C",
            ),
        )
    ],
    _case(
        "matched_inside",
        "sch.set_axis_separator('N', ('read', 0), [1])",
        "is a matched part of another buffer",
        "block N",
    ),
    _case(
        "matched_inside",
        "sch.transform_layout('N', ('read', 0), lambda i, j: (j, i))",
        "is a matched part of another buffer",
        "block N",
    ),
    _case(
        "chain",
        "sch.transform_layout('B', ('write', 0), lambda i, j: (i // 3, i % 3, j))",
        "adds padding where",
        "block B",
    ),
    _case(
        "chain",
        "sch.transform_layout('B', ('write', 0), lambda i, j: (i // 3, i % 3, j), "
        "pad_value=tir.IndexMap.from_func(lambda i: (0,), 1))",
        "pad_value takes 1 indices",
        "block B",
    ),
    _case(
        "chain",
        "other = sch.get(B('B')).reads[0].buffer\nsch.transform_layout('B', ('write', 0), "
        "lambda i, j: (i // 3, i % 3, j), pad_value=lambda i, j, k: other[0, 0])",
        "it may load `B` only",
        "block B",
    ),
    _case(
        "chain",
        "sch.transform_layout('B', ('write', 0), lambda i, j: (i // 3, i % 3, j), pad_value=lambda i, j, k: i)",
        "pad_value is a int32",
        "block B",
    ),
    _case("chain", "sch.set_axis_separator('B', ('write', 0), [5])", "are not in order inside [0, 2]", "block B"),
    _case("single", "sch.reorder_block_iter_var('C', [0, 2])", "is not a permutation of the places 0 to 1", "block C"),
    _case(
        "sum_chain",
        "sch.transform_block_layout('B', lambda i, k: (i * 8 + k,))",
        "mixes data parallel and reduced",
        "block B",
    ),
    _case(
        "beside", "sch.transform_block_layout('C', lambda i, j: (i * 8 + j,))", "must hold block `C` alone", "loop i"
    ),
    _case(
        "single",
        "sch.split(L('C')[0], [2, 4])\nsch.transform_block_layout('C', lambda i, j: (i * 8 + j,))",
        "are not bound to its loops",
        "block C",
    ),
    _case(
        "single",
        "sch.transform_block_layout('C', tir.IndexMap.from_func(lambda i: (i,), 1))",
        "does not take the 2 variables",
        "block C",
    ),
    _case("single", "sch.transform_block_layout('C', lambda i, j: (i, i))", "is not an affine bijection", "block C"),
    _case(
        "opaque",
        "sch.transform_block_layout('C', lambda i, j: (i, j % 2, j // 2))",
        "is made of an opaque variable",
        "block C",
    ),
]

# ---------------------------------------------------------------------------- what would change a result

_KEPT = [
    _case(
        "whole_sum",
        "loop = L('B')[0]\nsch.parallel(loop)\nsch.reverse_compute_at('C', loop)",
        "run at the same time, and block `C` would reduce `vk` over them",
        "loop i",
    ),
    _case(
        "sum_chain",
        "sch.merge(L('B')[1], L('C')[1])",
        "would read buffer `B`, which block `B` has only reduced in part",
        "block C",
        "block B",
    ),
    _case("running_sum", "sch.reverse_compute_at('C', L('B')[0])", "has only reduced in part", "block C", "block B"),
    _case(
        "backward_terms",
        "sch.reverse_compute_at('C', L('B')[0])",
        "reduce each term once, beginning with the first",
        "block C",
    ),
    _case(
        "sum_of_sums",
        "sch.reverse_compute_at('C', L('B')[1])",
        "would run again in each iteration of loop `k`, inside loop `i`",
        "block C",
    ),
    _case("used_in_sum", "sch.compute_at('M', L('C')[1])", "has only reduced in part", "block M", "block B"),
    _case("repeated_sum", "sch.decompose_reduction('C', L('C')[1])", "runs block `C` again", "loop r"),
    _case(
        "halved_sum", "sch.decompose_reduction('C', L('C')[0])", "may run block `C` more than once", "loop i", "block C"
    ),
    *_for_all(
        "padded",
        "reads buffer `X` at `vi - 1`, which may lie outside its 8 elements",
        "block P",
        "reindex('P', ('read', 0))",
        "reindex_cache_read('P', 0, 'local', lambda i: (i,))",
    ),
    *_for_all(
        "half_stored",
        "writes all of the region of buffer `P` that would be copied back",
        "block P",
        "cache_write('P', 0, 'local')",
        "reindex('P', ('write', 0))",
        "write_at(L('P')[0], 'P', 0, 'local')",
        "reindex_cache_write('P', 0, 'local', lambda i: (i,))",
    ),
    *[
        _case(program, "sch.cache_write('P', 0, 'local')", "writes all of the region of buffer `P`", "block P")
        for program in ("declared_more", "run_sometimes")
    ],
    *_for_all(
        "sum_over_scope",
        "block `P` reduces over `k`, which is outside block `outer`, and so updates buffer `P` in place",
        "block P",
        "cache_write('P', 0, 'local')",
        "write_at(L('P')[0], 'P', 0, 'local')",
        "reindex('P', ('write', 0))",
        "reindex_cache_write('P', 0, 'local', lambda i, k: (i,))",
    ),
    _case(
        "half_reversed",
        "sch.cache_inplace('P', 0, 'local')",
        "writes all of the region of buffer `P` that would be copied back",
        "block P",
    ),
    _case(
        "guarded_store",
        "sch.reindex_cache_write('B', 0, 'local', lambda i: (i,))",
        "writes buffer `B` at `vi`, which may lie outside its 8 elements",
        "block B",
    ),
    _case(
        "together", "sch.reindex('C', ('read', 0))", "uses buffer `B` in the loops of block `C`", "block B", "block C"
    ),
    _case(
        "chain",
        "both = [B('B'), B('C')]\nsch.blockize(both)\nsch.reverse_compute_inline('C')",
        "is not allocated by",
        "block C",
    ),
    _case("chain", "others = [B('B')]\nsch.cache_read('C', 0, 'local', others)", "does not read", "block B"),
    *[
        _case(
            "single",
            f"sch.reindex_cache_{side}('C', 0, 'local', lambda i, j: (i + j,))",
            f"(vi + vj) of buffer `{buffer}` may be the same for different elements",
            "block C",
        )
        for side, buffer in (("read", "A"), ("write", "C"))
    ],
    _case(
        "read_before_and_after",
        "readers = [B('B'), B('D')]\nsch.cache_read('B', 0, 'local', readers)",
        "one copy of buffer `A` is not enough for block `B` and block `D`",
        "block D",
        "block W",
    ),
    _case(
        "shifted_update",
        "own = [B('U')]\nsch.cache_read('U', 0, 'local', own)",
        "that it wrote in other iterations",
        "block U",
    ),
    _case(
        "doubled_update", "own = [B('U')]\nsch.cache_read('U', 0, 'local', own)", "that it has just written", "block U"
    ),
    _case(
        "pointer_update",
        "own = [B('U')]\nsch.cache_read('U', 0, 'local', own)",
        "in place through its pointer",
        "block U",
    ),
    _case(
        "single",
        "sch.transform_layout('C', ('write', 0), lambda i, j: (i // 3, i % 3, j), 0)",
        "pad_value is 0, buffer `C` holds float32",
    ),
    _case(
        "read_inside",
        "inner = [B('I')]\nsch.cache_read('O', 0, 'local', inner)",
        "block `I` does not read what block `B` writes",
        "block I",
        "block B",
    ),
    _case(
        "cut_producer",
        "sch.reverse_compute_inline('C')",
        "its predicate i < 6 cannot be implied from the synthesized predicate",
        "block C",
        "block B",
    ),
    _case(
        "read_then_written",
        "sch.cache_write('W', 0, 'local')",
        "in the next iteration of a loop around both",
        "block R",
        "block W",
    ),
    _case(
        "overwritten_input",
        "sch.reindex_cache_read('B', 0, 'local', lambda i, j: (i, j))",
        "does not read what block `W` writes",
        "block B",
        "block W",
    ),
    _case(
        "overwritten_input",
        "sch.cache_read('B', 0, 'local')",
        "reads buffer `A` before block `W` writes it, so one copy is not enough",
        "block B",
        "block W",
    ),
    _case("single", "sch.bind(L('C')[0], 'threadIdx')", "there are no threads `threadIdx`", "loop i"),
    _case(
        "single",
        "i, j = L('C')\nsch.bind(i, 'threadIdx.x')\nsch.bind(j, 'threadIdx.x')",
        "loop `i`, in a nest with loop `j`, is bound to `threadIdx.x` already",
        "loop j",
    ),
    _case(
        "overwritten_beside",
        "sch.compute_at('B', L('C')[0])",
        "overwrites buffer `A`, which block `B` may still need",
        "block W",
        "block B",
    ),
    _case(
        "written_back",
        "sch.reverse_compute_at('W', L('B')[0])",
        "overwrites buffer `A`, which block `B` may still need",
        "block W",
        "block B",
    ),
    _case("overwritten_input", "sch.compute_inline('B')", "before the last consumer has it", "block W"),
    _case(
        "sum_chain",
        "_, inner = sch.split(L('B')[1], [None, 11])\nsch.rfactor(inner, 0)",
        "from running at all",
        "loop k_1",
    ),
    _case(
        "window",
        "copy = sch.read_at(L('C')[1], 'C', 0, 'global')\nsch.rolling_buffer(copy, 0)",
        "writes several elements",
        "block B_global",
    ),
    _case(
        "once_of_two", "sch.transform_block_layout('C', lambda i: (i,))", "depends on a loop that binds none", "block C"
    ),
    *_for_all(
        "late_sum",
        "may hold in a later iteration of a loop and not in the first one",
        "block C",
        "decompose_reduction('C', L('C')[0])",
        "reindex_cache_read('C', 0, 'local', lambda i, k: (i,))",
        "reindex_cache_write('C', 0, 'local', lambda i, k: (i,))",
    ),
    _case(
        "padded_rows",
        "sch.reverse_compute_at('P', L('B')[0])",
        "reaches [2, 9] alone; the rest would be lost",
        "block P",
    ),
    _case(
        "padded_rows_reversed",
        "sch.reverse_compute_at('P', L('B')[0])",
        "reaches [0, 7] alone; the rest would be lost",
        "block P",
    ),
    *_for_all(
        "repeated_sum", "runs block `C` again", "loop r", "blockize(L('C')[1])", "tensorize(L('C')[1], 'test.copy')"
    ),
    *_for_all(
        "matching_sum",
        "buffer `A` is matched, in part and so under another name, in block `C`",
        "block C",
        "reindex('C', ('read', 0))",
        "reindex_cache_read('C', 0, 'local', lambda i, k: (i, k))",
    ),
    _case(
        "matching_writer",
        "sch.reindex_cache_write('B', 0, 'local', lambda i, j: (i, j))",
        "is matched, in part",
        "block B",
    ),
    _case("matching_producer", "sch.compute_inline('B')", "matches a part of buffer `A` as `M`", "block B"),
    _case(
        "matching_producer", "sch.decompose_padding('B', L('B')[0])", "matches a part of buffer `A` as `M`", "block B"
    ),
    _case("matching_consumer", "sch.reverse_compute_inline('C')", "matches a part of buffer `A` as `M`", "block C"),
    *_for_all(
        "matching_sum",
        "matches a part of buffer `A` as `M`",
        "block C",
        "decompose_reduction('C', L('C')[0])",
        "blockize(L('C')[1])",
        "tensorize(L('C')[1], 'test.copy')",
        "rfactor(L('C')[1], 0)",
        "pad_einsum('C', [3, 3])",
    ),
    _case(
        "matched_row",
        "sch.transform_layout('B', ('write', 0), lambda i, j: (j, i))",
        "which knows the old layout",
        "block C",
    ),
    _case("from_third", "sch.reindex('C', ('write', 0))", "runs for all values of its variables", "block C"),
    _case("half_taken", "sch.reverse_compute_at('C', L('B')[0])", "it would write more than before", "block C"),
    _case("repeated_sum", "i, r, k = L('C')\nsch.reorder(k, r)", "repeats block `C`", "loop r", "block C"),
    _case("late_double_sum", "sch.rfactor(L('C')[2], 0)", "may hold in a later iteration of a loop", "block C"),
    _case(
        "shared_loop",
        "sch.rfactor(L('C')[2], 0)",
        "is used by a data parallel and by a reduced variable",
        "loop m",
        "block C",
    ),
    _case("sum_from_two", "sch.rfactor(L('C')[1], 0)", "does not start at 0", "loop k"),
    _case("half_sums", "sch.rfactor(L('B')[1], 0)", "is not a stage pipeline", "block root"),
    _case("argmax_twice", "sch.rfactor(L('V')[0], 0)", "one to each, at the same indices", "block V"),
    _case("argmax_elsewhere", "sch.rfactor(L('V')[0], 0)", "one to each, at the same indices", "block V"),
    *[
        _case(program, f"sch.{call}", "buffer `B` is also used by its pointer", f"block {named}")
        for program in ("pointer_chain", "address_chain")
        for call, named in (
            ("compute_inline('B')", "B"),
            ("reverse_compute_inline('C')", "C"),
            ("transform_layout('B', 'B', lambda i, j: (j, i))", "B"),
            ("unsafe_set_dtype('B', 0, 'float64')", "B"),
        )
    ],
    _case("pointer", "sch.pad_einsum('C', [3, 3])", "buffer `A` is also used by its pointer", "block C"),
    _case(
        "pointer_part", "sch.unsafe_set_dtype('B', 0, 'float64')", "buffer `R` is also used by its pointer", "block B"
    ),
    *_for_all(
        "chain",
        "is not injective",
        "block C",
        "transform_layout('C', 'B', lambda i, j: (i, j // 2))",
        "transform_layout('C', 'B', lambda i, j: (i % 4, j))",
        "transform_layout('C', 'B', lambda i, j: (i + j,))",
    ),
    *_for_all(
        "accumulated_sum",
        "so a copy that it only reads is not enough",
        "block C",
        "reindex('C', ('read', 0))",
        "reindex_cache_read('C', 0, 'local', lambda i, k: (i,))",
    ),
    *_for_all(
        "single",
        "leads to indices that may be negative",
        "block C",
        "reindex_cache_read('C', 0, 'local', lambda i, j: (i - 1, j))",
        "reindex_cache_write('C', 0, 'local', lambda i, j: (i - 1, j))",
    ),
    _case("beside_nothing", "sch.reverse_compute_at('C', L('B')[0])", "may have no iterations", "block C", "loop i"),
    _case("one_row", "sch.pad_einsum('C', [4, 1])", "what it writes to `C` is not indexed by `vi`", "block C"),
    _case("rows", "sch.pad_einsum('C', [3])", "writes only a part of buffer `C`", "block C"),
    _case(
        "squared_loop", "sch.transform_block_layout('C', lambda i, j: (j, i))", "are bound to the same loop", "block C"
    ),
    _case(
        "at_one_of_two",
        "sch.compute_at('B', L('C')[1])",
        "the condition `i * 2 + u == 3` of block `B` cannot be expressed in its variables",
        "block B",
    ),
    _case(
        "at_one_of_two",
        "sch.reverse_compute_at('C', L('B')[1])",
        "the condition `i * 2 + u == 3` of block `C` cannot be expressed in its variables",
        "block C",
    ),
]

_FACTORS = [
    _case("chain", "sch.cache_factor('C', 0, 'global')", "does not add a product to what it stores", "block C"),
    _case("matmul", "sch.cache_factor('C', 2, 'global')", "of 2 factors; there is no factor 2", "block C"),
    _case("product_of_half", "sch.cache_factor('C', 2, 'global')", "reads nothing, or has effects", "block C"),
    _case("product_of_half", "sch.cache_factor('C', 0, 'global')", "does not run for all values", "block C"),
    _case(
        "product_beside",
        "sch.cache_factor('C', 1, 'global')",
        "writes buffer `B`, which the factor",
        "block C",
        "block B",
    ),
    _case("product_of_row", "sch.cache_factor('C', 0, 'global')", "is not the same all over its scope", "block C"),
    _case("chain", "sch.select_branches('C')", "has no `T.if_then_else`", "block C"),
    _case("branch_divides", "sch.select_branches('C')", "which may be zero when the other one is taken", "block C"),
    _case("branch_outside", "sch.select_branches('C')", "which may lie outside its 8 elements", "block C"),
    _case("branch_calls", "sch.select_branches('C')", "in a branch, which has effects", "block C"),
    _case("branch_of_statement", "sch.select_branches('C')", "has blocks or `if` statements inside", "block C"),
]

_INSIDE = [
    _case("loops_inside", "sch.compute_inline('B')", "`j` inside, not through a binding", "block B"),
    _case("loops_inside", "sch.reverse_compute_inline('C')", "`i` inside, not through a binding", "block C"),
    _case("loops_inside", "sch.pad_einsum('B', [3, 3])", "`j` inside, not through a binding", "block B"),
    _case("loops_inside", "sch.reindex('B', ('read', 0))", "`j` inside, not through a binding", "block B"),
    _case("sum_of_loop", "sch.rfactor(L('C')[1], 0)", "`i` inside, not through a binding", "block C"),
    _case("half_of_rows", "sch.reverse_compute_inline('C')", "runs for every value of its variables", "block C"),
]

CASES: list[Case] = [*_INSIDE, *_FACTORS, *_SHARED, *_SMALL, *_LOOPS, *_BLOCKS, *_MOVED, *_REDUCED, *_STORED, *_KEPT]

# Pairs of a primitive and words of a check that it calls but that others of its checks come before, each with why.
# "No known program" marks a guard that no program was found for, not one proved idle.
UNREACHABLE: dict[tuple[str, str], str] = {
    ("blockize", "may hold in a later iteration"): "no known program: with such a condition, dividing fails first",
    ("tensorize", "may hold in a later iteration"): "as for blockize",
    ("blockize", "may run"): "no known program: with such bindings, dividing fails first",
    ("tensorize", "may run"): "as for blockize",
    ("merge", "would run before"): "the bodies keep their order, so no dependence turns round",
    ("merge", "may still need in other iterations"): "its own check of what a later loop overwrites comes first",
    ("cache_write", "does not read what"): "it names no consumers, so those that read what is written are taken",
    ("reindex_cache_write", "does not read what"): "as for cache_write",
    ("reindex_cache_read", "and so updates"): "a block with an init reads no buffer that it writes",
    ("compute_at", "have not written yet"): "the block moves after its producers, to where all it gives is computed",
    ("compute_at", "it would write more"): "asked of reverse_compute_at alone, in what both share",
    ("compute_at", "the rest would be lost"): "asked of reverse_compute_at alone, in what both share",
    ("compute_at", "would reduce"): "a reduction writes at no reduced variable, so all of them go along whole",
    ("compute_at", "would reduce each term once"): "asked of reverse_compute_at alone, in what both share",
    ("compute_at", "would run again"): "asked of reverse_compute_at alone, in what both share",
    ("compute_at", "may have no iterations"): "asked of reverse_compute_at alone, in what both share",
    ("reverse_compute_at", "is an output block"): "asked of compute_at alone, in what both share",
    ("reverse_compute_inline", "is matched in block"): "what the two blocks match is refused before",
    ("reverse_compute_inline", "is the only leaf"): "the block has a producer beside it",
    ("rfactor", "the root block"): "the block is below a loop",
}

# Checks that no primitive calls, tested on the state itself.
OUTSIDE = {" is the root block, which no scope holds"}
