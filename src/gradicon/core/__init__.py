"""Pure values and functions on the unit cube: no files, no millimetres, no randomness, no device
choice.
"""
