"""Everything on disk that outlives a process: durable files, columns, the manifest of a job, the lock of a folder."""
