"""Who may call, and who did what: ``atoll token``."""
