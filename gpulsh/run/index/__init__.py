"""Jobs that build, grow and query an index of files, and runs that decide against one."""
