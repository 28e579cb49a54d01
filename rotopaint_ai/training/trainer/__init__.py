"""The one training loop and what it stands on. It knows no network: it is given a `task` and a `config`.

`trainer` runs the steps (`Trainer.fit`): moving average, checkpoint and exact resume (`checkpoint`), less memory where
it runs out (`activations`), the log (`log`) and what binds the speed (`profile`). `task` says what a network brings,
`config` and `recipe` what a person decides, `optim` how weights move. `parallel/` starts ranks, binds them to NUMA
nodes and compresses what they exchange; `threads` and `allocator` set up this process. `onnx_export` writes a network's
file and checks that it says the same.
"""
