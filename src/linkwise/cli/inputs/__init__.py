"""Files that users give to commands, read and checked."""
