"""NVIDIA: GPUs joined by NVLink, with readers of topology, inventory and bandwidth."""
