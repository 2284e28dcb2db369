"""Millimetres and files. SimpleITK appears in `images` and `transforms` only."""
