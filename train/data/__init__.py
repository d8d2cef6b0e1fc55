"""Captioned pictures -> batches: where they come from, in which order, what is done with a broken one.

sample.py      Sample, Skip and the protocol of a Source: samples by index
tars.py        a Source over tar shards as img2dataset and webdataset write them (tar_headers.py, tar_index.py)
csv_folder.py  a Source over a CSV and a folder of pictures
scene_source.py a Source that draws scenes
config.py      the settings of these; open.py opens the one that is asked for
order.py       the order of an epoch, what each rank takes of a step, each sample's own random numbers
augment.py     a picture -> pixels at the model's size
batch.py       Batch; loader.py: batches made by worker processes, in order
skips.py       what was skipped, by reason, and when that is too much
check.py       what `python -m train check-data` says
scenes.py      how models of scenes want pictures and words

Import from the files themselves: train.config reads config.py, and scenes.py reads train.settings.
"""
