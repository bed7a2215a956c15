"""Text of LLVM: types, names and the writer."""
