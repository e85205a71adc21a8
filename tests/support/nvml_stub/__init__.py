"""Stub of libnvidia-ml.so.1: machines for NVML without hardware."""
