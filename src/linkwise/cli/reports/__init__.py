"""Reports of single commands."""
