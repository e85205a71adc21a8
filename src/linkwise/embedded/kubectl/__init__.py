"""What kubectl and Go clients want beside the API: discovery and tables."""
