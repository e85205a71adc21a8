"""Settings of everything that runs: one file, the environment and flags, read strictly."""
