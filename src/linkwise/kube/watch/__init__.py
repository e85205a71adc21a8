"""List and watch: the table of watched kinds, one reflector per kind, and a one-time list for the CLI."""
