"""Two images in, a trustworthy transform out."""
