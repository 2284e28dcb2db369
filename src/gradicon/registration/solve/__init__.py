"""What executes a plan: networks, fields, folds and inverses. No number of taste is here."""
