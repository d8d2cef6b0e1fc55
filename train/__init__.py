"""Makes data, trains models and measures them."""
