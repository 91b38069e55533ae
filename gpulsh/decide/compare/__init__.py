"""How similar the documents are that met: pairs of small buckets, a join over large ones."""
