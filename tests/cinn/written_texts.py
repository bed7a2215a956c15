"""A text in CINN's notation that has every form of it."""

from __future__ import annotations

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
