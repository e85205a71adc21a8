"""Dynamic Resource Allocation: ResourceSlices, DeviceClasses and ResourceClaims of the API group resource.k8s.io."""
