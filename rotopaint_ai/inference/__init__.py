"""Packs and their models, run by onnxruntime.

From version 1.32 on, onnxruntime counts its use in a database in the home folder and sends that away. This package
stops it, for this process and those it starts, unless `ORT_DISABLE_TELEMETRY` says otherwise.
"""

import os

os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")
