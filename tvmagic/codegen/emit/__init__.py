"""LLVM text of the last program."""
