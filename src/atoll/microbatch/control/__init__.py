"""What people ask of a topology and set for it, and what it says of itself."""
