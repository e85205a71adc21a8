"""Many pods planned as one: which nodes, which devices, in levels of which each filters what the one before left."""
