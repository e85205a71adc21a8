"""The scheduling loop: queue, cache, extender calls and preemption."""
