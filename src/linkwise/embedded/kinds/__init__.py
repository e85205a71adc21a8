"""Kinds of objects: built-in ones, definitions, schemas and protobuf."""
