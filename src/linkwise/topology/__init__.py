"""Maths on one machine: pure functions of pair values and bit masks."""
