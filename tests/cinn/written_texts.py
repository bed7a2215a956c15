"""Texts in CINN's notation that together have every form of it."""

from __future__ import annotations

__all__ = ["FRAMED", "NAMED", "SUMS", "TEXTS", "WHOLE"]

# each form of a statement and of an expression once; it has no meaning
WHOLE = """\
function f (_A, _B, n)
ScheduleBlock(root)
{
  serial for (i, 0, (n + 4))
  {
    thread_bind[threadIdx.x] for (j, 1, 8)
    {
      vectorize[4] for (k, 0, 4)
      {
        ScheduleBlock(B)
        {
          i0, i1 = axis.bind(i, (j * 2))
          read_buffers(_A[i0(0:4), i1(undefined:undefined)])
          write_buffers(_B[(0:3)], _C[])
          attrs(a:1, b:x, y, c.d:2)
          init
          {
            B[i0] = 0.0f
          }
          float32 v = A[i0, (i1 % 3)]
          if (!(v < 1.0f)) {
            B[i0] = select(true, -(v), -7)
          } else if ((i0 == 2)) {
            B[i0] = float32x4(v)
          } else {
            while ((v > 2.0f))
            {
              assert((v != 3.0f), "a \\"b\\"")
              call_extern("f", Reduce(sum, v,0.0f), (let t = v in (t and t)))
            }
          }
        }
      }
    }
  }
}"""

# two functions with heads, whose arguments are tensors and sizes
NAMED = """\
function first (_A, _B, n)
{
  ScheduleBlock(root)
  {
    parallel for (i, 0, n)
    {
      ScheduleBlock(B)
      {
        i0 = axis.bind(i)
        read_buffers(_A[i0(0:n)])
        write_buffers(_B[i0(0:n)])
        B[i0] = select((A[i0] < 0.00000000f), -1.50000000f, (float32(n) * A[i0]))
      }
    }
  }
}

function second (_C, _D_local)
ScheduleBlock(root_0)
{
  unroll for (j, 0, 3)
  {
    vectorize(4) for (k, 0, 8)
    {
      ScheduleBlock(D)
      {
        i0, i1 = axis.bind(j, k)
        read_buffers(_C[(0:4)])
        write_buffers(_D_local[i0(0:3), i1(0:8)])
        attrs(compute_at_extra_var:ax0,ax1, step:3)
        D[i0, i1] = left_shift(C[(i1 / 2)], (i0 % 2))
      }
    }
  }
}
"""

# the frame in which CINN prints lists of expressions, twice
FRAMED = """\
Expr 0 {
ScheduleBlock(root)
{
  serial for (i, 0, 6)
  {
    if (((i + 1) <= 5)) {
      ScheduleBlock(B)
      {
        i0 = axis.bind((i + 1))
        int64 v = (A[i0] + 5ll)
        B[i0] = cinn_max(v, A[(7 - i0)])
      }
    } else {
      __syncthreads()
    }
  }
}
}
Expr 1 {
ScheduleBlock(root)
{
  thread_bind[blockIdx.x] for (i, 0, 6)
  {
    ScheduleBlock(C)
    {
      i0 = axis.bind(i)
      C[i0] = (A[i0] and !(A[(i0 + 2)]))
    }
  }
}
}
"""

# a reduction with its first values, and what reads it at indices that are read
SUMS = """\
serial for (i, 0, 4)
{
  ScheduleBlock(S__reduce_init)
  {
    i0 = axis.bind(i)
    S__reduce_init[i0] = (float16)0.f
  }
  serial for (k, 0, 5)
  {
    serial for (l, 0, 3)
    {
      ScheduleBlock(S)
      {
        i0, i1, i2 = axis.bind(i, k, l)
        read_buffers(_S[i0(0:4)], _A[i0(0:4), i1(0:5), i2(0:3)])
        write_buffers(_S[i0(0:4)])
        S[i0] = (S[i0] + exp(A[i0, i1, i2]))
      }
    }
  }
}
serial for (i, 0, 7)
{
  ScheduleBlock(T)
  {
    i0 = axis.bind(i)
    T[i0] = (S[I[i0]] / pow(S[0], (float16)2.f))
  }
}
"""

TEXTS = {"whole": WHOLE, "named": NAMED, "framed": FRAMED, "sums": SUMS}
