"""How the service listens: its sockets, TLS, and how long and how many connections it bears."""
