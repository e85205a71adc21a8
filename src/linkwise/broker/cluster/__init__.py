"""The observed cluster: nodes, pods, objects, and the inventories and requests derived from them."""
