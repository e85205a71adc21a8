"""Real node of the test cluster: kubelet and containerd in namespaces of their own."""
