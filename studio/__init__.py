"""The page on which two models are compared: what a person sees, and nothing of how a model works."""
