"""Node index: finds the best nodes for a query without evaluating every node, from incrementally updated tables."""
