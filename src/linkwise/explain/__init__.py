"""Explains the broker's decisions: reads its state, changes nothing."""
