"""What compiled code asks of the runtime, as LLVM text.

Each object holds a pointer `__tvmagic_runtime` to a table of functions. The runtime sets it when it
loads the object; where it stays null, as in a C program that links a saved object, parallel
loops run on the calling thread and memory comes from the C library.
"""

from __future__ import annotations

__all__ = ["ERROR_SLOTS", "GLOBALS", "HELPERS"]

# The first slot says where the failure was (0: none), the others hold values for the message.
ERROR_SLOTS = 16

GLOBALS = {
    "runtime": "@__tvmagic_runtime = weak global ptr null",
    "error": f"@__tvmagic_error = weak global [{ERROR_SLOTS} x i64] zeroinitializer",
}

# Order of the functions in the runtime's table.
TABLE = ("launch", "alloc", "free", "poll", "packed")

_FIELD = """  %rt = load ptr, ptr @__tvmagic_runtime, align 8
  %none = icmp eq ptr %rt, null
  br i1 %none, label %alone, label %hosted
hosted:
  %slot = getelementptr inbounds ptr, ptr %rt, i64 {index}
  %f = load ptr, ptr %slot, align 8
"""

HELPERS = {
    "launch": """define internal i32 @tvm.launch(ptr %body, ptr %closure, i64 %extent) nounwind {
entry:
"""
    + _FIELD.format(index=0)
    + """  %r = call i32 %f(ptr %body, ptr %closure, i64 %extent)
  ret i32 %r
alone:
  %some = icmp sgt i64 %extent, 0
  br i1 %some, label %run, label %done
run:
  %s = call i32 %body(i64 0, i64 %extent, ptr %closure, i32 0)
  ret i32 %s
done:
  ret i32 0
}
""",
    "alloc": """declare noalias ptr @aligned_alloc(i64, i64)
define internal noalias align 64 ptr @tvm.alloc(i64 %size) nounwind {
entry:
"""
    + _FIELD.format(index=1)
    + """  %r = call ptr %f(i64 %size)
  ret ptr %r
alone:
  %more = add i64 %size, 127
  %round = and i64 %more, -64
  %p = call ptr @aligned_alloc(i64 64, i64 %round)
  ret ptr %p
}
""",
    "free": """declare void @free(ptr)
define internal void @tvm.free(ptr %p) nounwind {
entry:
"""
    + _FIELD.format(index=2)
    + """  call void %f(ptr %p)
  ret void
alone:
  call void @free(ptr %p)
  ret void
}
""",
    "poll": """define internal i32 @tvm.poll(i32 %worker) nounwind {
entry:
"""
    + _FIELD.format(index=3)
    + """  %r = call i32 %f(i32 %worker)
  ret i32 %r
alone:
  ret i32 0
}
""",
    "packed": """define internal i32 @tvm.packed(ptr %name, ptr %values, ptr %codes, i32 %count) nounwind {
entry:
"""
    + _FIELD.format(index=4)
    + """  %r = call i32 %f(ptr %name, ptr %values, ptr %codes, i32 %count)
  ret i32 %r
alone:
  ret i32 -2
}
""",
    "fail": f"""define internal void @tvm.fail(i64 %site, ptr %values, i64 %count) nounwind cold noinline {{
entry:
  %old = cmpxchg ptr @__tvmagic_error, i64 0, i64 %site seq_cst seq_cst
  %first = extractvalue {{ i64, i1 }} %old, 1
  %some = icmp sgt i64 %count, 0
  %copy = and i1 %first, %some
  br i1 %copy, label %loop, label %done
loop:
  %i = phi i64 [ 0, %entry ], [ %n, %loop ]
  %from = getelementptr inbounds i64, ptr %values, i64 %i
  %v = load i64, ptr %from, align 8
  %n = add nuw nsw i64 %i, 1
  %to = getelementptr inbounds [{ERROR_SLOTS} x i64], ptr @__tvmagic_error, i64 0, i64 %n
  store i64 %v, ptr %to, align 8
  %go = icmp slt i64 %n, %count
  br i1 %go, label %loop, label %done
done:
  ret void
}}
""",
}
