"""Settings: what a user may set, with types, defaults and docs."""
