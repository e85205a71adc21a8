"""Groups of pods: conventions of other systems, and the network topology they request."""
