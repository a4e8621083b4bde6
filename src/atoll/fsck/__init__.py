"""Checks everything that a root folder holds, and says what each damage would cost."""
