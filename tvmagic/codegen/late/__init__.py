"""Passes that run last, on the lowered program: each prepares it for code of one processor."""
