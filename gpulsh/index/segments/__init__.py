"""What an index keeps of documents: immutable segments, merged as they grow, and the snapshots that name them."""
