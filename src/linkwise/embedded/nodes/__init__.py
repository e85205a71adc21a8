"""Nodes that only play: kubelet, devices, phases of pods and faults."""
