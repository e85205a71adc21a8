"""Where words meet decisions: views in, answers out, the same for every front door."""
