"""HTTP/1.1: one client and one server, both on the parser in C of httptools."""
