"""The node agent as a DRA driver: it publishes devices in ResourceSlices, and prepares ResourceClaims for the kubelet."""
