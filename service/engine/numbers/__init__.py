"""Arithmetic beneath the schemes: exact reals, double-double, float32 steps, sums, logarithms, random numbers."""
