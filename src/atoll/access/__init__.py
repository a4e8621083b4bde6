"""Who may call a service: tokens, roles, sessions, and the log of what they changed.

Nothing here knows of HTTP: the service hands in what a request carries, and is told who calls.
"""
