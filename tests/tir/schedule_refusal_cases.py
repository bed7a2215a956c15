"""Calls that are refused: for each primitive and each of its checks one case.

A case is the name of a function of `schedule_refusal_...`, lines of which the last is refused, the error's
code (`a or b` where primitives differ), and the blocks and loops that the error must name and underline. In the lines `B(name)`
is a block, `L(name)` are its loops.
"""

from __future__ import annotations

from typing import NamedTuple


class Case(NamedTuple):
    program: str
    lines: str
    code: str
    marks: tuple[str, ...] = ()

    @property
    def id(self) -> str:
        return f"{self.lines.splitlines()[-1]} on {self.program}"


def _case(program: str, lines: str, code: str, *marks: str) -> Case:
    return Case(program, lines, code, marks)


def _for_all(program: str, code: str, mark: str, *calls: str) -> list[Case]:
    """The same refusal of several primitives."""
    return [_case(program, f"sch.{call}", code, *([mark] if mark else [])) for call in calls]


# ---------------------------------------------------------------------------- checks that many primitives share

_SHARED = [
    *_for_all(
        "chain",
        "schedule.root_block",
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
        "schedule.root_block",
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
        "schedule.not_stage_pipeline",
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
        "schedule.unknown_storage_scope",
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
    _case("in_place", "sch.cache_inplace('C', 0, 'cellar')", "schedule.unknown_storage_scope"),
    *_for_all(
        "chain",
        "schedule.buffer_not_accessed",
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
        "schedule.buffer_not_accessed",
        "block C",
        "cache_read('C', 'Q', 'local')",
        "cache_inplace('C', 'Q', 'local')",
        "read_at(L('C')[0], 'C', 'Q', 'local')",
        "reindex_cache_read('C', 'Q', 'local', lambda i, j: (i, j))",
    ),
    *_for_all(
        "chain",
        "schedule.buffer_not_accessed or transform_layout.buffer_not_found",
        "block C",
        "reindex('C', 'Q')",
        "transform_layout('C', 'Q', lambda i, j: (j, i))",
        "set_axis_separator('C', 'Q', [1])",
    ),
    *_for_all(
        "chain",
        "schedule.buffer_index_out_of_range or transform_layout.buffer_not_found",
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
        "schedule.buffer_not_allocated",
        "block C",
        "set_scope('C', 0, 'local')",
        "storage_align('C', 0, 0, 8, 1)",
        "unsafe_set_dtype('C', 0, 'float16')",
    ),
    *_for_all(
        "in_place",
        "schedule.updates_in_place",
        "block C",
        "cache_write('C', 0, 'local')",
        "reindex('C', ('write', 0))",
        "write_at(L('C')[0], 'C', 0, 'local')",
        "reindex_cache_read('C', 0, 'local', lambda i, j: (i, j))",
        "reindex_cache_write('C', 0, 'local', lambda i, j: (i, j))",
    ),
    *_for_all(
        "two_writers",
        "schedule.several_writers",
        "block B0",
        "cache_read('C', 0, 'local')",
        "cache_write('B0', 0, 'local')",
        "reindex_cache_read('C', 0, 'local', lambda i, j: (i, j))",
        "reindex_cache_write('B0', 0, 'local', lambda i, j: (i, j))",
    ),
    *_for_all(
        "two_writers",
        "schedule.not_complete_block or schedule.not_complete_or_reduction",
        "block B0",
        "compute_at('B0', L('C')[0])",
        "compute_inline('B0')",
    ),
    *_for_all(
        "chain",
        "schedule.output_block",
        "block C",
        "compute_at('C', L('B')[0])",
        "compute_inline('C')",
        "rolling_buffer('C', 0)",
    ),
    *_for_all(
        "square",
        "reorder.bindings_not_affine or schedule.bindings_not_affine",
        "block C",
        "reorder(*reversed(L('C')))",
        "parallel(L('C')[0])",
        "vectorize(L('C')[0])",
        "bind(L('C')[0], 'threadIdx.x')",
        "write_at(L('C')[1], 'C', 0, 'local')",
    ),
    *_for_all(
        "opaque",
        "schedule.not_complete_or_reduction",
        "block C",
        "parallel(L('C')[0])",
        "vectorize(L('C')[0])",
        "bind(L('C')[0], 'threadIdx.x')",
    ),
    *_for_all(
        "matmul",
        "schedule.loop_not_parallel",
        "loop k",
        "parallel(L('C')[2])",
        "vectorize(L('C')[2])",
        "bind(L('C')[2], 'blockIdx.x')",
    ),
    *_for_all(
        "loop_inside",
        "schedule.loop_variable_used_inside",
        "block B",
        "compute_at('B', L('C')[0])",
        "transform_block_layout('B', lambda i, j: (i * 8 + j,))",
    ),
    _case("loop_inside", "sch.reverse_compute_at('C', L('B')[0])", "schedule.loop_variable_used_inside", "block C"),
    *[
        _case(
            "chain",
            f"loop = L('C')[0]\nsch.annotate(loop, 'note', 1)\nsch.{call}",
            "schedule.loop_annotated_or_bound",
            "loop i",
        )
        for call in (
            "split(loop, [2, 4])",
            "fuse(*L('C'))",
            "loop_partition(loop, [2, None])",
            "merge(L('B')[0], loop)",
        )
    ],
    *_for_all(
        "from_one",
        "schedule.loop_not_from_zero",
        "loop i",
        "split(L('C')[0], [2, 4])",
        "fuse(*L('C'))",
        "loop_partition(L('C')[0], [2, None])",
        "merge(L('C')[0], L('D')[0])",
    ),
    *_for_all(
        "beside",
        "blockize.several_blocks",
        "loop i",
        "blockize(L('C')[0])",
        "rfactor(L('C')[0], 0)",
        "tensorize(L('C')[0], 'dot_16x4_vnni')",
    ),
    *_for_all(
        "sum_of_loops",
        "blockize.variables_not_divisible",
        "loop j",
        "blockize(L('C')[1])",
        "tensorize(L('C')[1], 'dot_16x4_vnni')",
    ),
    *_for_all(
        "chain",
        "read_at.loop_not_around_block",
        "block C",
        "read_at(L('B')[0], 'C', 0, 'local')",
        "write_at(L('B')[0], 'C', 0, 'local')",
    ),
    *_for_all(
        "chain",
        "annotate_buffer_access.unknown_buffer_side",
        "",
        "unsafe_hide_buffer_access('C', 'middle', [0])",
        "annotate_buffer_access('C', 0, 'middle', lambda i, j: (i, j))",
    ),
]

# ---------------------------------------------------------------------------- looking up, sampling, marks

_SMALL = [
    _case("chain", "sch.get_block('E')", "get_block.unknown_name"),
    _case("chain", "sch.get_block('C', 'other')", "get_block.unknown_function"),
    _case("same_names", "sch.get_block('C')", "get_block.ambiguous_name", "block C"),
    _case("module", "sch.get_block('F')", "get_block.several_functions"),
    _case(
        "chain",
        "sch.annotate('B', 'note', 1)\nB('B')\nsch.unannotate('C', 'note')",
        "unannotate.no_annotation",
        "block C",
    ),
    _case("chain", "sch.unannotate(L('B')[0], 'note')", "unannotate.no_annotation", "loop i"),
    _case("chain", "sch.sample_categorical([1, 2], [1.0])", "sample_categorical.wrong_probabilities"),
    _case("chain", "sch.sample_categorical([1, 2], [0.5, 0.5], 2)", "sample_categorical.decision_out_of_range"),
    _case("chain", "sch.sample_perfect_tile(L('C')[0], 0)", "sample_perfect_tile.wrong_factor_count", "loop i"),
    _case(
        "chain",
        "sch.sample_perfect_tile(L('C')[0], 2, decision=[2, 2, 2])",
        "sample_perfect_tile.wrong_decision",
        "loop i",
    ),
    _case(
        "chain",
        "sch.sample_partitioned_tile(L('C')[0], 2, 3)",
        "sample_partitioned_tile.position_out_of_range",
        "loop i",
    ),
    _case(
        "chain",
        "sch.sample_partitioned_tile(L('C')[0], 2, 1, 0)",
        "sample_partitioned_tile.factor_not_positive",
        "loop i",
    ),
    _case(
        "chain",
        "sch.sample_partitioned_tile(L('C')[0], 2, 1, 2, decision=[8])",
        "sample_partitioned_tile.wrong_decision",
        "loop i",
    ),
    _case("chain", "sch.sample_perfect_tile(L('C')[0], 2, 0)", "sample_perfect_tile.wrong_innermost_factor", "loop i"),
    _case(
        "chain",
        "b = B('B')\nsch.get(sch.copy().get_sref(b))",
        "schedule.statement_of_other_schedule",
    ),
    _case("chain", "i = L('C')[0]\nsch.sealed_by = 'version `v`'\nsch.parallel(i)", "schedule.sealed"),
    _case(
        "chain",
        "loop = L('C')[0]\nsch.fuse(*L('C'))\nsch.split(loop, [2, 4])",
        "schedule.removed_statement",
    ),
    _case(
        "chain",
        "sch.annotate_buffer_access('C', 0, 'read', lambda i, j: (i,))",
        "annotate_buffer_access.wrong_dimensions",
        "block C",
    ),
    _case("chain", "sch.storage_align('B', 0, 2, 8, 1)", "storage_align.axis_out_of_range", "block B"),
    _case("chain", "sch.storage_align('B', 0, 0, 0, 1)", "storage_align.factor_not_positive", "block B"),
]

# ---------------------------------------------------------------------------- loops

_LOOPS = [
    _case(
        "single",
        "sch.split(L('C')[0], [None, None])",
        "loop_partition.several_open_factors or split.several_open_factors",
        "loop i",
    ),
    _case("single", "sch.split(L('C')[0], [])", "split.no_factors", "loop i"),
    _case("single", "sch.split(L('C')[0], [0, 8])", "split.factor_not_positive", "loop i"),
    _case(
        "single",
        "sch.split(L('C')[0], [1 << 16, 1 << 16])",
        "schedule.loop_too_long",
        "loop i",
    ),
    _case(
        "single",
        "sch.split(L('C')[0], [1 << 15, 1 << 15])\nsch.fuse(*L('C'))",
        "schedule.loop_too_long",
    ),
    _case("single", "sch.split(L('C')[0], [2, 2])", "split.factors_too_small", "loop i"),
    _case("single", "sch.fuse()", "fuse.no_loops"),
    _case("beside", "sch.fuse(L('C')[0], L('C')[1])", "schedule.loops_not_nested", "loop i", "loop j"),
    _case("triangle", "sch.fuse(*L('C'))", "schedule.bounds_depend_on_loop", "loop j"),
    _case("single", "i, j = L('C')\nsch.reorder(i, i)", "reorder.repeated_loop", "loop i"),
    _case("chain", "sch.reorder(L('B')[0], L('C')[0])", "reorder.not_a_chain", "loop i"),
    _case("beside", "sch.reorder(*reversed(L('C')))", "reorder.not_single_branch", "loop i", "loop j"),
    _case("opaque", "sch.reorder(*reversed(L('C')))", "reorder.opaque_variable", "block C"),
    _case(
        "matmul",
        "i, j, k = L('C')\nf = sch.fuse(j, k)\na, b = sch.split(f, [8, None])\nsch.reorder(b, a)",
        "reorder.mixed_loops",
        "loop j_k_fused_0",
    ),
    _case("chain", "sch.add_unit_loop('root')", "add_unit_loop.root_block", "block root"),
    _case("symbolic", "sch.loop_partition(L('C')[0], [2, None])", "loop_partition.symbolic_extent", "loop i"),
    _case(
        "single",
        "sch.loop_partition(L('C')[0], [None, None])",
        "loop_partition.several_open_factors or split.several_open_factors",
        "loop i",
    ),
    _case("single", "sch.loop_partition(L('C')[0], [-1, None])", "loop_partition.factor_not_positive", "loop i"),
    _case("single", "sch.loop_partition(L('C')[0], [4, 4])", "loop_partition.factors_too_large", "loop i"),
    _case(
        "matmul",
        "sch.loop_partition(L('C')[2], [2, None])",
        "loop_partition.splits_reduction",
        "loop k",
        "block C",
    ),
    _case("single", "sch.merge(L('C')[0])", "merge.too_few_loops"),
    _case("single", "sch.merge(*L('C'))", "merge.nested_loops", "loop i"),
    _case(
        "module",
        "sch.merge(sch.get_loops(sch.get_block('F', 'f'))[0], sch.get_loops(sch.get_block('G', 'g'))[0])",
        "merge.different_functions",
        "loop i",
    ),
    _case("three", "sch.merge(L('B')[0], L('D')[1])", "merge.nested_loops", "loop i", "loop j"),
    _case(
        "three",
        "sch.merge(L('B')[1], L('C')[0])",
        "merge.several_statements or reindex.several_statements",
        "loop j",
        "loop i",
    ),
    _case("sum_beside", "sch.merge(L('S')[1], L('D')[1])", "merge.different_extents", "loop j"),
    _case("outputs", "sch.merge(L('C')[0], L('E')[0])", "merge.not_adjacent", "loop i"),
    _case("overwrite", "sch.merge(L('B')[0], L('C')[0])", "merge.dependent_loops", "block C"),
    _case("neighbours", "sch.merge(L('B')[0], L('C')[0])", "schedule.reads_before_producer", "block C"),
]

# ---------------------------------------------------------------------------- blocks made of others

_BLOCKS = [
    _case("chain", "sch.blockize([])", "blockize.no_blocks"),
    _case("chain", "c = B('C')\nsch.blockize([c, c])", "blockize.repeated_block", "block C"),
    _case("chain", "both = [B('C'), B('root')]\nsch.blockize(both)", "blockize.root_block", "block root"),
    _case(
        "nested",
        "both = [B('N'), B('C')]\nsch.blockize(both)",
        "blockize.different_scopes or compute_at.different_scopes",
        "block C",
        "block N",
    ),
    _case("fork", "both = [B('B'), B('C')]\nsch.blockize(both)", "blockize.blocks_not_adjacent", "block B", "block C"),
    _case("three", "both = [B('D'), B('C')]\nsch.blockize(both)", "blockize.block_in_between", "block B"),
    _case(
        "sums_below",
        "both = [B('B'), B('C')]\nsch.blockize(both)",
        "blockize.variables_not_divisible",
        "block B",
    ),
    _case("guarded_outside", "sch.blockize([B('C')])", "blockize.predicate_uses_outer_loops", "block C"),
    _case("reduced_outside", "sch.blockize([B('C')])", "blockize.reduced_over_outer_loops", "block C"),
    _case("chain", "sch.tensorize(L('C')[1], 'test.rootless')", "tensorize.description_without_root"),
    _case(
        "numbered",
        "sch.tensorize(L('Y')[1], 'test.add_variable')",
        "tensorize.mismatch",
        "loop i",
    ),
    *[
        _case(program, f"sch.tensorize(L('Y')[0], 'test.{intrinsic}')", code, "loop i")
        for program, intrinsic, code in (
            ("add_one", "copy", "tensorize.mismatch"),
            ("branch", "either", "tensorize.mismatch"),
            ("called", "called_with_two", "tensorize.mismatch"),
            ("add_one", "add_two", "tensorize.mismatch"),
            ("copy_8", "copy", "tensorize.mismatch"),
            ("no_variable", "copy", "tensorize.mismatch"),
            ("accumulated", "copy", "tensorize.mismatch"),
            ("accumulated", "sum", "tensorize.mismatch"),
            ("copy_float", "copy", "tensorize.mismatch"),
            ("add_other", "double", "tensorize.mismatch"),
            ("copy", "copy_rows", "tensorize.mismatch"),
            ("reversed", "copy", "tensorize.mismatch"),
            ("add_far", "double", "tensorize.mismatch"),
            ("three_stores", "two_stores", "tensorize.mismatch"),
        )
    ],
]

# ---------------------------------------------------------------------------- blocks moved and written into others

_MOVED = [
    _case(
        "nested",
        "sch.compute_at('N', L('C')[0])",
        "blockize.different_scopes or compute_at.different_scopes",
        "block N",
        "loop i",
    ),
    _case(
        "nested",
        "sch.reverse_compute_at('N', L('C')[0])",
        "blockize.different_scopes or compute_at.different_scopes",
        "block N",
        "loop i",
    ),
    _case("chain", "sch.compute_at('B', L('B')[0])", "compute_at.loop_is_ancestor", "block B", "loop i"),
    _case("chain", "sch.reverse_compute_at('C', L('C')[0])", "compute_at.loop_is_ancestor", "block C", "loop i"),
    _case("opaque_chain", "sch.reverse_compute_at('C', L('B')[0])", "schedule.not_complete_or_reduction", "block C"),
    _case("in_place_chain", "sch.compute_at('B', L('C')[0])", "schedule.not_complete_or_reduction", "block B"),
    _case("two_readers", "sch.compute_at('B', L('C')[0])", "compute_at.not_covered", "block D"),
    _case("fork", "sch.reverse_compute_at('C', L('D')[0])", "compute_at.not_covered", "block B"),
    _case("chain", "sch.compute_at('B', L('C')[0], index=5)", "compute_at.index_out_of_range", "loop i"),
    _case("chain", "sch.reverse_compute_at('C', L('B')[0], index=5)", "compute_at.index_out_of_range", "loop i"),
    _case("bounded", "sch.compute_at('W', L('S')[0])", "schedule.binding_loads_buffer", "block W"),
    _case("bounded", "sch.reverse_compute_at('W', L('F')[0])", "schedule.binding_loads_buffer", "block W"),
    _case("row", "sch.compute_at('B', L('C')[0])", "compute_at.region_not_produced", "block B"),
    _case("first_row", "sch.reverse_compute_at('C', L('B')[0])", "compute_at.region_not_produced", "block C"),
    _case("halved", "sch.compute_at('B', L('C')[0])", "compute_at.index_not_solvable", "block B"),
    _case("halved", "sch.reverse_compute_at('C', L('B')[0])", "compute_at.index_not_solvable", "block C"),
    _case("overwritten_input", "sch.compute_at('B', L('C')[0])", "schedule.runs_before_producer", "block W", "block B"),
    _case(
        "read_first", "sch.reverse_compute_at('C', L('B')[0])", "schedule.runs_before_producer", "block C", "block D"
    ),
    _case("crossed", "sch.reverse_compute_at('C', L('B')[0])", "schedule.reads_before_producer", "block C"),
    _case(
        "sum_chain",
        "sch.compute_inline('B')",
        "compute_inline.reduction or reverse_compute_inline.reduction",
        "block B",
    ),
    _case("two_stores", "sch.compute_inline('B')", "compute_inline.several_buffers_written", "block B"),
    _case("steps", "sch.compute_inline('B')", "compute_inline.not_one_store", "block B"),
    _case("diagonal", "sch.compute_inline('B')", "compute_inline.indices_not_bijective", "block B"),
    _case("alone", "sch.compute_inline('B')", "compute_inline.only_leaf", "block B"),
    _case("matched", "sch.compute_inline('B')", "compute_inline.buffer_matched", "block C"),
    _case("matched_writer", "sch.reverse_compute_inline('C')", "schedule.block_matches_buffer", "block B"),
    _case(
        "into_sum",
        "sch.reverse_compute_inline('S')",
        "compute_inline.reduction or reverse_compute_inline.reduction",
        "block S",
    ),
    _case(
        "fork",
        "sch.reverse_compute_inline('C')",
        "reverse_compute_inline.several_buffers_read",
        "block C",
    ),
    _case("two_readers", "sch.reverse_compute_inline('C')", "reverse_compute_inline.no_single_producer", "block C"),
    _case("opaque_chain", "sch.reverse_compute_inline('C')", "schedule.not_complete_block", "block C"),
    _case("guarded", "sch.reverse_compute_inline('C')", "reverse_compute_inline.predicate", "block C"),
    _case(
        "steps",
        "sch.reverse_compute_inline('C')",
        "decompose_padding.not_one_store or reverse_compute_inline.not_one_store",
        "block C",
    ),
    _case("neighbours", "sch.reverse_compute_inline('C')", "reverse_compute_inline.several_reads", "block C"),
    _case("folded", "sch.reverse_compute_inline('C')", "reverse_compute_inline.indices_not_invertible", "block C"),
    _case("read_twice", "sch.reverse_compute_inline('C')", "reverse_compute_inline.indices_not_invertible", "block C"),
    _case("wider", "sch.reverse_compute_inline('C')", "reverse_compute_inline.not_covered", "block C"),
]

# ---------------------------------------------------------------------------- reductions, rings, padding

_REDUCED = [
    _case("chain", "sch.decompose_reduction('C', L('C')[0])", "schedule.not_reduction_block", "block C"),
    _case("square_sum", "sch.decompose_reduction('C', L('C')[0])", "schedule.not_reduction_block", "block C"),
    _case("opaque_sum", "sch.decompose_reduction('C', L('C')[0])", "schedule.not_reduction_block", "block C"),
    _case("twice", "sch.decompose_reduction('C', L('C')[0])", "schedule.not_reduction_block", "block C"),
    _case("scatter", "sch.decompose_reduction('C', L('C')[0])", "schedule.not_reduction_block", "block C"),
    _case("chain", "sch.rfactor(L('C')[1], 0)", "schedule.not_reduction_block", "block C"),
    _case(
        "sum_chain",
        "sch.decompose_reduction('B', L('C')[0])",
        "decompose_reduction.loop_not_around_block",
        "block B",
        "loop i",
    ),
    _case(
        "sum_chain",
        "i, k = L('B')\nsch.reorder(k, i)\nsch.decompose_reduction('B', i)",
        "decompose_reduction.loop_below_reduction",
        "loop i",
    ),
    _case("sum_chain", "k = L('B')[1]\nsch.unroll(k)\nsch.rfactor(k, 0)", "rfactor.loop_not_serial", "loop k"),
    _case("sum_chain", "sch.rfactor(L('B')[0], 0)", "rfactor.loop_not_reduced", "loop i"),
    _case("sum_second", "sch.rfactor(L('S')[1], 0)", "rfactor.not_only_reduction", "loop i"),
    _case("sum_chain", "sch.rfactor(L('B')[1], 3)", "rfactor.axis_out_of_range", "loop k"),
    _case("sum_steps", "sch.rfactor(L('C')[1], 0)", "schedule.init_and_update_differ", "block C"),
    _case("difference", "sch.rfactor(L('C')[1], 0)", "schedule.unknown_reducer", "block C"),
    _case("in_place_chain", "sch.rolling_buffer('B', 0)", "rolling_buffer.other_dependences", "block B"),
    _case("chain", "sch.rolling_buffer('B', 0)", "rolling_buffer.no_common_loop", "block B"),
    _case("beside", "sch.rolling_buffer('B', 0)", "rolling_buffer.no_overlap", "block B"),
    _case("matmul", "sch.decompose_padding('C', L('C')[0])", "schedule.not_complete_block", "block C"),
    _case("in_place", "sch.decompose_padding('C', L('C')[0])", "schedule.not_complete_block", "block C"),
    _case(
        "steps",
        "sch.decompose_padding('C', L('C')[0])",
        "decompose_padding.not_one_store or reverse_compute_inline.not_one_store",
        "block C",
    ),
    _case("chain", "sch.decompose_padding('C', L('C')[0])", "decompose_padding.no_condition", "block C"),
    _case(
        "padded_by_variable",
        "sch.decompose_padding('P', L('P')[0])",
        "decompose_padding.padding_not_constant",
        "block P",
    ),
    _case(
        "padded_between", "sch.decompose_padding('P', L('P')[0])", "decompose_padding.condition_not_a_range", "block P"
    ),
    _case(
        "padded_nowhere", "sch.decompose_padding('P', L('P')[0])", "decompose_padding.condition_always_holds", "block P"
    ),
    _case(
        "chain", "sch.decompose_padding('C', L('B')[0])", "decompose_padding.loop_not_around_block", "block C", "loop i"
    ),
    _case(
        "pad_after_read",
        "sch.decompose_padding('P', L('P')[0])",
        "decompose_padding.read_before_padding",
        "block R",
        "loop i",
    ),
    _case("single", "sch.pad_einsum('C', [2])", "pad_einsum.wrong_padding", "block C"),
    _case("opaque", "sch.pad_einsum('C', [3, 1])", "pad_einsum.not_complete_or_reduction", "block C"),
    _case("folded", "sch.pad_einsum('C', [3, 3])", "pad_einsum.index_not_a_variable", "block C"),
    _case("steps", "sch.pad_einsum('C', [3, 3])", "pad_einsum.not_one_store", "block C"),
    _case("largest", "sch.pad_einsum('C', [1, 8])", "pad_einsum.zeros_change_result", "block C"),
    _case("beside", "sch.pad_einsum('C', [3, 3])", "transform_block_layout.several_statements", "block C", "loop i"),
    _case(
        "single",
        "sch.split(L('C')[0], [2, 4])\nsch.pad_einsum('C', [3, 3])",
        "pad_einsum.variable_without_loop",
        "block C",
    ),
]

# ---------------------------------------------------------------------------- copies and layouts

_STORED = [
    _case("chain", "sch.cache_inplace('C', 0, 'local')", "cache_inplace.not_in_place", "block C"),
    _case("beside", "sch.read_at(L('C')[0], 'C', 0, 'local')", "read_at.buffer_written_below", "block B", "loop i"),
    _case(
        "guarded", "sch.write_at(L('C')[0], 'C', 0, 'local')", "write_at.region_not_fully_written", "block C", "loop i"
    ),
    _case("writers_below", "sch.write_at(L('C')[0], 'C', 0, 'local')", "write_at.several_writers", "block D"),
    _case("read_below", "sch.write_at(L('C')[0], 'C', 0, 'local')", "write_at.read_before_copy", "block D", "block C"),
    _case("untouched", "sch.reindex('C', ('read', 0))", "reindex.buffer_used_by_pointer", "block C"),
    _case("loop_in_block", "sch.reindex('C', ('read', 0))", "reindex.index_uses_inner_loop", "block C"),
    _case("neighbours", "sch.reindex('C', ('read', 0))", "reindex.different_indices", "block C"),
    _case("pointer", "sch.reindex('C', ('read', 0))", "reindex.buffer_used_by_pointer", "block C"),
    _case("nested", "sch.reindex('O', ('read', 0))", "reindex.not_a_leaf_block", "block O"),
    _case(
        "beside",
        "sch.reindex('C', ('read', 0))",
        "merge.several_statements or reindex.several_statements",
        "loop j",
        "loop i",
    ),
    *[
        _case(program, f"sch.reindex_cache_{way}('P', 0, 'local', lambda i, j: (i, j))", code, "block P")
        for way in ("read", "write")
        for program, code in (
            ("declared_apart", "reindex.different_indices"),
            ("declared_loop", "reindex.index_uses_inner_loop"),
            ("declared_nested", "reindex.not_a_leaf_block"),
            ("declared_untouched", "reindex.buffer_used_by_pointer"),
            ("declared_pointers", "reindex.buffer_used_by_pointer"),
        )
    ],
    *[
        case
        for side, name in (("read", "O"), ("write", "O"))
        for case in (
            _case(
                "nested",
                f"sch.reindex_cache_{side}('{name}', 0, 'local', lambda i: (i,))",
                "reindex_cache.region_not_an_element",
                "block O",
            ),
            _case(
                "single",
                f"sch.reindex_cache_{side}('C', 0, 'local', tir.IndexMap.from_func(lambda i: (i,), 1))",
                "reindex_cache.wrong_variable_count or transform_block_layout.wrong_variable_count",
                "block C",
            ),
            _case(
                "single",
                f"sch.reindex_cache_{side}('C', 0, 'local', lambda i, j: (i,))",
                "reindex_cache.variable_left_over",
                "block C",
            ),
        )
    ],
    _case(
        "matched_inside",
        "sch.set_axis_separator('N', ('read', 0), [1])",
        "transform_layout.buffer_matched",
        "block N",
    ),
    _case(
        "matched_inside",
        "sch.transform_layout('N', ('read', 0), lambda i, j: (j, i))",
        "transform_layout.buffer_matched",
        "block N",
    ),
    _case(
        "chain",
        "sch.transform_layout('B', ('write', 0), lambda i, j: (i // 3, i % 3, j))",
        "transform_layout.adds_padding",
        "block B",
    ),
    _case(
        "chain",
        "sch.transform_layout('B', ('write', 0), lambda i, j: (i // 3, i % 3, j), "
        "pad_value=tir.IndexMap.from_func(lambda i: (0,), 1))",
        "transform_layout.pad_value_shape",
        "block B",
    ),
    _case(
        "chain",
        "other = sch.get(B('B')).reads[0].buffer\nsch.transform_layout('B', ('write', 0), "
        "lambda i, j: (i // 3, i % 3, j), pad_value=lambda i, j, k: other[0, 0])",
        "transform_layout.pad_value_loads_other_buffer",
        "block B",
    ),
    _case(
        "chain",
        "sch.transform_layout('B', ('write', 0), lambda i, j: (i // 3, i % 3, j), pad_value=lambda i, j, k: i)",
        "transform_layout.pad_value_dtype",
        "block B",
    ),
    _case("chain", "sch.set_axis_separator('B', ('write', 0), [5])", "set_axis_separator.not_ordered", "block B"),
    _case("single", "sch.reorder_block_iter_var('C', [0, 2])", "reorder_block_iter_var.not_a_permutation", "block C"),
    _case(
        "sum_chain",
        "sch.transform_block_layout('B', lambda i, k: (i * 8 + k,))",
        "transform_block_layout.mixed_variables",
        "block B",
    ),
    _case(
        "beside",
        "sch.transform_block_layout('C', lambda i, j: (i * 8 + j,))",
        "transform_block_layout.several_statements",
        "loop i",
    ),
    _case(
        "single",
        "sch.split(L('C')[0], [2, 4])\nsch.transform_block_layout('C', lambda i, j: (i * 8 + j,))",
        "transform_block_layout.variables_not_loops",
        "block C",
    ),
    _case(
        "single",
        "sch.transform_block_layout('C', tir.IndexMap.from_func(lambda i: (i,), 1))",
        "reindex_cache.wrong_variable_count or transform_block_layout.wrong_variable_count",
        "block C",
    ),
    _case(
        "single",
        "sch.transform_block_layout('C', lambda i, j: (i, i))",
        "transform_block_layout.not_bijective",
        "block C",
    ),
    _case(
        "opaque",
        "sch.transform_block_layout('C', lambda i, j: (i, j % 2, j // 2))",
        "transform_block_layout.opaque_variable",
        "block C",
    ),
]

# ---------------------------------------------------------------------------- what would change a result

_KEPT = [
    _case(
        "whole_sum",
        "loop = L('B')[0]\nsch.parallel(loop)\nsch.reverse_compute_at('C', loop)",
        "compute_at.reduction_runs_in_parallel",
        "loop i",
    ),
    _case(
        "sum_chain",
        "sch.merge(L('B')[1], L('C')[1])",
        "schedule.reads_partial_reduction",
        "block C",
        "block B",
    ),
    _case(
        "running_sum",
        "sch.reverse_compute_at('C', L('B')[0])",
        "schedule.reads_partial_reduction",
        "block C",
        "block B",
    ),
    _case(
        "backward_terms",
        "sch.reverse_compute_at('C', L('B')[0])",
        "schedule.reduction_order_not_proved",
        "block C",
    ),
    _case(
        "sum_of_sums",
        "sch.reverse_compute_at('C', L('B')[1])",
        "schedule.terms_reduced_again",
        "block C",
    ),
    _case("used_in_sum", "sch.compute_at('M', L('C')[1])", "schedule.reads_partial_reduction", "block M", "block B"),
    _case("repeated_sum", "sch.decompose_reduction('C', L('C')[1])", "schedule.block_repeated", "loop r"),
    _case("halved_sum", "sch.decompose_reduction('C', L('C')[0])", "schedule.block_may_repeat", "loop i", "block C"),
    *_for_all(
        "padded",
        "schedule.access_outside_buffer",
        "block P",
        "reindex('P', ('read', 0))",
        "reindex_cache_read('P', 0, 'local', lambda i: (i,))",
    ),
    *_for_all(
        "half_stored",
        "schedule.region_not_fully_written",
        "block P",
        "cache_write('P', 0, 'local')",
        "reindex('P', ('write', 0))",
        "write_at(L('P')[0], 'P', 0, 'local')",
        "reindex_cache_write('P', 0, 'local', lambda i: (i,))",
    ),
    *[
        _case(program, "sch.cache_write('P', 0, 'local')", "schedule.region_not_fully_written", "block P")
        for program in ("declared_more", "run_sometimes")
    ],
    *_for_all(
        "sum_over_scope",
        "schedule.reduces_over_outer_loop",
        "block P",
        "cache_write('P', 0, 'local')",
        "write_at(L('P')[0], 'P', 0, 'local')",
        "reindex('P', ('write', 0))",
        "reindex_cache_write('P', 0, 'local', lambda i, k: (i,))",
    ),
    _case(
        "half_reversed",
        "sch.cache_inplace('P', 0, 'local')",
        "schedule.region_not_fully_written",
        "block P",
    ),
    _case(
        "guarded_store",
        "sch.reindex_cache_write('B', 0, 'local', lambda i: (i,))",
        "schedule.access_outside_buffer",
        "block B",
    ),
    _case("together", "sch.reindex('C', ('read', 0))", "reindex.buffer_used_in_loops", "block B", "block C"),
    _case(
        "chain",
        "both = [B('B'), B('C')]\nsch.blockize(both)\nsch.reverse_compute_inline('C')",
        "reverse_compute_inline.buffer_not_local",
        "block C",
    ),
    _case(
        "chain", "others = [B('B')]\nsch.cache_read('C', 0, 'local', others)", "cache_read.buffer_not_read", "block B"
    ),
    *[
        _case(
            "single",
            f"sch.reindex_cache_{side}('C', 0, 'local', lambda i, j: (i + j,))",
            "reindex_cache.not_one_to_one",
            "block C",
        )
        for side in ("read", "write")
    ],
    _case(
        "read_before_and_after",
        "readers = [B('B'), B('D')]\nsch.cache_read('B', 0, 'local', readers)",
        "cache_read.written_in_between",
        "block D",
        "block W",
    ),
    _case(
        "shifted_update",
        "own = [B('U')]\nsch.cache_read('U', 0, 'local', own)",
        "cache_inplace.reads_other_iterations",
        "block U",
    ),
    _case(
        "doubled_update",
        "own = [B('U')]\nsch.cache_read('U', 0, 'local', own)",
        "cache_inplace.reads_written_elements",
        "block U",
    ),
    _case(
        "pointer_update",
        "own = [B('U')]\nsch.cache_read('U', 0, 'local', own)",
        "cache_inplace.updated_by_pointer",
        "block U",
    ),
    _case(
        "single",
        "sch.transform_layout('C', ('write', 0), lambda i, j: (i // 3, i % 3, j), 0)",
        "transform_layout.pad_value_dtype",
    ),
    _case(
        "read_inside",
        "inner = [B('I')]\nsch.cache_read('O', 0, 'local', inner)",
        "schedule.not_a_consumer",
        "block I",
        "block B",
    ),
    _case(
        "cut_producer",
        "sch.reverse_compute_inline('C')",
        "reverse_compute_inline.producer_predicate",
        "block C",
        "block B",
    ),
    _case(
        "read_then_written",
        "sch.cache_write('W', 0, 'local')",
        "cache_write.read_in_next_iteration",
        "block R",
        "block W",
    ),
    _case(
        "overwritten_input",
        "sch.reindex_cache_read('B', 0, 'local', lambda i, j: (i, j))",
        "schedule.not_a_consumer",
        "block B",
        "block W",
    ),
    _case(
        "overwritten_input",
        "sch.cache_read('B', 0, 'local')",
        "cache_read.read_before_write",
        "block B",
        "block W",
    ),
    _case("single", "sch.bind(L('C')[0], 'threadIdx')", "bind.unknown_thread", "loop i"),
    _case(
        "single",
        "i, j = L('C')\nsch.bind(i, 'threadIdx.x')\nsch.bind(j, 'threadIdx.x')",
        "bind.thread_used_twice",
        "loop j",
    ),
    _case(
        "overwritten_beside",
        "sch.compute_at('B', L('C')[0])",
        "schedule.overwrites_before_reader",
        "block W",
        "block B",
    ),
    _case(
        "written_back",
        "sch.reverse_compute_at('W', L('B')[0])",
        "schedule.overwrites_before_reader",
        "block W",
        "block B",
    ),
    _case("overwritten_input", "sch.compute_inline('B')", "compute_inline.source_overwritten", "block W"),
    _case(
        "sum_chain",
        "_, inner = sch.split(L('B')[1], [None, 11])\nsch.rfactor(inner, 0)",
        "rfactor.part_may_be_skipped",
        "loop k_1",
    ),
    _case(
        "window",
        "copy = sch.read_at(L('C')[1], 'C', 0, 'global')\nsch.rolling_buffer(copy, 0)",
        "rolling_buffer.several_elements_at_once",
        "block B_global",
    ),
    _case(
        "once_of_two",
        "sch.transform_block_layout('C', lambda i: (i,))",
        "transform_block_layout.condition_uses_other_loops",
        "block C",
    ),
    *_for_all(
        "late_sum",
        "schedule.condition_of_later_iteration",
        "block C",
        "decompose_reduction('C', L('C')[0])",
        "reindex_cache_read('C', 0, 'local', lambda i, k: (i,))",
        "reindex_cache_write('C', 0, 'local', lambda i, k: (i,))",
    ),
    _case(
        "padded_rows",
        "sch.reverse_compute_at('P', L('B')[0])",
        "compute_at.values_not_produced",
        "block P",
    ),
    _case(
        "padded_rows_reversed",
        "sch.reverse_compute_at('P', L('B')[0])",
        "compute_at.values_not_produced",
        "block P",
    ),
    *_for_all(
        "repeated_sum", "schedule.block_repeated", "loop r", "blockize(L('C')[1])", "tensorize(L('C')[1], 'test.copy')"
    ),
    *_for_all(
        "matching_sum",
        "reindex.buffer_matched",
        "block C",
        "reindex('C', ('read', 0))",
        "reindex_cache_read('C', 0, 'local', lambda i, k: (i, k))",
    ),
    _case(
        "matching_writer",
        "sch.reindex_cache_write('B', 0, 'local', lambda i, j: (i, j))",
        "reindex.buffer_matched",
        "block B",
    ),
    _case("matching_producer", "sch.compute_inline('B')", "schedule.block_matches_buffer", "block B"),
    _case("matching_producer", "sch.decompose_padding('B', L('B')[0])", "schedule.block_matches_buffer", "block B"),
    _case("matching_consumer", "sch.reverse_compute_inline('C')", "schedule.block_matches_buffer", "block C"),
    *_for_all(
        "matching_sum",
        "schedule.block_matches_buffer",
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
        "transform_layout.buffer_matched",
        "block C",
    ),
    _case("from_third", "sch.reindex('C', ('write', 0))", "reindex.block_may_be_skipped", "block C"),
    _case("half_taken", "sch.reverse_compute_at('C', L('B')[0])", "block.may_be_skipped", "block C"),
    _case("repeated_sum", "i, r, k = L('C')\nsch.reorder(k, r)", "reorder.repeating_loop", "loop r", "block C"),
    _case("late_double_sum", "sch.rfactor(L('C')[2], 0)", "schedule.condition_of_later_iteration", "block C"),
    _case(
        "shared_loop",
        "sch.rfactor(L('C')[2], 0)",
        "rfactor.mixed_loop",
        "loop m",
        "block C",
    ),
    _case("sum_from_two", "sch.rfactor(L('C')[1], 0)", "schedule.loop_not_from_zero", "loop k"),
    _case("half_sums", "sch.rfactor(L('B')[1], 0)", "schedule.not_stage_pipeline", "block root"),
    _case("argmax_twice", "sch.rfactor(L('V')[0], 0)", "schedule.init_and_update_differ", "block V"),
    _case("argmax_elsewhere", "sch.rfactor(L('V')[0], 0)", "schedule.init_and_update_differ", "block V"),
    *[
        _case(program, f"sch.{call}", "schedule.buffer_used_by_pointer", f"block {named}")
        for program in ("pointer_chain", "address_chain")
        for call, named in (
            ("compute_inline('B')", "B"),
            ("reverse_compute_inline('C')", "C"),
            ("transform_layout('B', 'B', lambda i, j: (j, i))", "B"),
            ("unsafe_set_dtype('B', 0, 'float64')", "B"),
        )
    ],
    _case("pointer", "sch.pad_einsum('C', [3, 3])", "schedule.buffer_used_by_pointer", "block C"),
    _case("pointer_part", "sch.unsafe_set_dtype('B', 0, 'float64')", "schedule.buffer_used_by_pointer", "block B"),
    *_for_all(
        "chain",
        "transform_layout.not_invertible",
        "block C",
        "transform_layout('C', 'B', lambda i, j: (i, j // 2))",
        "transform_layout('C', 'B', lambda i, j: (i % 4, j))",
        "transform_layout('C', 'B', lambda i, j: (i + j,))",
    ),
    *_for_all(
        "accumulated_sum",
        "reindex.buffer_written",
        "block C",
        "reindex('C', ('read', 0))",
        "reindex_cache_read('C', 0, 'local', lambda i, k: (i,))",
    ),
    *_for_all(
        "single",
        "reindex_cache.negative_index",
        "block C",
        "reindex_cache_read('C', 0, 'local', lambda i, j: (i - 1, j))",
        "reindex_cache_write('C', 0, 'local', lambda i, j: (i - 1, j))",
    ),
    _case(
        "beside_nothing", "sch.reverse_compute_at('C', L('B')[0])", "compute_at.loop_may_be_empty", "block C", "loop i"
    ),
    _case("one_row", "sch.pad_einsum('C', [4, 1])", "pad_einsum.output_not_indexed", "block C"),
    _case("rows", "sch.pad_einsum('C', [3])", "pad_einsum.partial_output", "block C"),
    _case(
        "squared_loop",
        "sch.transform_block_layout('C', lambda i, j: (j, i))",
        "transform_block_layout.loop_bound_twice",
        "block C",
    ),
    _case(
        "at_one_of_two",
        "sch.compute_at('B', L('C')[1])",
        "schedule.condition_not_of_variables",
        "block B",
    ),
    _case(
        "at_one_of_two",
        "sch.reverse_compute_at('C', L('B')[1])",
        "schedule.condition_not_of_variables",
        "block C",
    ),
]

_FACTORS = [
    _case("chain", "sch.cache_factor('C', 0, 'global')", "cache_factor.no_product", "block C"),
    _case("matmul", "sch.cache_factor('C', 2, 'global')", "cache_factor.no_such_factor", "block C"),
    _case("product_of_half", "sch.cache_factor('C', 2, 'global')", "cache_factor.factor_not_pure", "block C"),
    _case("product_of_half", "sch.cache_factor('C', 0, 'global')", "cache_factor.block_not_complete", "block C"),
    _case(
        "product_beside",
        "sch.cache_factor('C', 1, 'global')",
        "cache_factor.factor_overwritten",
        "block C",
        "block B",
    ),
    _case("product_of_row", "sch.cache_factor('C', 0, 'global')", "cache_factor.extent_not_constant", "block C"),
    _case("chain", "sch.select_branches('C')", "select_branches.no_conditional", "block C"),
    _case("branch_divides", "sch.select_branches('C')", "select_branches.division_by_zero", "block C"),
    _case("branch_outside", "sch.select_branches('C')", "select_branches.load_outside_buffer", "block C"),
    _case("branch_calls", "sch.select_branches('C')", "select_branches.call_with_effects", "block C"),
    _case("branch_of_statement", "sch.select_branches('C')", "select_branches.nested_statements", "block C"),
]

_INSIDE = [
    _case("loops_inside", "sch.compute_inline('B')", "schedule.loop_variable_used_inside", "block B"),
    _case("loops_inside", "sch.reverse_compute_inline('C')", "schedule.loop_variable_used_inside", "block C"),
    _case("loops_inside", "sch.pad_einsum('B', [3, 3])", "schedule.loop_variable_used_inside", "block B"),
    _case("loops_inside", "sch.reindex('B', ('read', 0))", "schedule.loop_variable_used_inside", "block B"),
    _case("sum_of_loop", "sch.rfactor(L('C')[1], 0)", "schedule.loop_variable_used_inside", "block C"),
    _case("half_of_rows", "sch.reverse_compute_inline('C')", "block.may_be_skipped", "block C"),
]

CASES: list[Case] = [*_INSIDE, *_FACTORS, *_SHARED, *_SMALL, *_LOOPS, *_BLOCKS, *_MOVED, *_REDUCED, *_STORED, *_KEPT]

# Pairs of a primitive and words of a check that it calls but that others of its checks come before, each with why.
# "No known program" marks a guard that no program was found for, not one proved idle.
UNREACHABLE: dict[tuple[str, str], str] = {
    (
        "blockize",
        "schedule.condition_of_later_iteration",
    ): "no known program: with such a condition, dividing fails first",
    ("tensorize", "schedule.condition_of_later_iteration"): "as for blockize",
    ("blockize", "schedule.block_may_repeat"): "no known program: with such bindings, dividing fails first",
    ("tensorize", "schedule.block_may_repeat"): "as for blockize",
    ("merge", "schedule.runs_before_producer"): "the bodies keep their order, so no dependence turns round",
    ("merge", "schedule.overwrites_before_reader"): "its own check of what a later loop overwrites comes first",
    ("cache_write", "schedule.not_a_consumer"): "it names no consumers, so those that read what is written are taken",
    ("reindex_cache_write", "schedule.not_a_consumer"): "as for cache_write",
    ("reindex_cache_read", "schedule.reduces_over_outer_loop"): "a block with an init reads no buffer that it writes",
    (
        "compute_at",
        "schedule.reads_before_producer",
    ): "the block moves after its producers, to where all it gives is computed",
    ("compute_at", "block.may_be_skipped"): "asked of reverse_compute_at alone, in what both share",
    ("compute_at", "compute_at.values_not_produced"): "asked of reverse_compute_at alone, in what both share",
    (
        "compute_at",
        "compute_at.reduction_runs_in_parallel",
    ): "a reduction writes at no reduced variable, so all of them go along whole",
    ("compute_at", "schedule.reduction_order_not_proved"): "asked of reverse_compute_at alone, in what both share",
    ("compute_at", "schedule.terms_reduced_again"): "asked of reverse_compute_at alone, in what both share",
    ("compute_at", "compute_at.loop_may_be_empty"): "asked of reverse_compute_at alone, in what both share",
    ("reverse_compute_at", "schedule.output_block"): "asked of compute_at alone, in what both share",
    ("reverse_compute_inline", "compute_inline.buffer_matched"): "what the two blocks match is refused before",
    ("reverse_compute_inline", "compute_inline.only_leaf"): "the block has a producer beside it",
    ("rfactor", "schedule.root_block"): "the block is below a loop",
}

# Checks that no primitive calls, tested on the state itself.
OUTSIDE = {" is the root block, which no scope holds"}
