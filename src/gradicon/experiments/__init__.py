"""The paper's studies, on data that anyone can have.

Each is a file with a TITLE, `run`, which gives numbers, and `table` and `draw`, which show them and
see nothing else; where they are long they are in a file of their own, NAME_report.
"""
