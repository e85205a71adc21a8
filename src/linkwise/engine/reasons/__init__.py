"""Refusal texts: one table with a short form for kube-scheduler's counters and a long form for people."""
