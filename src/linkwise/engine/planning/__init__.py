"""Group planner: assigns nodes and devices to all pods of a group at once, by a strict order of criteria."""
