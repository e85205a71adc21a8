"""Moore Threads GPUs for Linkwise: a vendor, a dialect and a policy."""
