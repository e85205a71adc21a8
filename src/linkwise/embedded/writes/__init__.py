"""Write requests: create, update, patch, server-side apply, delete, bind and evict, with defaulting and validation."""
