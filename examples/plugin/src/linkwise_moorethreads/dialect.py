"""Pods that request `mthreads.com/gpu`."""

from linkwise.dialects.counted_devices import ByCount
from linkwise.dialects.dialect import DefaultPolicies


class MooreThreads(ByCount):
    """Whole devices by count; the device plugin writes nothing on pods."""

    name = "moorethreads"
    vendor = "moorethreads"
    resource = "mthreads.com/gpu"
    policies = DefaultPolicies(whole="link-affinity", member="bandwidth")
