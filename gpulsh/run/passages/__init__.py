"""`passages_files` and `cut_files`: passages that repeat inside documents of files.

sample       a partition: text -> samples of its windows in order of their upper bits, places that documents take
meet         a range of samples: the places of repeated samples
window       a partition: hashes of the windows near these places, one for all equal ones of a run
repeat       a range of hashes: the windows that occur more than once, with their first occurrence
mark         a partition: marked stretches of tokens, and the first occurrences that they copy
locate       a partition: the bytes of its stretches, and of first occurrences that others copy
collect      a partition: its passages, with the documents of first occurrences, and their ids
list         all: `passages.parquet`
cut          a run of files: their texts without passages
"""
