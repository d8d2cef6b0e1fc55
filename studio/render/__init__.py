"""Figures without a browser: a recipe and what models did with a picture -> arrays, numbers, PNG and SVG."""
