"""The types of runtime actors: one file each, registered by name.

``interface.py`` says what a type is, ``registry.py`` finds one by name. Nothing here performs
anything: a trigger takes a state and an event and returns what they become.
"""
