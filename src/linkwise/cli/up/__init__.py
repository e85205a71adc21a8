"""`linkwise up`: start the cluster, print its welcome message, write its kubeconfig and handle signals."""
