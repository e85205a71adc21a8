"""Scheduling queue: open offers, contention between them, and unschedulable pods with their wake-ups."""
