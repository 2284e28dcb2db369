"""The paper's studies, one file each, on data that anyone can have."""
