"""Decisions of a node whose devices ResourceClaims allocate: what its driver publishes, and what a claim is given."""
