"""Pictures and pages of a release: they read what is published, and never a count."""
