"""Server-side support for kubectl and client libraries: discovery, OpenAPI and Table output."""
