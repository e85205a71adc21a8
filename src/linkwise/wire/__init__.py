"""Encoding and decoding between bytes and the model; no I/O."""
