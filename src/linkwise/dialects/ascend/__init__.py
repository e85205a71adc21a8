"""Huawei's Ascend: pods, nodes and rank tables."""
