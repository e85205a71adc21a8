"""AMD: GPUs joined by XGMI (Infinity Fabric)."""
