"""LowerAutoCopy: how blocks that copy between memories of a GPU do it."""
