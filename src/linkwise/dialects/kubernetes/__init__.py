"""Kubernetes' own objects: pod templates, disruption budgets, volumes, NUMA topology and Dynamic Resource Allocation."""
