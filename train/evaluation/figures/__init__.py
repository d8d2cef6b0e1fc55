"""Figures of a study as SVG, from its file alone: readable in print, on dark pages and for the colour-blind.

svg.py         shapes, text and the page of a figure
looks.py       colour by variant, fill by seed, the legend
bars.py        what models can do, bars with intervals
radar.py       minimal pairs, an axis an attribute
attention.py   where attention lies, beside its controls
relevance.py   where names are seen
write.py       all of them and the tables, beside the file
"""
