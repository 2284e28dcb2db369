"""Training: from prepared images to a model, by a recipe. Only `prepare` reads scans."""
