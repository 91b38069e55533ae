"""The pairs of large buckets: each document with the kept ones before it, found without comparing all of them."""
