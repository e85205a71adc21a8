"""The rules of the five systems, and where each is done and proven."""
