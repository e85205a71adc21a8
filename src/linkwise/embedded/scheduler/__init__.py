"""Scheduler: the steps of kube-scheduler with an HTTP extender: queue, cache, filter, score, bind and preemption."""
