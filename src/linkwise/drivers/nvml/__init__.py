"""NVML, NVIDIA's management library: GPUs, their links and their health."""
