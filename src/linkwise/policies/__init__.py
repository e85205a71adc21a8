"""Rules: one policy a file, each with its seed's tables as tables."""
