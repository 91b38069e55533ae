"""The stages that stand in place of `collide` where the measure is containment: a join over all fingerprints.

weigh        a range of fingerprints: how many documents have each
prefix       a partition: of each document some of its rarest
join         a range of fingerprints: candidate pairs, of a document and another one that has a rare one of it
"""
