"""What exists only for speed: deleting it changes no answer."""
