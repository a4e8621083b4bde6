"""What a topology keeps: hidden state and what it is, and what stored values mean."""
