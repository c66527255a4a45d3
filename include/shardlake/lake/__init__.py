"""The dataset: rows to Parquet, published by create-if-absent, verified from the store alone."""
