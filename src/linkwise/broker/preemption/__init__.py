"""Preemption by evictions of our own: for groups, and for pods that the preemption of kube-scheduler can't help."""
