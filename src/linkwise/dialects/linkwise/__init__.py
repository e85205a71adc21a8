"""Our own annotations and DeviceInventory objects."""
