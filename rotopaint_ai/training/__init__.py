"""Training: from finished roto to a model pack.

    mining -> a data set on disk -> data -> models -> trainer -> pack -> evaluation

`data` reads data sets and makes batches' samples. `evaluation` measures finished packs and files; it knows no network.
`trainer` trains whatever task it is given, and knows no network either. `models` holds one folder per network: net,
losses, figures, and the task that it gives the trainer. `pack` goes the whole way from data sets to a pack. `mining`
makes data sets. `registry` is the table that named parts join. A room imports those below it in this list alone:
`pack` and `mining`, `models`, `trainer`, `evaluation`, `data`, `registry` (`pyproject.toml` has it as a contract).
"""
