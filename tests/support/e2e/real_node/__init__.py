"""Real node of the test bed: kubelet and containerd in namespaces of their own."""
