"""Training data as shards: WebDataset tars with an index, on disk or streamed from a server into a local cache."""
