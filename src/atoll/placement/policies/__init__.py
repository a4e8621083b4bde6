"""Policies: how many parallel units a topology asks for, and gets."""
