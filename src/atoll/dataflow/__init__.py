"""What a topology is: streams, operators, and the fragments that they are cut into (pure)."""
