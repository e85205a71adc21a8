"""Node agent: serves the kubelet the devices of its node, and publishes them."""
