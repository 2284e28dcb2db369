"""The run-time type checker of the tests: beartype, for which a whole number is a float as it is
for Python's own type checkers.
"""

from beartype import BeartypeConf, beartype

checked = beartype(conf=BeartypeConf(is_pep484_tower=True))
