"""The web page: its files, and routes for its documents."""
