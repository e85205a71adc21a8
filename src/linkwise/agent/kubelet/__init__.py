"""Kubelet APIs: the device plugin service, its registration, and the list of allocated devices."""
