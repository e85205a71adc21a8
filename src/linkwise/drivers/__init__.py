"""Drivers: the devices of this machine, read from the hardware, its tools, recordings or a simulation."""
