"""Groups and gangs: membership, plans and their life."""
