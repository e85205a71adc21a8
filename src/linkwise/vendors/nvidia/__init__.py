"""What NVIDIA's tools print: topology, inventory and bandwidth."""
