"""Huawei Ascend: NPUs joined by HCCS rings."""
