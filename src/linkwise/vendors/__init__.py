"""Hardware by vendor: tool outputs, links, machines and container needs."""
