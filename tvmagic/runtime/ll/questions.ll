; What running code asks of Python: whether to stop, and functions that Python registered.
;
; At most every 50 milliseconds or so, the calling thread asks whether a signal came (`PyErr_CheckSignals`, which
; runs the signal's handler; what that raises is kept for the caller). Workers look at the status of the region.

@last = global i64 0
@status = external global i32
@cycles_between_questions = external constant i64
@error_type = global ptr null
@error_value = global ptr null
@error_trace = global ptr null
@packed_call = global ptr null
declare i32 @PyGILState_Ensure()
declare void @PyGILState_Release(i32)
declare i32 @PyErr_CheckSignals()
declare void @PyErr_Fetch(ptr, ptr, ptr)
declare i64 @llvm.readcyclecounter()

define i32 @poll(i32 %worker) {
entry:
  %helper = icmp ne i32 %worker, 0
  br i1 %helper, label %other, label %caller
other:
  %status = load atomic i32, ptr @status monotonic, align 4
  ret i32 %status
caller:
  %now = call i64 @llvm.readcyclecounter()
  %cycles = load i64, ptr @cycles_between_questions, align 8
  %before = load atomic i64, ptr @last monotonic, align 8
  %since = sub i64 %now, %before
  %long = icmp ugt i64 %since, %cycles
  br i1 %long, label %ask, label %go
go:
  ret i32 0
ask:
  store atomic i64 %now, ptr @last monotonic, align 8
  %gil = call i32 @PyGILState_Ensure()
  %r = call i32 @PyErr_CheckSignals()
  %raised = icmp slt i32 %r, 0
  br i1 %raised, label %keep, label %release
keep:
  call void @PyErr_Fetch(ptr @error_type, ptr @error_value, ptr @error_trace)
  br label %release
release:
  call void @PyGILState_Release(i32 %gil)
  ret i32 %r
}

define i32 @packed(ptr %name, ptr %values, ptr %codes, i32 %count) {
  %f = load ptr, ptr @packed_call, align 8
  %r = call i32 %f(ptr %name, ptr %values, ptr %codes, i32 %count)
  ret i32 %r
}

declare i32 @launch(ptr, ptr, i64)
declare ptr @alloc(i64)
declare void @release(ptr)

; In the order in which the helpers of compiled code (codegen/emit/ll) look the functions up.
@table = constant [5 x ptr] [ptr @launch, ptr @alloc, ptr @release, ptr @poll, ptr @packed]

define void @init_table(ptr %packed_function) {
  store ptr %packed_function, ptr @packed_call, align 8
  ret void
}
