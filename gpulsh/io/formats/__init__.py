"""Formats of files, one or two modules each: they read blocks of rows and write the kept rows."""
