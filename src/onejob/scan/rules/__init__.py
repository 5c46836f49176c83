"""The rules: one file, one rule, one docstring, which is its page (``onejob scan --explain CODE``).

A file is named ``ojNNN_name.py`` and has CODE, NAME (as it reads after "allow"), KINDS (of the
facts it is about), ADVICE, and where needed ADVICE_FOR one verdict. It is found by standing here.
"""
