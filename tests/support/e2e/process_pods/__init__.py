"""Pods of a cluster as processes: what kubelet, the container runtime, kube-proxy and cluster DNS do, in small.

| of a real node | here |
|---|---|
| container | a process in a mount namespace of its own, with the user, group, capabilities and read-only root of its security context |
| image | the host's file system below an overlay, with the checkout's `linkwise` and the built `kube-scheduler` on its PATH |
| pod network | a network namespace per pod on a bridge; NetworkPolicies have no effect |
| kubelet | volumes, service account tokens, environment, probes, restarts with backoff, status and graceful deletion of pods |
| kube-proxy | a TCP forwarder that follows Services and EndpointSlices |
| cluster DNS | a hosts file with the names of all Services |
| container's file system beside volumes | discarded when the process ends; resource limits have no effect |
"""
