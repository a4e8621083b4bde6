"""What runtime actors ask for outside: what may be reached, one request, and all of a runtime."""
