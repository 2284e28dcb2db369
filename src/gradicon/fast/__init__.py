"""What makes the core fast: the same numbers, up to rounding, sooner.

Nothing depends on it for a result. The core asks for it through one switch,
`gradicon.core.acceleration`, and goes on without it where it is not there.
"""
