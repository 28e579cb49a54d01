"""The one training loop and what it stands on. It knows no network: it is given a `task` and a `config`.

`trainer` runs the steps (`Trainer.fit`): moving average, checkpoint and exact resume, less memory where it runs out
(`activations`), the time that it may take and the log (`log`), what binds the speed (`roofline`). `task` says what a
network brings, `config` what a person decides, `optim` how weights move. `launch` starts processes and binds ranks to
NUMA nodes, `group` is what ranks tell each other, `cores` has the threads that compute and those who make batches.
`onnx_export` writes a network's file and checks that it says the same.
"""
