"""How good a registration is."""
