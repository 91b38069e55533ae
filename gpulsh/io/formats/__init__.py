"""Files of documents, a package a format: blocks of rows out of a file, a smaller file out of kept rows."""
