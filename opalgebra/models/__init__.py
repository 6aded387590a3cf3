"""Models: weights from a package, a folder, the hub or memory, and one adapter for each architecture."""
