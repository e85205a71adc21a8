"""What users read of explanations: conditions, events and lists, without the names of other tenants."""
