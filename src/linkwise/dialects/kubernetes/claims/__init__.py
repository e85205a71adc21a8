"""Dynamic Resource Allocation: ResourceSlices, DeviceClasses and ResourceClaims, and the devices that count by them."""
