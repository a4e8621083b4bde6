"""What a topology is: operators, what was declared, what is kept, how it is cut. Pure."""
