"""Explanations over HTTP and on pods: computed in slices, checked against the caller's rights."""
