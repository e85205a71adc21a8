"""Served resources: built-in kinds, CustomResourceDefinitions, field checks and protobuf decoding."""
