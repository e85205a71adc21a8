"""The node index: the best nodes for an ask, by tables that are kept up to date."""
