"""Measures of the shape of a package: its source, its wheel, and the code that a request passes."""
