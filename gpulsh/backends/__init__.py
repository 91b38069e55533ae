"""How each operation is done: `protocol` says what, `reference`, `cpu` and `cuda` do it with equal bits."""
