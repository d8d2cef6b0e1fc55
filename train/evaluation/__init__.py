"""What a model can do, measured: while it trains, and of any checkpoint.

metrics.py      ranks, accuracies, recalls and their intervals; pure
spread.py       each rank its share, everything gathered, every sample once
reading.py      pictures of a source in batches, by worker processes
embed.py        pictures and captions -> embeddings, on the model's own device
labelled.py     pictures with classes: a folder of folders, one-object scenes
captioned.py    pictures with captions: tars, a CSV whose rows share pictures, scenes
zero_shot.py    zero-shot classification
retrieval.py    image to text and text to image
protocols.py    what is measured, as settings; opening it; measuring it
in_training.py  the same between two steps, with nothing of the training changed
study.py        all of it on unseen scenes: also minimal_pairs.py, attention.py, spoken.py
of_each.py      one number a picture as text, and paired differences
identity.py     which model it was: weights, variant, the run that made it
study_file.py   the file of a study; study_run.py measures model after model into it
study_tables.py study_sentence.py quoting.py   a study as tables and sentences, in documents between markers
figures/        a study as SVG
report.py       results as a table and as a file that says how to get them again
evaluate.py     from what is asked for to results; command.py: `python -m train evaluate`
"""
