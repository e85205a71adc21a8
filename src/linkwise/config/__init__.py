"""Configuration: settings of the service, and the files it generates for kube-scheduler and RBAC."""
