"""Stand-in for libdcmi.so, and the machines that it simulates."""
