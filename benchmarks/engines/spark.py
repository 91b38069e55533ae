"""Spark MLlib's MinHashLSH: hash tables of one value each, and a join that computes every candidate's exact Jaccard."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from pyspark.ml.feature import HashingTF, MinHashLSH, NGram, RegexTokenizer
from pyspark.sql import SparkSession
from pyspark.sql.functions import col, size

from benchmarks.engines.base import SHINGLE
from benchmarks.engines.decider import Decider, rows, without

TABLES = 5  # as in its documentation
FEATURES = 1 << 28  # for two shingles to share one rarely; below the prime of its hash
STRICT = 1e-9  # added to the distance, which it wants greater than a pair's


class Spark(Decider):
    name = "Spark MLlib"
    note = (
        "`RegexTokenizer`, `NGram(5)`, binary `HashingTF`, `MinHashLSH` with the five tables of its documentation, "
        "`approxSimilarityJoin` of the corpus with itself, which verifies; the later document of each pair goes; "
        "`local[cores]`, a heap of at most 8 GiB"
    )

    def keep(self, inputs: Path, threshold: float, scratch: Path) -> NDArray[np.bool_]:
        spark = (
            SparkSession.builder.master(f"local[{self.threads}]")
            .config("spark.driver.memory", "8g")
            .config("spark.sql.shuffle.partitions", 4 * self.threads)
            .config("spark.ui.enabled", "false")
            .config("spark.ui.showConsoleProgress", "false")
            .getOrCreate()
        )
        spark.sparkContext.setLogLevel("ERROR")
        texts = spark.read.parquet(str(inputs)).select(col("id").cast("int"), "text")
        words = RegexTokenizer(inputCol="text", outputCol="words", pattern=r"(?U)\W+").transform(texts)
        shingles = NGram(n=SHINGLE, inputCol="words", outputCol="shingles").transform(words)
        counted = HashingTF(inputCol="shingles", outputCol="features", numFeatures=FEATURES, binary=True)
        features = counted.transform(shingles.where(size("shingles") > 0)).select("id", "features")
        model = MinHashLSH(inputCol="features", outputCol="hashes", numHashTables=TABLES, seed=42).fit(features)
        hashed = model.transform(features).cache()
        pairs = model.approxSimilarityJoin(hashed, hashed, 1 - threshold + STRICT, "distance")
        later = pairs.where("datasetA.id < datasetB.id").select(col("datasetB.id").alias("id")).distinct().collect()
        spark.stop()
        return without(rows(inputs), [row.id for row in later])
