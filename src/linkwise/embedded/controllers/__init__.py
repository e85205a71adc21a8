"""Controllers: Deployments, Jobs, and the clean-up of finished pods."""
