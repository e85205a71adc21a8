"""Pods between two attempts: open offers, contention for nodes, unschedulable pods."""
