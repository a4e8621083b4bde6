"""What can be asked of a service, as plain data: requests, and what comes of their answers."""
