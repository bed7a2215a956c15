"""Dumps of Ascend's graphs as documents and tools print them, one of each generation."""

from __future__ import annotations

__all__ = ["GUIDE", "SHORT"]

# As in a document: comments, dots, facts in another order, lines of older dumps.
GUIDE = """\
Graph: relu_test
Sizes:
  s0: VAR
  s1: CONST(100)
  z0z1t_size: VAR
  z0z1Tb_size: VAR
Axis:
  z0(0) : s0, ORIGINAL, align: -1, allow_oversize_axis: 0, allow_unaligned_tail: 1
  z1(1) : s1, ORIGINAL, align: -1, allow_oversize_axis: 0, allow_unaligned_tail: 1
  z0z1(2) : (s0 * s1), ORIGINAL, align: -1, allow_oversize_axis: 0, allow_unaligned_tail: 1  // merged, said to be original
  z0z1T(3) : Ceiling((s0 * s1 / (z0z1t_size))), TILE_OUT, from: {z0z1, }, align: 1, allow_oversize_axis: 0, allow_unaligned_tail: 1
  z0z1t(4) : z0z1t_size, TILE_IN, from: {z0z1, }, align: 1, allow_oversize_axis: 0, allow_unaligned_tail: 1
  z0z1TB(5) : Ceiling((Ceiling((s0 * s1 / (z0z1t_size))) / (z0z1Tb_size))), BLOCK_OUT, from: {z0z1T, }, align: 1, \
allow_oversize_axis: 0, allow_unaligned_tail: 1
  z0z1Tb(6) : z0z1Tb_size, BLOCK_IN, from: {z0z1T, }, align: 1, allow_oversize_axis: 0, allow_unaligned_tail: 1
Nodes:
  relu_test/x: Data (0)
    .ir_attr =  {.index = i: 0
    }
    .axis = {z0, z1, }
    .loop_axis = nil
    .hint:
      .compute_type = invalid
    .api:
      .type = Buffer
      .unit = None
    .y.dtype = float32
    .y.axis = {z0, z1, }
    .y.repeats = {s0, s1, }
    .y.strides = {s1, 1, }
    .y.vectorized_axis = {}
    .y.vectorized_strides = {}
    .y.mem:
      .tensor_id = 0
      .alloc_type = Global
      .hardware = GM
      .position = TPosition::GM
      .buf_ids = {}
    .y.opt:
      .reuse_id = nil
      .ref_tensor = nil
      .merge_scope = nil
  relu_test/load_0: Load (1)
    .ir_attr =  {.offset = expression: "0"
    }
    .axis = {z0z1TB, z0z1Tb, z0z1t, }
    .loop_axis = z0z1Tb
    .exec_condition = no_cache
    .api:
      .compute_type = load
      .type = Compute
      .unit = MTE2
    .x = relu_test/x.y
    .y.dtype = float32
    .y.axis = {z0z1TB, z0z1Tb, z0z1t, }     // the loops, from outside
    .y.repeats = {(s0 * s1 / (z0z1Tb_size * z0z1t_size)), z0z1Tb_size, z0z1t_size, }
    .y.strides = {(z0z1Tb_size * z0z1t_size), z0z1t_size, 1, }
    .y.vectorized_axis = {z0z1t, }
    .y.vectorized_strides = {1, }
    .y.mem:
      .tensor_id = 2
      .alloc_type = Queue
      .hardware = UB
      .position = TPosition::VECIN
    .y.que:
      .id = 0
      .depth = 2
      .buf_num = 2
      .reuse_id = 0
    ......
  // what is computed
  relu_test/relu_0: Relu (2)
    .axis = {z0z1TB, z0z1Tb, z0z1t, }
    .loop_axis = z0z1Tb
    .api:
      .compute_type = elewise
      .type = Compute
      .unit = Vector
    .x = relu_test/load_0.y
    .y.dtype = float32
    .y.axis = {z0z1TB, z0z1Tb, z0z1t, }
    .y.repeats = {(s0 * s1 / (z0z1Tb_size * z0z1t_size)), z0z1Tb_size, z0z1t_size, }
    .y.strides = {(z0z1Tb_size * z0z1t_size), z0z1t_size, 1, }
    .y.vectorized_axis = {z0z1t, }
    .y.vectorized_strides = {1, }
    .y.mem:
      .tensor_id = 3
      .alloc_type = Queue
      .hardware = UB
      .position = TPosition::VECOUT
    .y.que:
      .id = 1
      .depth = 2
      .buf_num = 2
      .reuse_id = 1
  relu_test/store_0: Store (3)
    .ir_attr =  {    }
    .axis = {z0z1TB, z0z1Tb, z0z1t, }
    .loop_axis = z0z1Tb
    .api:
      .compute_type = store
      .type = Compute
      .unit = MTE3
    .x = relu_test/relu_0.y
    .y.dtype = float32
    .y.axis = {z0, z1, }
    .y.repeats = {s0, s1, }
    .y.strides = {s1, 1, }
    .y.vectorized_axis = {}
    .y.vectorized_strides = {}
    .y.mem:
      .tensor_id = 1
      .alloc_type = Global
      .hardware = GM
      .position = TPosition::GM
  relu_test/y: Output (4)
    .ir_attr =  {.index = i: 0
    }
    .axis = {z0, z1, }
    .x = relu_test/store_0.y
    .y.dtype = float32
    .y.axis = {z0, z1, }
    .y.repeats = {s0, s1, }
    .y.strides = {s1, 1, }
    .y.vectorized_axis = {}
    .y.vectorized_strides = {}
"""

SHORT = """\
Graph: brc
Sizes:
  s0: VAR
  z0t_size: VAR
Axis:
  z0(0) : ORIGINAL, size:s0,_
  z1(1) : ORIGINAL, size:32,_
  z0T(2) : TILE_OUT, size:Ceiling((s0 / (z0t_size))), , from: {z0, }
  z0t(3) : TILE_IN, size:z0t_size, , from: {z0, }
Nodes:
  a: Data (0)
    .ir_attr =  {.index = i: 0}
    .y: float32
        .axis = {z0, z1}
        .repeats = (s0, 32)
        .strides = (32, 1)
        .mem = GM[tensor_id=0, pos=GM]
  b: Data (1)
    .ir_attr =  {.index = i: 1}
    .y: float32
        .axis = {z0, z1}
        .repeats = (1, 32)
        .strides = (0, 1)
        .mem = GM[tensor_id=1, pos=GM]
  load_0: Load (2)
    .ir_attr =  {.offset = expression: "0"}
    .axis = {z0T, z0t, z1, }
    .loop_axis = z0T
    .api.unit = MTE2
    .x = a.y
    .y: float32
        .axis = {z0T, z0t, z1}
        .repeats = ((s0 / (z0t_size)), z0t_size, 32)
        .strides = ((32 * z0t_size), 32, 1)
        .vectorized = {z0t:32, z1:1}
        .mem = UB[tensor_id=3, que_id=0, reuse_id=0, depth=2, pos=VECIN]
  load_1: Load (3)
    .ir_attr =  {.offset = expression: "0"}
    .axis = {z0T, z0t, z1, }
    .loop_axis = z0T
    .api.unit = MTE2
    .x = b.y
    .y: float32
        .axis = {z0T, z0t, z1}
        .repeats = (1, 1, 32)
        .strides = (0, 0, 1)
        .vectorized_strides = {z0t:0, z1:1}
        .mem = UB[tensor_id=4, que_id=1, reuse_id=1, depth=2, pos=VECIN]
  brc/broadcast_0: Broadcast (4)
    .axis = {z0T, z0t, z1, }
    .loop_axis = z0T
    .api.unit = Vector
    .tmp_buf = {{buf_id=1, size=8192}}
    .x = load_1.y
    .y: float32
        .axis = {z0T, z0t, z1}
        .repeats = ((s0 / (z0t_size)), z0t_size, 32)
        .strides = ((32 * z0t_size), 32, 1)
        .vectorized = {z0t:32, z1:1}
        .mem = UB[tensor_id=5, buf_id=0, pos=VECCALC]
  add_0: Add (5)
    .axis = {z0T, z0t, z1, }
    .exec_condition = cache_block_split_origin_brc_axis
    .loop_axis = z0T
    .api.unit = Vector
    .x = {load_0.y, brc/broadcast_0.y}
    .y: float32
        .axis = {z0T, z0t, z1}
        .repeats = ((s0 / (z0t_size)), z0t_size, 32)
        .strides = ((32 * z0t_size), 32, 1)
        .vectorized = {z0t:32, z1:1}
        .mem = UB[tensor_id=6, que_id=2, reuse_id=2, depth=2, pos=VECOUT]
  store_0: Store (6)
    .ir_attr =  {.offset = expression: "0"}
    .axis = {z0T, z0t, z1, }
    .loop_axis = z0T
    .api.unit = MTE3
    .x = add_0.y
    .y: float32
        .axis = {z0, z1}
        .repeats = (s0, 32)
        .strides = (32, 1)
        .mem = GM[tensor_id=2, pos=GM]
  c: Output (7)
    .ir_attr =  {.index = i: 0}
    .x = store_0.y
    .y: float32
        .axis = {z0, z1}
        .repeats = (s0, 32)
        .strides = (32, 1)
        .mem = GM[tensor_id=2, pos=GM]
""".replace(",_\n", ", \n")  # such lines end with a blank
