"""Groups of pods: conventions of other systems, and the network they ask for."""
