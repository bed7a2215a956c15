"""Proofs that a program computes the same function as a definition."""
