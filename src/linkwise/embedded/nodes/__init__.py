"""Simulated nodes: kubelet, device allocation, pod lifecycle, machine profiles and injected node faults."""
