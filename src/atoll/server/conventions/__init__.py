"""What holds for every route: HEAD, strict bodies, the description, tags of commits."""
