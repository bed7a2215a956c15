; A process that runs compiled code for another one, which holds the other ends of its standard input and output.
;
; A request is four numbers of 8 bytes: what is wanted, and three operands.
;   1 size         -> the address of that many bytes
;   2 address      give memory back
;   3 address size the bytes follow, and are written there
;   4 address size -> the bytes there
;   5 address      -> the shared library whose file name is there, 0 if it cannot be loaded
;   6 library name -> the address of the symbol whose name is at the address `name`, 0 if there is none
;   7 function at  -> the status of the function, called with the address `at`
;   8 library      unload it
; The end of the input ends the process, as does whatever else is wanted.

declare i64 @read(i32, ptr, i64)
declare i64 @write(i32, ptr, i64)
declare ptr @aligned_alloc(i64, i64)
declare void @free(ptr)
declare ptr @dlopen(ptr, i32)
declare ptr @dlsym(ptr, ptr)
declare i32 @dlclose(ptr)
declare void @_exit(i32) noreturn

define internal void @take(ptr %place, i64 %size) {
entry:
  br label %more
more:
  %done = phi i64 [ 0, %entry ], [ %now, %got ]
  %all = icmp uge i64 %done, %size
  br i1 %all, label %out, label %ask
ask:
  %to = getelementptr i8, ptr %place, i64 %done
  %rest = sub i64 %size, %done
  %n = call i64 @read(i32 0, ptr %to, i64 %rest)
  %ended = icmp sle i64 %n, 0
  br i1 %ended, label %stop, label %got
got:
  %now = add i64 %done, %n
  br label %more
stop:
  call void @_exit(i32 0)
  unreachable
out:
  ret void
}

define internal void @give(ptr %place, i64 %size) {
entry:
  br label %more
more:
  %done = phi i64 [ 0, %entry ], [ %now, %got ]
  %all = icmp uge i64 %done, %size
  br i1 %all, label %out, label %ask
ask:
  %from = getelementptr i8, ptr %place, i64 %done
  %rest = sub i64 %size, %done
  %n = call i64 @write(i32 1, ptr %from, i64 %rest)
  %ended = icmp sle i64 %n, 0
  br i1 %ended, label %stop, label %got
got:
  %now = add i64 %done, %n
  br label %more
stop:
  call void @_exit(i32 0)
  unreachable
out:
  ret void
}

define internal void @answer(ptr %slot, i64 %value) {
  store i64 %value, ptr %slot, align 8
  call void @give(ptr %slot, i64 8)
  ret void
}

define void @_start() {
entry:
  %request = alloca [4 x i64], align 16
  %result = alloca i64, align 8
  br label %next
next:
  call void @take(ptr %request, i64 32)
  %wanted = load i64, ptr %request, align 8
  %pa = getelementptr i64, ptr %request, i64 1
  %pb = getelementptr i64, ptr %request, i64 2
  %a = load i64, ptr %pa, align 8
  %b = load i64, ptr %pb, align 8
  %at = inttoptr i64 %a to ptr
  %second = inttoptr i64 %b to ptr
  switch i64 %wanted, label %stop [
    i64 1, label %allocate
    i64 2, label %release
    i64 3, label %store
    i64 4, label %load
    i64 5, label %open
    i64 6, label %symbol
    i64 7, label %call
    i64 8, label %close
  ]
allocate:
  %memory = call ptr @aligned_alloc(i64 64, i64 %a)
  %number = ptrtoint ptr %memory to i64
  call void @answer(ptr %result, i64 %number)
  br label %next
release:
  call void @free(ptr %at)
  br label %next
store:
  call void @take(ptr %at, i64 %b)
  br label %next
load:
  call void @give(ptr %at, i64 %b)
  br label %next
open:
  %library = call ptr @dlopen(ptr %at, i32 2)
  %handle = ptrtoint ptr %library to i64
  call void @answer(ptr %result, i64 %handle)
  br label %next
symbol:
  %found = call ptr @dlsym(ptr %at, ptr %second)
  %address = ptrtoint ptr %found to i64
  call void @answer(ptr %result, i64 %address)
  br label %next
call:
  %status = call i32 %at(ptr %second)
  %wide = sext i32 %status to i64
  call void @answer(ptr %result, i64 %wide)
  br label %next
close:
  %closed = call i32 @dlclose(ptr %at)
  br label %next
stop:
  call void @_exit(i32 1)
  unreachable
}
