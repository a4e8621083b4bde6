"""Steps over columns, one per file, and how tasks compute them."""
