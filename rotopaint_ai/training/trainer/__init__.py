"""The one training loop and its parts. It knows no network: it is given a `task` and a `config`.

`trainer`       the steps (`Trainer.fit`): moving average, checkpoints, exact resume, time limit
`task`          the interface of a network
`config`        what a person decides
`optim`         optimisers and schedules
`activations`   saves memory when it runs out
`log`           the training log
`roofline`      what limits the speed
`launch`        starts processes and binds ranks to NUMA nodes
`group`         communication between ranks
`cores`         threads for computation and for making batches
`onnx_export`   writes a network as ONNX and compares its outputs with torch
"""
