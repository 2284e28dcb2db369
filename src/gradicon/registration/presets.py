"""Numbers that steer registrations."""

ALGORITHM = 2
"""Changes when the same files and options give another result than before: what was registered
before is then done anew.
"""
