"""Documents of the web page: read-only views of the cluster, of one node, pod or group, and of a plan."""
