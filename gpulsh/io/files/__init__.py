"""Files of texts: found, checked against change, read ahead, and given a place in the output."""
