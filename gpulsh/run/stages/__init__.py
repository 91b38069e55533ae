"""The stages of a run over files, in the order of the data. Each is a function of one task.

sign         a partition: text -> band digests and exact hashes in order of their upper bits, facts of documents
copies       a range of exact hashes: later copies and their first ones
collide      a range of digests: candidate pairs, members of large buckets, connected documents
connect      connected documents of all ranges; the independent groups, and their shares
route        pairs, memberships and copies in order of their groups
gather       a partition: texts of documents in candidate pairs, in order of their groups
compare      a share of a group too large for one task: its candidate pairs at or above the threshold
verify       a group: compared exactly, and resolved
collect      a partition: its documents' decisions and ids together
write        a file: its kept rows; all: the evidence, and the counts

By containment, `sign` makes fingerprints instead of digests, and `weigh`, `prefix` and `join` replace
`collide`. With `--key`, `keys` finds the documents that share a key, between `sign` and `copies`. With
`--source-column` or `--date-column` the stage `sight` follows `sign`.
"""
