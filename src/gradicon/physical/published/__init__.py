"""The paper's data sets, from the files in which they are published to those that this reads."""
