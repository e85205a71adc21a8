"""Topology of one machine: pure functions on link scores, bandwidths and sets of devices as bit masks."""
