"""What can be written, family by family: how each operator and function is typed and computed."""
