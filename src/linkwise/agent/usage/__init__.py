"""Usage of devices on this node: read once per interval, published and exported as metrics."""
