"""CINN's text: printed from the IR, and read back into it."""
