"""Support for tests of the web page in a browser."""
