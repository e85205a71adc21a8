"""Policies: the rules by which devices are chosen, one file per policy, tables kept as tables."""
