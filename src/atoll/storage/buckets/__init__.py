"""Roots in object stores: S3, Google's, Azure's, and what speaks their language.

One object is one name below a prefix. *Create* is a put that the store refuses when the name is
taken (``If-None-Match: *``); nothing else decides who was first. Every object that was created
carries the token of its creator as metadata, so that a creator whose answer was lost finds out
whether it is its own.
"""
