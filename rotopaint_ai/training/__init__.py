"""Training: from finished roto to a model pack.

    mining -> a data set on disk -> data -> models -> trainer -> pack -> evaluation

`mining`      makes data sets
`data`        reads data sets and makes the samples of batches
`models`      one folder per network: net, losses, metrics, and the task that the trainer runs
`trainer`     trains any task; knows no network
`pack`        the whole way from data sets to a pack
`evaluation`  measures finished packs; knows no network
`registry`    the table of registered parts

A room imports only from rooms that follow it in this list: `pack` and `mining`, `models`, `trainer`, `evaluation`,
`data`, `registry`. `pyproject.toml` has it as a contract.
"""
