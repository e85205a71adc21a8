"""Volcano's controllers: Jobs, the PodGroups of Jobs and pods, queues, and the enqueue step of Volcano's scheduler."""
