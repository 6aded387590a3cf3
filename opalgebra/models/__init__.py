"""Models: weights from a package, a folder, the hub or memory, and one adapter for each architecture."""

FAMILIES = {"llama": "llama"}
"""The module here that reads each `model_type` of transformers; naming them needs no torch."""
