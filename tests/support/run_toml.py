"""A run that is over in seconds, as a config file has it."""

TOML = """
name = "tiny"
title = "Tiny DiffCLIP"
seed = 3
batch_size = 8
threads = 1
precision = "float32"
[model]
embed_dim = 16
[model.vision]
layers = 2
width = 16
head_width = 4
patch_size = 8
image_size = 32
attention = "differential"
[model.text]
layers = 1
width = 16
heads = 2
vocab_size = 320
context_length = 16
attention = "differential"
[[stages]]
samples = 40
image_size = 16
[[stages]]
samples = 24
image_size = 32
[optim]
lr = 1e-3
warmup_steps = 2
[data]
seed = 11
tokenizer_captions = 200
[log]
rate_seconds = 0.0
"""
