"""The object database: collections, lists, watches and selectors."""
