"""Hardware: what machines look like and what a container on them needs."""
