"""The training loop and its parts, independent of the network, which it gets as a `task` with a `config`.

`trainer`       the steps (`Trainer.fit`): moving average, checkpoints, exact resume, time limit
`task`          the interface of a network
`config`        the fields of a recipe
`optim`         optimisers and schedules
`activations`   saves memory when it runs out
`captured`      steps as CUDA graphs
`log`           the training log
`roofline`      what limits the speed
`launch`        starts processes and binds ranks to NUMA nodes
`group`         communication between ranks
`cores`         threads for computation and for making batches
`onnx_export`   writes a network as ONNX and compares its outputs with torch
"""
