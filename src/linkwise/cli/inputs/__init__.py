"""Input files of commands: loading and validation."""
