"""Formulas: the little language of the type ``function``.

Truths, numbers and texts; fields by path and collected values by alias; ``||``, ``&&``, ``!``, six
comparisons, ``+ - * /`` and parentheses. There are no names but those of values, nothing to call
and nothing to repeat, so a formula is done after as many steps as it has words; ``parse.py``
bounds those, ``evaluate.py`` what values may grow to. Nothing of it is ever Python.
"""
