"""MetaX: GPUs joined by MetaXLink."""
