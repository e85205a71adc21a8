"""Checks, one module per subject: pure functions of the facts."""
