"""The observed cluster: nodes, pods, objects, and what is worked out of them."""
